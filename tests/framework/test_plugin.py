"""The Plugin base class: names, arguments, state across reloads, and declared dependences."""

from __future__ import annotations

import types
from typing import Annotated, Any, TypeVar

import pytest

from mooring.framework import ArgsError, Meta, Plugin, Rule, depends_on
from mooring.framework.plugin import dependence
from mooring.framework.points import POINTS


class Numbered(Plugin):
    keep = ("seen", "never_set")

    class Args:
        reverse: bool = False
        zones: list[str] = ["a"]  # noqa: RUF012 - each plugin gets a copy

    def setup(self) -> None:
        self.seen = 0


def test_the_name_is_that_of_the_class() -> None:
    class Renamed(Plugin):
        name = "Other"

    assert (Numbered.name, Renamed.name) == ("Numbered", "Other")


def test_arguments_are_decoded() -> None:
    plugin = Numbered({"reverse": True, "kind": "NumberedArgs", "apiVersion": "v1"})
    assert plugin.args.reverse is True
    assert plugin.args.zones == ["a"]
    assert Numbered().args.zones is not plugin.args.zones


@pytest.mark.parametrize(("args", "path"), [({"reverse": 1}, "reverse"), ({"revers": True}, "revers")])
def test_wrong_arguments(args: dict[str, Any], path: str) -> None:
    with pytest.raises(ArgsError, match=f"Numbered: .*{path}"):
        Numbered(args)


def test_without_declared_arguments_they_are_not_decoded() -> None:
    class Plain(Plugin):
        pass

    assert Plain({"any": [1]}).args == {"any": [1]}


def test_kept_attributes_pass_to_the_next_version() -> None:
    old, new = Numbered(), Numbered()
    old.seen = 3
    new.take_state(old.keep_state())
    assert new.seen == 3
    assert not hasattr(new, "never_set")


@pytest.mark.parametrize(
    ("what", "expected"),
    [(("node",), "node"), (("node", "pods"), "pods"), (("pods", "node"), "pods"), (("template",), "template")],
)
def test_declared_dependence(what: Any, expected: str) -> None:
    @depends_on(*what)
    def method() -> None:
        pass

    assert dependence(method) == expected
    assert dependence(None) is None


def test_a_rule_leaves_out_empty_names() -> None:
    rule = Rule(("metrics.k8s.io",), ("nodes",), ("get",))
    assert rule.document() == {"apiGroups": ["metrics.k8s.io"], "resources": ["nodes"], "verbs": ["get"]}


class TypedArgs:
    label: str = "tag"
    limit: Annotated[int, Meta(ge=0)] = 3


class Typed(Plugin[TypedArgs]):
    pass


Other = TypeVar("Other")


class Base(Plugin[Other]):
    pass


class Derived(Base[TypedArgs]):
    pass


class Inheriting(Typed):
    pass


@pytest.mark.parametrize("cls", [Typed, Derived, Inheriting])
def test_the_type_parameter_is_the_class_of_the_arguments(cls: type[Plugin]) -> None:
    assert cls.Args is TypedArgs
    plugin = cls({"label": "other"})
    assert (plugin.args.label, plugin.args.limit) == ("other", 3)
    with pytest.raises(ArgsError, match=r"limit: .*>= 0"):
        cls({"limit": -1})


def test_arguments_are_declared_once() -> None:
    with pytest.raises(TypeError, match=r"Twice has a class Args and Plugin\[TypedArgs\]; remove one"):

        class Twice(Plugin[TypedArgs]):
            class Args:
                label: str = ""


@pytest.mark.parametrize("parameter", [Any, dict[str, Any]])
def test_arguments_of_any_type_are_not_decoded(parameter: Any) -> None:
    assert types.new_class("Loose", (Plugin[parameter],))({"any": 1}).args == {"any": 1}


def test_at_run_time_a_plugin_has_only_its_own_methods() -> None:
    assert not any(hasattr(Typed, point.method) for point in POINTS)
    assert not any(hasattr(Typed({}), point.method) for point in POINTS)
