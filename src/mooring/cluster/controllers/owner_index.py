"""Indexes of objects by owner and of pods by node, updated with every change."""

from mooring.apiserver.documents import Document, controller_of
from mooring.cluster.store import DELETED, Change, Store

#: A resource, a namespace and a name.
Key = tuple[str, str, str]


class OwnerIndex:
    """An index of objects by owner, of pods by node, and of pods without a controller."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._owned: dict[str, set[Key]] = {}
        self._on_node: dict[str, set[tuple[str, str]]] = {}
        self._orphans: dict[str, set[str]] = {}
        for storage in store.storages():
            for stored in store.objects(storage):
                self._add(storage, stored.document)
        store.subscribe_immediately(self._changed)

    def owned(self, uid: str, storage: str | None = None) -> list[Document]:
        """Return all dependents of an owner, or those of one resource."""
        found: list[Document] = []
        for key in sorted(self._owned.get(uid, ())):
            if storage is None or key[0] == storage:
                stored = self._store.get(*key)
                if stored is not None:
                    found.append(stored.document)
        return found

    def owned_keys(self, uid: str) -> list[Key]:
        """Return the keys of the dependents of an owner."""
        return sorted(self._owned.get(uid, ()))

    def controlled(self, uid: str, storage: str) -> list[Document]:
        """Return the objects of a resource that an owner controls."""
        return [each for each in self.owned(uid, storage) if (controller_of(each) or {}).get("uid") == uid]

    def on_node(self, name: str) -> list[Document]:
        """Return the pods that are bound to a node."""
        stored = [self._store.get("pods", *key) for key in sorted(self._on_node.get(name, ()))]
        return [each.document for each in stored if each is not None]

    def orphans(self, namespace: str) -> list[Document]:
        """Return the pods of a namespace without a controller."""
        stored = [self._store.get("pods", namespace, name) for name in sorted(self._orphans.get(namespace, ()))]
        return [each.document for each in stored if each is not None]

    def _changed(self, storage: str, change: Change) -> None:
        if change.previous is not None:
            before, after = change.previous.document, change.stored.document
            if change.kind != DELETED and _same(before, after):
                return
            self._remove(storage, before)
        if change.kind != DELETED:
            self._add(storage, change.stored.document)

    def _add(self, storage: str, document: Document) -> None:
        metadata = document["metadata"]
        key = (storage, metadata.get("namespace", ""), metadata["name"])
        for owner in metadata.get("ownerReferences", ()):
            self._owned.setdefault(owner["uid"], set()).add(key)
        if storage == "pods":
            if node := document["spec"].get("nodeName"):
                self._on_node.setdefault(node, set()).add(key[1:])
            if controller_of(document) is None:
                self._orphans.setdefault(key[1], set()).add(key[2])

    def _remove(self, storage: str, document: Document) -> None:
        metadata = document["metadata"]
        key = (storage, metadata.get("namespace", ""), metadata["name"])
        for owner in metadata.get("ownerReferences", ()):
            owned = self._owned.get(owner["uid"])
            if owned is not None:
                owned.discard(key)
                if not owned:
                    del self._owned[owner["uid"]]
        if storage == "pods":
            self._on_node.get(document["spec"].get("nodeName", ""), set()).discard(key[1:])
            self._orphans.get(key[1], set()).discard(key[2])


def _same(before: Document, after: Document) -> bool:
    """Return whether a change does not affect the index."""
    if before["metadata"].get("ownerReferences") != after["metadata"].get("ownerReferences"):
        return False
    return bool((before.get("spec") or {}).get("nodeName") == (after.get("spec") or {}).get("nodeName"))
