"""The garbage collector: deletes objects whose owners no longer exist, by the propagation policy."""

from collections.abc import Iterable
from typing import Final

from mooring.apiserver.documents import Document, with_metadata
from mooring.cluster.controllers.controller import Controller, Key
from mooring.cluster.deletion import FOREGROUND, ORPHAN, DeleteOptions
from mooring.cluster.store import ADDED, DELETED, Change

_SEPARATOR: Final = "\x00"


class GarbageCollector(Controller):
    """A controller that deletes objects without existing owners, and finishes the deletion of owners.

    The namespace of a key holds the resource and the namespace.
    """

    name = "garbage-collector-controller"

    def keys_for(self, storage: str, change: Change) -> Iterable[Key]:
        """Return a deleted object, and its dependents."""
        document = change.stored.document
        metadata = document["metadata"]
        own = (f"{storage}{_SEPARATOR}{metadata.get('namespace', '')}", metadata["name"])
        if change.kind == DELETED:
            found = [own] if metadata.get("ownerReferences") else []
            for kind, namespace, name in self.tools.index.owned_keys(metadata["uid"]):
                found.append((f"{kind}{_SEPARATOR}{namespace}", name))
            return found + self._blocked(document)
        if change.kind == ADDED and metadata.get("ownerReferences"):
            return [own]
        if {ORPHAN, FOREGROUND} & set(metadata.get("finalizers", ())) and metadata.get("deletionTimestamp"):
            return [own]
        return []

    def _blocked(self, document: Document) -> list[Key]:
        """Return the owners of a deleted object, whose deletion it may have blocked."""
        found: list[Key] = []
        for owner in document["metadata"].get("ownerReferences", ()):
            place = self._place(owner, document["metadata"].get("namespace", ""))
            if place is not None:
                found.append((f"{place[0]}{_SEPARATOR}{place[1]}", owner["name"]))
        return found

    def _place(self, owner: Document, namespace: str) -> tuple[str, str] | None:
        """Return the resource and the namespace of an owner, or None if its kind is not served."""
        resource = self.tools.registry.mapper.of_kind(owner.get("apiVersion", ""), owner.get("kind", ""))
        if resource is None:
            return None
        return resource.stored_as, namespace if resource.namespaced else ""

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Finish the deletion of an owner, or delete an object without owners."""
        storage, _, space = namespace.partition(_SEPARATOR)
        document = self.tools.find(storage, space, name)
        if document is None:
            return None
        metadata = document["metadata"]
        if metadata.get("deletionTimestamp"):
            self._finish_deletion(storage, document)
        elif metadata.get("ownerReferences"):
            self._collect(storage, document)
        return None

    def _collect(self, storage: str, document: Document) -> None:
        metadata = document["metadata"]
        owners = metadata["ownerReferences"]
        alive = [each for each in owners if self._exists(each, metadata.get("namespace", ""))]
        if len(alive) == len(owners):
            return
        space = metadata.get("namespace", "")
        if alive:
            self.tools.store.put(storage, space, metadata["name"], with_metadata(document, ownerReferences=alive))
        else:
            self.tools.delete(storage, space, metadata["name"], DeleteOptions(propagation="Background"))

    def _exists(self, owner: Document, namespace: str) -> bool:
        place = self._place(owner, namespace)
        if place is None:
            # The kind is not served, so the owner may exist elsewhere.
            return True
        found = self.tools.find(*place, owner["name"])
        return found is not None and found["metadata"]["uid"] == owner["uid"]

    def _finish_deletion(self, storage: str, document: Document) -> None:
        metadata = document["metadata"]
        finalizers = metadata.get("finalizers", [])
        if ORPHAN in finalizers:
            self._orphan(metadata["uid"])
            self._without(storage, document, ORPHAN)
        elif FOREGROUND in finalizers:
            blocking = self._delete_owned(metadata["uid"])
            if not blocking:
                self._without(storage, document, FOREGROUND)

    def _orphan(self, uid: str) -> None:
        for kind, namespace, name in self.tools.index.owned_keys(uid):
            self.tools.registry.modify(
                kind,
                namespace,
                name,
                lambda each: with_metadata(
                    each,
                    ownerReferences=[ref for ref in each["metadata"]["ownerReferences"] if ref["uid"] != uid] or None,
                ),
            )

    def _delete_owned(self, uid: str) -> bool:
        """Delete the dependents of an owner, and return whether any of them still blocks its deletion."""
        for kind, namespace, name in self.tools.index.owned_keys(uid):
            self.tools.delete(kind, namespace, name, DeleteOptions(propagation="Foreground"))
        return any(
            ref["uid"] == uid and ref.get("blockOwnerDeletion")
            for each in self.tools.index.owned(uid)
            for ref in each["metadata"].get("ownerReferences", ())
        )

    def _without(self, storage: str, document: Document, finalizer: str) -> None:
        metadata = document["metadata"]
        self.tools.registry.modify(
            storage,
            metadata.get("namespace", ""),
            metadata["name"],
            lambda each: with_metadata(
                each,
                finalizers=[name for name in each["metadata"].get("finalizers", ()) if name != finalizer] or None,
            ),
        )
