"""The embedded cluster: a store with resource versions, the HTTP API that kubectl speaks, and fake nodes.

`EmbeddedCluster` is all that others need; `mooring.cluster.serving` runs one until it is told to end.
"""

from mooring.cluster.embedded import EmbeddedCluster
from mooring.cluster.persistence import DataError

__all__ = ["DataError", "EmbeddedCluster"]
