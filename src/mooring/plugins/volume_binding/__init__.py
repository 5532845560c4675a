"""VolumeBinding: matches claims with volumes, provisions volumes, and binds them."""

from mooring.plugins.volume_binding.plugin import VolumeBinding

__all__ = ["VolumeBinding"]
