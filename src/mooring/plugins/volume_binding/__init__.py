"""VolumeBinding and its parts: matching claims with volumes, making volumes, assuming and binding."""

from mooring.plugins.volume_binding.plugin import VolumeBinding

__all__ = ["VolumeBinding"]
