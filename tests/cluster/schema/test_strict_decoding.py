"""Decoding checks."""

from typing import Any

import pytest

from mooring.cluster.schema.shape import shape_of
from mooring.cluster.schema.strict_decoding import DecodeError, check

POD = shape_of("", "v1", "Pod")


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
