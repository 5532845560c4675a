"""Custom resources as classes: typed objects and errors in declarations."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest

from mooring.api.codec import fit
from mooring.api.decode_errors import ConversionError
from mooring.api.quantity import QuantityLike
from mooring.framework import CustomResource, DeclarationError, Meta
from mooring.framework.plugin_errors import describe


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
    with pytest.raises(ConversionError) as caught:
        fit({"metadata": {"name": "n1"}, **value}, Report)
    assert caught.value.fault.steps == path
    assert problem in caught.value.fault.problem


def test_null_is_absent() -> None:
    assert report(links=None, free=None).spec.links == ()


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


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), KeyError("zone"), ValueError("x")]
)
def test_an_exception_of_post_init_is_an_error_of_the_object(error: BaseException, nested: bool) -> None:
    def post_init(self: object) -> None:
        raise error

    class Spec:
        zone: str = ""

    body: dict[str, Any] = {"__module__": __name__, "__annotations__": {"spec": Spec}}
    if nested:
        Spec.__post_init__ = post_init  # type: ignore[attr-defined]
    else:
        body["__post_init__"] = post_init
    made = type(CustomResource)("Made", (CustomResource,), body, group="example.com", version="v1")
    with pytest.raises(msgspec.ValidationError, match=describe(error).partition(": ")[2] or describe(error)):
        msgspec.json.decode(b'{"metadata": {"name": "m"}, "spec": {"zone": "a"}}', type=made)
