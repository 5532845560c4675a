"""InterPodAffinity: pod affinity and anti-affinity."""

from mooring.plugins.inter_pod_affinity.plugin import InterPodAffinity

__all__ = ["InterPodAffinity"]
