"""Objects that plugins receive are immutable, in a scheduler and in the test kit; a change is a clear error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from mooring.api.meta import ObjectMeta
from mooring.api.pod import Pod
from mooring.columns.nodes import Nodes
from mooring.framework import CustomResource, Plugin
from mooring.framework.plugin_errors import describe
from mooring.loading import configuration
from mooring.scheduler.attempt_results import FailedAttempt
from mooring.scheduler.engine import Engine
from mooring.testing import make_node, make_pod


class Team(CustomResource, group="example.com", version="v1"):
    class Spec:
        quota: dict[str, int] = {}  # noqa: RUF012  # a field of a struct

    spec: Spec


def assign(target: Any, name: str, value: object) -> None:
    setattr(target, name, value)


#: What a plugin tries with a pod and a node.
CHANGES: dict[str, Callable[[Any, Any], object]] = {
    "a label of the pod": lambda pod, node: pod.labels.update(x="y"),
    "a label of the node": lambda pod, node: node.labels.__setitem__("x", "y"),
    "a label that is removed": lambda pod, node: node.node.metadata.labels.pop("zone"),
    "an absent annotation": lambda pod, node: pod.annotations.setdefault("x", "y"),
    "a request": lambda pod, node: pod.spec.containers[0].resources.requests.__setitem__("cpu", "0"),
    "an allocatable amount": lambda pod, node: node.node.status.allocatable.__delitem__("cpu"),
    "a container": lambda pod, node: assign(pod.spec.containers[0], "image", "x"),
    "the name of the pod": lambda pod, node: assign(pod.metadata, "name", "x"),
    "the node of the pod": lambda pod, node: assign(pod.spec, "node_name", node.name),
    "the node object": lambda pod, node: assign(node, "node", None),
    "the row of the node": lambda pod, node: assign(node, "row", 0),
    "a column": lambda pod, node: Nodes(node.table).pod_count.__setitem__(0, 9),
    "a column in place": lambda pod, node: Nodes(node.table).allocatable("cpu").__iadd__(1),
    "the pod of a pod on the node": lambda pod, node: assign(next(iter(node.pods)), "pod", pod),
}


def objects() -> tuple[Any, Any]:
    pod = make_pod("p").label(app="web").req(cpu="1").obj()
    node = make_node("a").label(zone="z").capacity(cpu="4", memory="8Gi", pods=110).obj()
    return pod, node


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_plugin_that_changes_an_object_fails_and_changes_nothing(change: Callable[[Any, Any], object]) -> None:
    class Mine(Plugin):
        def filter(self, state: Any, pod: Any, node: Any) -> None:
            change(pod, node)

    plugins: dict[str, type[Plugin]] = {"Mine": Mine}
    engine = Engine(configuration(None, plugins=plugins, source=""), plugins=plugins)
    pod, node = objects()
    engine.put(node)
    engine.put(make_pod("placed").node("a").obj())
    engine.put(pod)
    before = msgspec.json.encode((pod, node))
    outcome = engine.schedule_one()
    assert isinstance(outcome, FailedAttempt)
    assert "read-only" in outcome.failure.message
    assert "copy" in outcome.failure.message
    assert msgspec.json.encode((pod, node)) == before


def test_mappings_of_custom_resources_are_read_only() -> None:
    team = msgspec.json.decode(b'{"metadata": {"name": "a"}, "spec": {"quota": {"cpu": 3}}}', type=Team)
    with pytest.raises(TypeError, match="objects are read-only"):
        team.spec.quota["cpu"] = 4
    assert team.spec.quota == {"cpu": 3}


def test_a_read_only_mapping_is_a_dictionary_otherwise() -> None:
    meta = ObjectMeta(name="a", labels={"app": "web"})
    assert meta.labels == {"app": "web"}
    assert isinstance(meta.labels, dict)
    assert meta.labels is meta.labels
    assert {**meta.labels, "x": "y"} == {"app": "web", "x": "y"}
    assert meta.labels | {"x": "y"} == {"app": "web", "x": "y"}
    changed = meta.labels.copy()
    changed["x"] = "y"
    assert meta == ObjectMeta(name="a", labels={"app": "web"})
    assert msgspec.structs.replace(meta, labels=meta.labels) == meta
    assert msgspec.json.encode(meta) == b'{"name":"a","labels":{"app":"web"}}'


def test_reading_an_empty_mapping_does_not_add_it_to_the_json() -> None:
    pod = Pod()
    before = msgspec.json.encode(pod)
    assert pod.labels == {}
    assert pod.spec.overhead == {}
    assert msgspec.json.encode(pod) == before


def test_the_error_of_a_struct_has_the_remedy() -> None:
    with pytest.raises(AttributeError) as caught:
        assign(Pod(), "kind", "x")
    assert describe(caught.value).endswith("(objects are read-only, because all plugins share them: change a copy)")
