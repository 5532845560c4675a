"""GpuSharing: places pods on GPUs, whole or shared, with a choice of packing policies."""
