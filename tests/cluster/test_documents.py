"""Reading documents: shapes, quantities, patches, protobuf, selectors and the certificate."""

import struct
from typing import Any

import pytest

from mooring.api.protobuf import ProtobufError, decode_object
from mooring.apiserver.quantities import QuantityTextError, canonical_quantity
from mooring.cluster.errors import ApiError
from mooring.cluster.patching import json_patch, merge_patch, strategic_merge_patch
from mooring.cluster.schema.check import DecodeError, check
from mooring.cluster.schema.kubernetes import definitions, shape_of
from mooring.cluster.selectors import parse_label_selector
from mooring.cluster.store import Store
from mooring.cluster.tables import human_duration

POD = shape_of("", "v1", "Pod")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1024Mi", "1Gi"),
        (2, "2"),
        (1.5, "1500m"),
        ("1e3", "1e3"),
        ("0.5Gi", "512Mi"),
        ("1536Mi", "1536Mi"),
        ("100k", "100k"),
        ("1E", "1E"),
        ("0", "0"),
        ("1000", "1k"),
        ("12345", "12345"),
        ("512Ki", "512Ki"),
        ("-1", "-1"),
        ("1u", "1u"),
    ],
)
def test_quantities_are_written_as_kubernetes_writes_them(text: Any, expected: str) -> None:
    """The largest unit that loses nothing."""
    assert canonical_quantity(text) == expected


@pytest.mark.parametrize("text", ["", "1x", "abc", "1 Gi", None, [], "1.2.3"])
def test_what_is_no_quantity(text: Any) -> None:
    """Is refused in Kubernetes' words."""
    with pytest.raises((QuantityTextError, TypeError), match=r"quantities must match|unhashable"):
        canonical_quantity(text)


@pytest.mark.parametrize(
    ("document", "cleaned", "unknown"),
    [
        ({"spec": {"nodeName": None}}, {"spec": {}, "status": {}}, []),
        ({"spec": {"tolerations": [], "nodeSelector": {}}}, {"spec": {}, "status": {}}, []),
        (
            {"spec": {"foo": 1, "volumes": [{"bar": 2}]}},
            {"spec": {"volumes": [{"name": ""}]}, "status": {}},
            ["spec.foo", "spec.volumes[0].bar"],
        ),
        ({"metadata": {"labels": {"a": None}}}, {"metadata": {"labels": {"a": ""}}, "spec": {}, "status": {}}, []),
        ({"spec": {"priority": 5.0}}, {"spec": {"priority": 5}, "status": {}}, []),
        ({"spec": {"affinity": {}}}, {"spec": {"affinity": {}}, "status": {}}, []),
    ],
)
def test_documents_are_cleaned(document: dict[str, Any], cleaned: dict[str, Any], unknown: list[str]) -> None:
    """Nothing, null and empty are the same for lists and maps; an empty object is not nothing."""
    assert check(document, POD) == unknown
    assert document == cleaned


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            {"spec": {"containers": {}}},
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            {"spec": {"priority": "x"}},
            "json: cannot unmarshal string into Go struct field PodSpec.spec.priority of type int32",
        ),
        (
            {"spec": {"priority": 2**31}},
            "json: cannot unmarshal number 2147483648 into Go struct field PodSpec.spec.priority of type int32",
        ),
        (
            {"spec": {"hostNetwork": 1}},
            "json: cannot unmarshal number into Go struct field PodSpec.spec.hostNetwork of type bool",
        ),
        (
            {"metadata": {"labels": {"a": 1}}},
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            {"metadata": {"creationTimestamp": "now"}},
            'parsing time "now" as "2006-01-02T15:04:05Z07:00": cannot parse "now" as "2006"',
        ),
    ],
)
def test_wrong_types(document: dict[str, Any], message: str) -> None:
    """As Go's decoder tells them."""
    with pytest.raises(DecodeError) as error:
        check(document, POD)
    assert str(error.value) == message


def test_every_definition_has_a_shape() -> None:
    """So that no kind fails only when somebody uses it."""
    for name in definitions().raw:
        assert definitions().shape(name).kind


CONTAINERS = {"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}}


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"containers": [{"name": "b", "image": "3"}]}, [("a", "1"), ("b", "3")]),
        ({"containers": [{"name": "c", "image": "3"}]}, [("a", "1"), ("b", "2"), ("c", "3")]),
        ({"containers": [{"name": "a", "$patch": "delete"}]}, [("b", "2")]),
        ({"containers": [{"$patch": "replace"}, {"name": "z", "image": "9"}]}, [("z", "9")]),
        ({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}, [("b", "2"), ("a", "1")]),
        (
            {
                "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
                "containers": [{"name": "c", "image": "3"}],
            },
            [("b", "2"), ("c", "3"), ("a", "1")],
        ),
        ({"$retainKeys": ["containers"], "containers": [{"name": "a", "image": None}]}, [("a", None), ("b", "2")]),
    ],
)
def test_strategic_merge_patches(patch: dict[str, Any], expected: list[tuple[str, str | None]]) -> None:
    """Lists merge by their keys, and orders beside the values are followed."""
    result = strategic_merge_patch(CONTAINERS, {"spec": patch}, POD)
    found = [(each["name"], each.get("image")) for each in result["spec"]["containers"]]
    assert sorted(found, key=str) == sorted(expected, key=str)
    if "$setElementOrder/containers" in patch:
        order = [each["name"] for each in patch["$setElementOrder/containers"]]
        assert [name for name, _ in found if name in order] == order
    else:
        assert found == expected


def test_primitive_lists_in_strategic_patches() -> None:
    """Merge where the field says so, and elements can be taken out."""
    old = {"metadata": {"finalizers": ["a", "b"]}, "spec": {"containers": [], "nodeSelector": {"x": "1", "y": "2"}}}
    patch = {
        "metadata": {"finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"]},
        "spec": {"nodeSelector": {"x": None}},
    }
    result = strategic_merge_patch(old, patch, POD)
    assert result["metadata"]["finalizers"] == ["b", "c"]
    assert result["spec"]["nodeSelector"] == {"y": "2"}
    replaced = strategic_merge_patch(old, {"spec": {"nodeSelector": {"$patch": "replace", "z": "3"}}}, POD)
    assert replaced["spec"]["nodeSelector"] == {"z": "3"}
    with pytest.raises(ApiError, match="does not contain declared merge key: name"):
        strategic_merge_patch(CONTAINERS, {"spec": {"containers": [{"image": "x"}]}}, POD)


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([{"op": "add", "path": "/l/0", "value": 0}], {"l": [0, 1, 2], "a/b": {"~": 3}}),
        ([{"op": "add", "path": "/l/-", "value": 3}], {"l": [1, 2, 3], "a/b": {"~": 3}}),
        ([{"op": "remove", "path": "/a~1b/~0"}], {"l": [1, 2], "a/b": {}}),
        ([{"op": "replace", "path": "/l/1", "value": 9}], {"l": [1, 9], "a/b": {"~": 3}}),
        ([{"op": "copy", "from": "/l", "path": "/m"}], {"l": [1, 2], "a/b": {"~": 3}, "m": [1, 2]}),
        ([{"op": "test", "path": "/l", "value": [1, 2]}, {"op": "remove", "path": "/l"}], {"a/b": {"~": 3}}),
        ([{"op": "test", "path": "/l", "value": 5}], None),
        ([{"op": "remove", "path": "/nope"}], None),
        ([{"op": "replace", "path": "/l/7", "value": 1}], None),
        ([{"op": "frob", "path": "/l"}], None),
        ([{"op": "add", "path": "/l"}], None),
        ({}, None),
    ],
)
def test_json_patches(operations: Any, expected: Any) -> None:
    """All operations, and what fails fails whole."""
    target = {"l": [1, 2], "a/b": {"~": 3}}
    if expected is None:
        with pytest.raises(ApiError):
            json_patch(target, operations)
    else:
        assert json_patch(target, operations) == expected
    assert target == {"l": [1, 2], "a/b": {"~": 3}}


def test_merge_patches() -> None:
    """RFC 7386: null removes, objects merge, the rest replaces."""
    assert merge_patch({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": None, "e": 3}, "d": [2]}) == {
        "a": {"c": 2, "e": 3},
        "d": [2],
    }


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("a=1", {"a": "1"}, True),
        ("a==1", {"a": "2"}, False),
        ("a!=1", {}, True),
        ("a", {"a": ""}, True),
        ("!a", {"a": "1"}, False),
        ("a in (1, 2)", {"a": "2"}, True),
        ("a notin (1)", {"a": "1"}, False),
        ("a>3", {"a": "4"}, True),
        ("a<3", {"a": "4"}, False),
        ("a=1,b in (x),!c", {"a": "1", "b": "x"}, True),
        ("a=", {"a": ""}, True),
        ("ex.io/k=v", {"ex.io/k": "v"}, True),
        ("", {}, True),
        ("in in (notin)", {"in": "notin"}, True),
    ],
)
def test_label_selectors(text: str, labels: dict[str, str], matches: bool) -> None:
    """As they stand in a query."""
    assert parse_label_selector(text).matches(labels) is matches


@pytest.mark.parametrize("text", ["a in 1", "a b", "a=1,", "=1", "a in (", "a>x", "a=b c"])
def test_bad_label_selectors(text: str) -> None:
    """Are refused."""
    with pytest.raises(ApiError):
        parse_label_selector(text)


def _field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return bytes([number << 3]) + _varint(value)
    return bytes([number << 3 | 2]) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    value %= 2**64
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def _envelope(version: bytes, kind: bytes, raw: bytes) -> bytes:
    return b"k8s\x00" + _field(1, _field(1, version) + _field(2, kind)) + _field(2, raw)


def test_protobuf_is_read() -> None:
    """Zeros of plain fields are left out, those of pointers stay; maps, lists, times and quantities are understood."""
    metadata = _field(1, b"d") + _field(3, b"") + _field(8, b"") + _field(11, _field(1, b"k") + _field(2, b"v"))
    container = (
        _field(1, b"c")
        + _field(2, b"img")
        + _field(8, _field(1, _field(1, b"cpu") + _field(2, _field(1, b"500m"))))
        + _field(6, _field(3, 80))
    )
    volume = _field(1, b"v") + _field(2, _field(2, b""))
    spec = _field(1, volume) + _field(2, container) + _field(10, b"") + _field(11, 0)
    rolling = _field(2, _field(1, 1) + _field(3, b"25%")) + _field(1, _field(1, 0) + _field(2, 1))
    deployment = (
        _field(1, 0)
        + _field(3, _field(1, b"") + _field(2, spec))
        + _field(4, _field(1, b"RollingUpdate") + _field(2, rolling))
    )
    found = decode_object(_envelope(b"apps/v1", b"Deployment", _field(1, metadata) + _field(2, deployment)))
    assert found == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "labels": {"k": "v"}},
        "spec": {
            "replicas": 0,
            "template": {
                "spec": {
                    "volumes": [{"name": "v", "emptyDir": {}}],
                    "containers": [
                        {
                            "name": "c",
                            "image": "img",
                            "resources": {"limits": {"cpu": "500m"}},
                            "ports": [{"containerPort": 80}],
                        }
                    ],
                }
            },
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
        },
    }
    secret = _field(1, _field(1, b"s")) + _field(2, _field(1, b"k") + _field(2, b"\x00\xff"))
    assert decode_object(_envelope(b"v1", b"Secret", secret))["data"] == {"k": "AP8="}
    lease = _field(1, _field(1, b"l")) + _field(2, _field(4, _field(1, 1_700_000_000) + _field(2, 5000)))
    assert decode_object(_envelope(b"coordination.k8s.io/v1", b"Lease", lease))["spec"] == {
        "renewTime": "2023-11-14T22:13:20.000005Z"
    }


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"k8s\x00\xff",
        b"k8s\x00\x0a\x7f",
        _envelope(b"v1", b"Nonsense", b""),
        b"k8s\x00" + struct.pack("<q", -1) * 3,
    ],
)
def test_what_is_no_protobuf(body: bytes) -> None:
    """Is refused, however it is damaged."""
    with pytest.raises(ProtobufError):
        decode_object(body)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (150, "2m30s"),
        (600, "10m"),
        (10800, "3h"),
        (12000, "3h20m"),
        (172800, "2d"),
        (180000, "2d2h"),
        (86400 * 900, "2y170d"),
        (-5, "<invalid>"),
    ],
)
def test_ages(seconds: int, text: str) -> None:
    """As kubectl writes them."""
    assert human_duration(seconds) == text


def test_the_store_forgets_old_changes() -> None:
    """As many as it is told to remember; from before, nothing is answered."""
    store = Store(history=3)
    for number in range(5):
        store.put("x", "", f"o{number}", {"metadata": {"name": f"o{number}"}})
    assert store.since("x", 1) is None
    changes = store.since("x", 2)
    assert changes is not None
    assert [each.version for each in changes] == [3, 4, 5]
    assert store.since("x", 5) == []
    store.compact()
    assert store.since("x", 4) is None
    assert store.since("x", 5) == []
