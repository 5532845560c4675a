"""Admission of pods and claims."""

from typing import Any

import pytest

from mooring.apiserver.admission import (
    AdmissionError,
    add_tolerations,
    assign_priority,
    default_storage_class,
    merge_label_keys,
)

CLASSES = [
    {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"},
    {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True},
    {"metadata": {"name": "low"}, "value": 3, "globalDefault": True},
]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, ("low", 3, "PreemptLowerPriority")),
        ({"priorityClassName": "high"}, ("high", 1000, "Never")),
        ({"priorityClassName": "high", "priority": 1000}, ("high", 1000, "Never")),
    ],
)
def test_priority(spec: dict[str, Any], expected: tuple[str, int, str]) -> None:
    assign_priority(spec, CLASSES)
    assert (spec["priorityClassName"], spec["priority"], spec["preemptionPolicy"]) == expected


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"priorityClassName": "none"}, "spec.priorityClassName"),
        ({"priorityClassName": "high", "priority": 5}, "spec.priority"),
        ({"preemptionPolicy": "Never"}, "spec.preemptionPolicy"),
    ],
)
def test_rejected_priorities(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(AdmissionError) as caught:
        assign_priority(spec, CLASSES)
    assert caught.value.field == field


def test_tolerations_are_added_once() -> None:
    spec: dict[str, Any] = {"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]}
    add_tolerations(spec)
    assert [each["key"].rpartition("/")[2] for each in spec["tolerations"]] == ["not-ready", "unreachable"]
    before = list(spec["tolerations"])
    add_tolerations(spec)
    assert spec["tolerations"] == before


def test_label_keys_are_appended_as_the_api_server_does() -> None:
    """Even if the selector has the same requirement already; without a selector nothing is added."""
    own = {"key": "a", "operator": "In", "values": ["b"]}
    constraints: list[dict[str, Any]] = [
        {"labelSelector": {"matchExpressions": [own]}, "matchLabelKeys": ["a", "absent"]},
        {"matchLabelKeys": ["a"]},
    ]
    merge_label_keys({"metadata": {"labels": {"a": "b"}}, "spec": {"topologySpreadConstraints": constraints}})
    assert constraints[0]["labelSelector"]["matchExpressions"] == [own, own]
    assert "labelSelector" not in constraints[1]


def test_the_newest_default_storage_class() -> None:
    marked = {"storageclass.kubernetes.io/is-default-class": "true"}
    classes: list[dict[str, Any]] = [
        {"metadata": {"name": "b", "annotations": marked, "creationTimestamp": "2026-01-02T00:00:00Z"}},
        {"metadata": {"name": "a", "annotations": marked, "creationTimestamp": "2026-01-02T00:00:00Z"}},
        {"metadata": {"name": "old", "annotations": marked, "creationTimestamp": "2026-01-01T00:00:00Z"}},
        {"metadata": {"name": "newest", "creationTimestamp": "2026-01-03T00:00:00Z"}},
    ]
    assert default_storage_class(classes) == "a"
    assert default_storage_class(classes[3:]) is None
