"""Namespaces: what every one has, and how one goes with all that is in it."""

from collections.abc import Iterable
from typing import Final

from mooring.cluster.controllers.base import Controller, Name
from mooring.cluster.store import DELETED, Change

_KEPT_BUSY: Final = 0.2


class Namespaces(Controller):
    """Gives new namespaces their service account, and empties those that are deleted."""

    def concerns(self, storage: str, change: Change) -> Iterable[Name]:
        """The namespace itself, or the one that an object left."""
        metadata = change.stored.document["metadata"]
        if storage == "namespaces":
            return [("", metadata["name"])]
        if change.kind != DELETED or not metadata.get("namespace"):
            return []
        space = self.tools.find("namespaces", "", metadata["namespace"])
        return [("", metadata["namespace"])] if space and space["metadata"].get("deletionTimestamp") else []

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Fill or empty the namespace."""
        document = self.tools.find("namespaces", "", name)
        if document is None:
            return None
        if not document["metadata"].get("deletionTimestamp"):
            if self.tools.find("serviceaccounts", name, "default") is None:
                self.tools.create("serviceaccounts", name, {"metadata": {"name": "default"}})
            return None
        if self._empty(name):
            spec = {**document["spec"], "finalizers": [
                each for each in document["spec"].get("finalizers", ()) if each != "kubernetes"
            ]}  # fmt: skip
            if not spec["finalizers"]:
                del spec["finalizers"]
            self.tools.registry.modify("namespaces", "", name, lambda each: {**each, "spec": spec})
            return None
        return _KEPT_BUSY

    def _empty(self, name: str) -> bool:
        """Delete everything in the namespace; whether nothing is left."""
        left = False
        for storage in self.tools.store.storages():
            for stored in list(self.tools.store.objects(storage, name)):
                metadata = stored.document["metadata"]
                if not metadata.get("deletionTimestamp"):
                    self.tools.delete(storage, name, metadata["name"])
                left = left or self.tools.find(storage, name, metadata["name"]) is not None
        return not left
