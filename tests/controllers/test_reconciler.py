from __future__ import annotations

import msgspec

from mooring.api.core import Namespace
from mooring.api.pod import Pod
from mooring.controllers.reconciler import ObjectCache, Selection
from mooring.kube import Change


def pod(uid: str) -> Pod:
    return msgspec.convert({"metadata": {"name": "p", "namespace": "n", "uid": uid}}, Pod)


def test_objects_are_cached_by_kind_and_key() -> None:
    cache, first = ObjectCache(), pod("1")
    space = msgspec.convert({"metadata": {"name": "n"}}, Namespace)
    cache.apply(Change(None, first))
    cache.apply(Change(None, space))
    assert cache.get(Pod, "n/p") is first
    assert cache.all(Namespace) == {"n": space}
    cache.apply(Change(first, None))
    assert cache.get(Pod, "n/p") is None


def test_a_late_deletion_does_not_remove_the_replacement() -> None:
    cache, first, second = ObjectCache(), pod("1"), pod("2")
    cache.apply(Change(None, first))
    cache.apply(Change(None, second))
    cache.apply(Change(first, None))
    assert cache.get(Pod, "n/p") is second


def test_equal_selections_share_an_informer() -> None:
    assert Selection.of(Pod, labels="a") == Selection.of(Pod, labels="a")
    assert len({Selection.of(Pod), Selection.of(Pod), Selection.of(Pod, fields="f")}) == 2
