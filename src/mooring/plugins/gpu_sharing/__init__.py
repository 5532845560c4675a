"""GpuSharing: places pods on GPUs, whole or shared, with a choice of packing policies."""

from mooring.plugins.gpu_sharing.plugin import GpuSharing

__all__ = ["GpuSharing"]
