"""Where kinds live, and how lists and lines are read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import (
    CSINode,
    CSIStorageCapacity,
    Event,
    KubeObject,
    Lease,
    Node,
    ObjectMeta,
    Pod,
    PodDisruptionBudget,
    PriorityClass,
    StorageClass,
)
from mooring.api.codec import KINDS
from mooring.kube import RESOURCES, ApiError, BadAnswer, Change, Gone, resource_of
from mooring.kube.decoding import WatchEvent, decode_line, decode_page
from mooring.kube.object_store import ObjectStore


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (Pod, "/api/v1/namespaces/a/pods/b"),
        (Node, "/api/v1/nodes/b"),
        (PodDisruptionBudget, "/apis/policy/v1/namespaces/a/poddisruptionbudgets/b"),
        (PriorityClass, "/apis/scheduling.k8s.io/v1/priorityclasses/b"),
        (StorageClass, "/apis/storage.k8s.io/v1/storageclasses/b"),
        (CSINode, "/apis/storage.k8s.io/v1/csinodes/b"),
        (CSIStorageCapacity, "/apis/storage.k8s.io/v1/namespaces/a/csistoragecapacities/b"),
        (Lease, "/apis/coordination.k8s.io/v1/namespaces/a/leases/b"),
        (Event, "/apis/events.k8s.io/v1/namespaces/a/events/b"),
    ],
)
def test_paths(kind: type[KubeObject], path: str) -> None:
    assert resource_of(kind).path(namespace="a", name="b") == path


def test_every_kind_of_the_api_has_a_resource() -> None:
    assert set(KINDS.values()) <= set(RESOURCES)


def test_names_cannot_leave_their_place() -> None:
    path = resource_of(Pod).path(namespace="a", name="../../nodes/x?y", subresource="binding")
    assert path == "/api/v1/namespaces/a/pods/..%2F..%2Fnodes%2Fx%3Fy/binding"
    assert str(resource_of(Lease)) == "leases.coordination.k8s.io"
    assert resource_of(Pod).path() == "/api/v1/pods"


@pytest.mark.parametrize(
    ("body", "names", "version", "token"),
    [
        (b'{"kind":"PodList","metadata":{"resourceVersion":"5"},"items":[{"metadata":{"name":"a"}}]}', ["a"], "5", ""),
        (b'{"kind":"PodList","metadata":{"resourceVersion":"5","continue":"t"},"items":null}', [], "5", "t"),
        (
            b'{"kind":"PodList","metadata":{},"items":[{"metadata":{"name":"a"},"spec":{"containers":null}}]}',
            ["a"],
            "",
            "",
        ),
        (b'{"kind":"PodList","metadata":{},"items":[{"spec":7},{"metadata":{"name":"b"}}]}', ["b"], "", ""),
    ],
)
def test_pages(body: bytes, names: list[str], version: str, token: str) -> None:
    page = decode_page(body, resource_of(Pod))
    assert ([pod.name for pod in page.items], page.resource_version, page.continue_token) == (names, version, token)
    assert all(pod.kind == "Pod" for pod in page.items)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"<html>",
        b'{"metadata":3}',
        b'{"metadata":{},"items":{}}',
        b'{"metadata":{},"items":[]}',
        b'{"kind":"Status","metadata":{},"status":"Failure"}',
        b'{"error":"log in"}',
    ],
)
def test_what_is_no_list(body: bytes) -> None:
    with pytest.raises(BadAnswer):
        decode_page(body, resource_of(Pod))


@pytest.mark.parametrize("kind", [Pod, Lease])
def test_lines(kind: type[KubeObject]) -> None:
    resource = resource_of(kind)
    # Lease has no status of its own, so its decoder would take a Status for a Lease.
    added = decode_line(b'{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"7"}}}', resource)
    assert isinstance(added, WatchEvent)
    assert (added.type, added.version) == ("ADDED", "7")
    error = decode_line(b'{"type":"ERROR","object":{"status":"Failure","code":410,"reason":"Expired"}}', resource)
    assert isinstance(error, Gone)
    odd = decode_line(b'{"type":"MODIFIED","object":{"spec":"x","metadata":{"resourceVersion":"8"}}}', resource)
    assert odd == WatchEvent("MODIFIED", None, "8")
    gone = decode_line(b'{"type":"DELETED","object":{"spec":"x","metadata":{"name":"n"}}}', resource)
    assert isinstance(gone, WatchEvent)
    assert gone.object is not None
    assert gone.object.name == "n"
    vague = decode_line(b'{"type":"ERROR","object":"?"}', resource)
    assert isinstance(vague, ApiError)
    assert vague.status == 500


@pytest.mark.parametrize("line", [b"{", b"[]", b'{"type":"ADDED"}', b'{"type":"SHOUTED","object":{}}'])
def test_what_is_no_line(line: bytes) -> None:
    with pytest.raises(BadAnswer):
        decode_line(line, resource_of(Pod))


def node(name: str, uid: int, version: int) -> Node:
    return Node(metadata=ObjectMeta(name=name, uid=str(uid), resource_version=str(version)))


SIGHTS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2), st.integers(0, 5), st.booleans()), max_size=30)


@given(SIGHTS, SIGHTS)
def test_changes_always_lead_from_what_was_to_what_is(
    before: list[tuple[str, int, int, bool]], listed: list[tuple[str, int, int, bool]]
) -> None:
    known: ObjectStore[Node] = ObjectStore(namespaced=False)
    view: dict[str, Node] = {}

    def apply(changes: list[Change[Node]]) -> None:
        for change in changes:
            assert view.get(change.object.name) is change.old
            if change.new is None:
                del view[change.object.name]
            else:
                view[change.object.name] = change.new

    for name, uid, version, deleted in before:
        changes: list[Change[Node]] = []
        (known.remove if deleted else known.store)(node(name, uid, version), changes)
        apply(changes)
        assert view == known.objects
    known.begin()
    items = {name: node(name, uid, version) for name, uid, version, _ in listed}
    apply(known.store_all(items.values()))
    apply(known.end())
    assert view == known.objects
    assert set(view) == set(items)
    assert all(view[name].uid == item.uid for name, item in items.items())


def test_versions_that_are_no_numbers_still_make_changes() -> None:
    known: ObjectStore[Node] = ObjectStore(namespaced=False)
    objects = [Node(metadata=ObjectMeta(name="a", resource_version=version)) for version in ("x", "x", "a")]
    assert [change.action for change in known.store_all(objects)] == ["add", "update"]
