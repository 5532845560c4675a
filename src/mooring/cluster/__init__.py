"""The embedded cluster: a store with resource versions, the HTTP API that kubectl speaks, and fake nodes."""

from mooring.cluster.embedded import EmbeddedCluster

__all__ = ["EmbeddedCluster"]
