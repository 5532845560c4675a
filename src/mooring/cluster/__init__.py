"""The embedded cluster: the Kubernetes API, controllers and fake nodes in one process.

`EmbeddedCluster` is the interface; `mooring.cluster.serving` runs one until it is stopped. Only the command line and
the test helpers import this package.
"""

from mooring.cluster.embedded import EmbeddedCluster
from mooring.cluster.persistence import DataError

__all__ = ["DataError", "EmbeddedCluster"]
