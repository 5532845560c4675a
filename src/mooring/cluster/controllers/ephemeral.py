"""Claims that pods bring along: made with the pod, gone with it."""

from collections.abc import Iterable

from mooring.apiserver.workloads import ephemeral_claims
from mooring.cluster.controllers.base import Controller, Name
from mooring.cluster.controllers.volumes import CLAIMS
from mooring.cluster.store import ADDED, Change


class EphemeralClaims(Controller):
    """Makes the claims of generic ephemeral volumes."""

    watched = frozenset({"pods"})

    def concerns(self, storage: str, change: Change) -> Iterable[Name]:
        """New pods that have such volumes."""
        document = change.stored.document
        if storage != "pods" or change.kind != ADDED:
            return []
        metadata = document["metadata"]
        has = any("ephemeral" in each for each in document["spec"].get("volumes") or ())
        return [(metadata["namespace"], metadata["name"])] if has else []

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Make what is missing."""
        pod = self.tools.find("pods", namespace, name)
        if pod is None or pod["metadata"].get("deletionTimestamp"):
            return None
        for claim in ephemeral_claims(pod):
            if self.tools.find(CLAIMS, namespace, claim["metadata"]["name"]) is None:
                self.tools.create(CLAIMS, namespace, claim)
        return None
