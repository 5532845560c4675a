"""ObjectStore: a first list, which is stored as a whole, gives the same changes as objects one by one."""

from __future__ import annotations

from mooring.api import Pod
from mooring.api.meta import ObjectMeta
from mooring.kube.object_store import Change, ObjectStore


def _pod(name: str, version: str = "1", uid: str = "") -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace="n", resource_version=version, uid=uid or name))


def test_new_objects_are_additions() -> None:
    store: ObjectStore[Pod] = ObjectStore(namespaced=True)
    store.begin()
    pods = [_pod("a"), _pod("b")]
    changes = store.store_all(pods)
    assert changes == [Change(None, pods[0]), Change(None, pods[1])]
    assert all(type(change) is Change for change in changes)
    assert changes[0].action == "add"
    assert store.end() == []
    assert list(store.objects) == ["n/a", "n/b"]


def test_known_and_repeated_objects_are_compared() -> None:
    store: ObjectStore[Pod] = ObjectStore(namespaced=True)
    old, new, same = _pod("a"), _pod("a", "2"), _pod("b")
    store.begin()
    assert store.store_all([old, new]) == [Change(None, old), Change(old, new)]
    assert store.store_all([new, same]) == [Change(None, same)]
    again = _pod("b", uid="other")
    assert store.store_all([again]) == [Change(same, None), Change(None, again)]
    assert store.end() == []


def test_what_a_later_list_lacks_is_deleted() -> None:
    store: ObjectStore[Pod] = ObjectStore(namespaced=True)
    first, second, third = _pod("a"), _pod("b"), _pod("c")
    store.begin()
    store.store_all([first])
    # The list failed, and begins again.
    store.begin()
    store.store_all([second])
    store.store_all([third])
    assert store.end() == [Change(first, None)]
    assert list(store.objects) == ["n/b", "n/c"]
