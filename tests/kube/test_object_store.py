"""ObjectStore: a first list, which is stored as a whole, gives the same changes as objects one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mooring.api import Pod
from mooring.api.meta import ObjectMeta
from mooring.kube.object_store import Change, ObjectStore, is_newer
from mooring.kube.reflector import _is_older


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


_VERSIONS = st.one_of(
    st.integers(0, 1200).map(str),
    st.integers(0, 1200).map("{:05d}".format),
    st.integers(10**5000, 10**5000 + 2).map(lambda number: "9" * 5000 + str(number % 10)),
    st.sampled_from(["", "a", "b", "12a", "-1", "1.5"]),
)


@given(_VERSIONS, _VERSIONS)
def test_versions_are_compared_as_numbers(one: str, other: str) -> None:
    if not (one.isdecimal() and other.isdecimal()):
        assert is_newer(one, other) == (one != other)
        assert not _is_older(one, other)
        return
    left, right = one.lstrip("0").rjust(6000, "0"), other.lstrip("0").rjust(6000, "0")
    assert is_newer(one, other) == (left > right)
    assert _is_older(one, other) == (left < right)
