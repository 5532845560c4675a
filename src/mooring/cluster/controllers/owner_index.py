"""Indexes of objects by owner and of pods by node, updated with every change."""

from typing import Final

from mooring.api.label_selectors import IN, Selector
from mooring.apiserver.documents import Document, controller_of
from mooring.cluster.store import DELETED, Change, Store

#: A resource, a namespace and a name.
Key = tuple[str, str, str]
#: The resources whose objects controllers adopt.
_ADOPTED: Final = frozenset({"controllerrevisions.apps", "pods", "replicasets.apps"})


class OwnerIndex:
    """An index of objects by owner, of pods by node, and of objects without a controller that one could adopt."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._owned: dict[str, set[Key]] = {}
        self._on_node: dict[str, set[tuple[str, str]]] = {}
        #: The names of orphans by resource, namespace and label, and without a label for all of them.
        self._orphans: dict[tuple[str, str, tuple[str, str] | None], set[str]] = {}
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

    def orphans(self, storage: str, namespace: str, selector: Selector) -> list[Document]:
        """Return the objects of a namespace without a controller that a selector matches."""
        exact = next((each for each in selector.requirements if each.operator == IN), None)
        labels = [None] if exact is None else [(exact.key, value) for value in exact.values]
        names = {name for label in labels for name in self._orphans.get((storage, namespace, label), ())}
        stored = [self._store.get(storage, namespace, name) for name in sorted(names)]
        return [
            each.document
            for each in stored
            if each is not None and selector.matches(each.document["metadata"].get("labels") or {})
        ]

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
        if storage == "pods" and (node := document["spec"].get("nodeName")):
            self._on_node.setdefault(node, set()).add(key[1:])
        if storage in _ADOPTED and controller_of(document) is None:
            for label in (None, *(metadata.get("labels") or {}).items()):
                self._orphans.setdefault((*key[:2], label), set()).add(key[2])

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
        if storage in _ADOPTED:
            for label in (None, *(metadata.get("labels") or {}).items()):
                names = self._orphans.get((*key[:2], label))
                if names is not None:
                    names.discard(key[2])
                    if not names:
                        del self._orphans[*key[:2], label]


def _same(before: Document, after: Document) -> bool:
    """Return whether a change does not affect the index."""
    if any(before["metadata"].get(key) != after["metadata"].get(key) for key in ("ownerReferences", "labels")):
        return False
    return bool((before.get("spec") or {}).get("nodeName") == (after.get("spec") or {}).get("nodeName"))
