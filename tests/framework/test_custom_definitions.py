"""CustomResourceDefinitions: schemas, manifests and samples of declared kinds."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest

from mooring.api.codec import fit
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


def test_definitions_in_groups_of_kubernetes_have_an_approval_annotation() -> None:
    class Quota(CustomResource, group="scheduling.sigs.k8s.io", version="v1alpha1"):
        pass

    assert definition_of(Quota)["metadata"]["annotations"]["api-approved.kubernetes.io"].startswith("unapproved")


def test_a_sample_fits_its_own_kind() -> None:
    sample = sample_of(Report)
    assert sample["metadata"] == {"name": "example"}
    assert sample["spec"]["zone"] == "east"
    assert fit(sample, Report).spec.node_weight == 50
    assert sample_of(Team)["metadata"] == {"name": "example", "namespace": "default"}


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
