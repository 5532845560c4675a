"""Custom resources as classes: what they decode, what their definitions say, and what is refused at declaration."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest

from mooring.api.codec import Misfit, fit
from mooring.api.quantity import QuantityLike
from mooring.framework import CustomResource, DeclarationError, Meta
from mooring.framework.custom_definitions import definition_of, sample_of, schema_of


class Report(
    CustomResource,
    group="example.com",
    version="v1beta1",
    scope="Cluster",
    short_names=("rep",),
    columns={"Zone": "spec.zone", "Weight": "spec.node_weight", "Seen": ".status.seen"},
):
    """What is known of a node."""

    class Spec:
        """What people write."""

        class Link:
            to: str
            cost: int = 0

        zone: Annotated[str, Meta(description="Where it is.", pattern="^[a-z]+$", examples=["east"])] = ""
        node_weight: Annotated[int, Meta(ge=0, le=100)] = 50
        mode: Literal["soft", "hard"] = "soft"
        links: tuple[Link, ...] = ()
        best: Link | None = None
        free: dict[str, QuantityLike] = {}  # noqa: RUF012
        anything: Any = None
        steps: list[int] = [1, 2]  # noqa: RUF012 - fields of a struct, not shared

        @property
        def costs(self) -> int:
            return sum(link.cost for link in self.links)

    class Status:
        seen: bool = False

    spec: Spec
    status: Status


class Team(CustomResource, group="example.com", version="v1", plural="teams"):
    size: int = 1


def report(**spec: Any) -> Report:
    return fit({"metadata": {"name": "n1"}, "spec": spec}, Report)


def test_objects_are_typed_with_kubernetes_names() -> None:
    found = report(nodeWeight=7, links=[{"to": "b", "cost": 3}, {"to": "c", "later": True}], free={"cpu": 1}, soon=1)
    assert (found.spec.node_weight, found.spec.costs, found.spec.links[1].to) == (7, 3, "c")
    assert (found.spec.steps, found.status.seen, found.spec.best) == ([1, 2], False, None)
    assert (found.api_version, found.kind, found.namespace, found.key) == ("example.com/v1beta1", "Report", "", "n1")
    assert fit({"metadata": {"name": "a"}}, Team).key == "default/a"


def test_defaults_are_not_shared_and_objects_are_frozen() -> None:
    first, second = report(), report()
    first.spec.steps.append(9)
    assert second.spec.steps == [1, 2]
    with pytest.raises(AttributeError):
        first.spec.zone = "x"


def test_a_written_object_says_its_kind() -> None:
    assert msgspec.json.decode(msgspec.json.encode(Team(size=2))) == {
        "apiVersion": "example.com/v1", "kind": "Team", "size": 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "path", "problem"),
    [
        ({"spec": {"nodeWeight": "heavy"}}, ("spec", "nodeWeight"), "must be"),
        ({"spec": {"nodeWeight": 101}}, ("spec", "nodeWeight"), "<= 100"),
        ({"spec": {"links": [{"cost": 1}]}}, ("spec", "links", 0), "to"),
        ({}, (), "spec"),
    ],
)
def test_malformed_objects_are_told_by_field(value: dict[str, Any], path: tuple[Any, ...], problem: str) -> None:
    with pytest.raises(Misfit) as caught:
        fit({"metadata": {"name": "n1"}, **value}, Report)
    assert caught.value.fault.steps == path
    assert problem in caught.value.fault.problem


def test_null_is_absent() -> None:
    assert report(links=None, free=None).spec.links == ()


def test_schema() -> None:
    schema = schema_of(Report)
    assert schema["description"] == "What is known of a node."
    assert schema["required"] == ["spec"]
    spec = schema["properties"]["spec"]
    link = {
        "type": "object",
        "properties": {"to": {"type": "string"}, "cost": {"type": "integer", "format": "int64", "default": 0}},
        "required": ["to"],
    }
    assert spec == {
        "type": "object",
        "description": "What people write.",
        "properties": {
            "zone": {"type": "string", "pattern": "^[a-z]+$", "description": "Where it is."},
            "nodeWeight": {"type": "integer", "format": "int64", "minimum": 0, "maximum": 100, "default": 50},
            "mode": {"type": "string", "enum": ["hard", "soft"], "default": "soft"},
            "links": {"type": "array", "items": link},
            "best": link,
            "free": {
                "type": "object",
                "additionalProperties": {
                    "anyOf": [{"type": "integer"}, {"type": "string"}],
                    "x-kubernetes-int-or-string": True,
                },
            },
            "anything": {"x-kubernetes-preserve-unknown-fields": True},
            "steps": {"type": "array", "items": {"type": "integer", "format": "int64"}},
        },
    }


def test_definition() -> None:
    made = definition_of(Report)
    assert made["metadata"] == {"name": "reports.example.com"}
    spec = made["spec"]
    assert (spec["group"], spec["scope"]) == ("example.com", "Cluster")
    assert spec["names"] == {
        "kind": "Report", "listKind": "ReportList", "plural": "reports", "singular": "report", "shortNames": ["rep"],
    }  # fmt: skip
    version = spec["versions"][0]
    assert version["subresources"] == {"status": {}}
    assert version["additionalPrinterColumns"] == [
        {"name": "Zone", "type": "string", "jsonPath": ".spec.zone"},
        {"name": "Weight", "type": "integer", "jsonPath": ".spec.nodeWeight"},
        {"name": "Seen", "type": "boolean", "jsonPath": ".status.seen"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]


def test_groups_of_kubernetes_say_that_nobody_approved() -> None:
    class Quota(CustomResource, group="scheduling.sigs.k8s.io", version="v1alpha1"):
        pass

    assert definition_of(Quota)["metadata"]["annotations"]["api-approved.kubernetes.io"].startswith("unapproved")


def test_a_sample_fits_its_own_kind() -> None:
    sample = sample_of(Report)
    assert sample["metadata"] == {"name": "example"}
    assert sample["spec"]["zone"] == "east"
    assert fit(sample, Report).spec.node_weight == 50
    assert sample_of(Team)["metadata"] == {"name": "example", "namespace": "default"}


class Holder:
    value: set[int] | dict[str, int]


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({}, 'group is missing; write class Wrong(CustomResource, group="example.com")'),
        ({"group": "example.com"}, "version is missing"),
        ({"group": "example", "version": "v1"}, "group 'example' is not a domain name"),
        ({"group": "example.com", "version": "1"}, "version '1' is invalid"),
        ({"group": "example.com", "version": "v1", "scope": "cluster"}, 'write "Namespaced" or "Cluster"'),
        ({"group": "example.com", "version": "v1", "short_names": "w"}, 'write short_names=("w",)'),
        ({"group": "example.com", "version": "v1", "plural": "Wrongs"}, "'Wrongs' must be lower-case"),
        ({"group": "example.com", "version": "v1", "shortnames": ()}, "shortnames is not a keyword"),
    ],
)
def test_wrong_declarations(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=r"^Wrong: ") as caught:
        type(CustomResource)("Wrong", (CustomResource,), {}, **keywords)
    assert message in str(caught.value)


def test_reserved_and_unknown_names() -> None:
    with pytest.raises(DeclarationError, match="Bad: kind is a reserved field"):

        class Bad(CustomResource, group="example.com", version="v1"):
            kind: int = 1

    with pytest.raises(DeclarationError, match="name 'Missing' is not defined"):

        class Worse(CustomResource, group="example.com", version="v1"):
            spec: Missing  # noqa: F821 - the point


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        (int | dict[str, int], "unsupported union"),
        (dict[int, str], "the keys of a mapping must be strings"),
        (bytes, "cannot contain Bytes"),
        (Literal["a", 1], "all strings or all integers"),
    ],
)
def test_types_that_kubernetes_cannot_express(hint: Any, message: str) -> None:
    body = {"__annotations__": {"spec": hint}}
    odd = type(CustomResource)("Odd", (CustomResource,), body, group="example.com", version="v1")
    with pytest.raises(DeclarationError, match=f"^Odd.spec: .*{message}"):
        schema_of(odd)


def test_columns_must_lead_somewhere() -> None:
    class Shown(CustomResource, group="example.com", version="v1", columns={"X": "spec.x"}):
        spec: dict[str, str]

    class Unshown(CustomResource, group="example.com", version="v1", columns={"X": "specs.x"}):
        spec: dict[str, str]

    assert definition_of(Shown)["spec"]["versions"][0]["additionalPrinterColumns"][0]["jsonPath"] == ".spec.x"
    with pytest.raises(DeclarationError, match="there is no field 'specs'"):
        definition_of(Unshown)
