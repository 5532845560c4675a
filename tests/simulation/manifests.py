"""Scenarios and runs from short YAML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mooring.api.yaml_writer import yaml_text
from mooring.config import SchedulerConfiguration, default_config, load_config
from mooring.framework import Plugin
from mooring.framework.points import points_of
from mooring.simulation.outcome import Outcome, PodOutcome
from mooring.simulation.run import simulate
from mooring.simulation.scenario import Scenario, build
from mooring.simulation.sources import Given, Source, given_in


def given(*objects: dict[str, Any] | str, name: str = "test.yaml") -> list[Given]:
    """Objects as they come from a file."""
    text = "---\n".join(each if isinstance(each, str) else yaml_text(each) for each in objects)
    return given_in(Source(name, text.encode()))


def scenario(*objects: dict[str, Any] | str, seed: int = 0) -> Scenario:
    return build(given(*objects), seed=seed)


def run(
    *objects: dict[str, Any] | str,
    seed: int = 0,
    plugins: Mapping[str, type[Plugin]] | None = None,
    config: SchedulerConfiguration | None = None,
) -> Outcome:
    if config is None:
        config = enabled(plugins) if plugins else default_config()
    return simulate(scenario(*objects, seed=seed), config, plugins=plugins, seed=seed)


def enabled(plugins: Mapping[str, type[Plugin]]) -> SchedulerConfiguration:
    """The default profile with plugins on top."""
    from mooring.config import PluginSpec

    names = ", ".join(f"{{name: {name}}}" for name in plugins)
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"profiles: [{{plugins: {{multiPoint: {{enabled: [{names}]}}}}}}]\n"
    )
    specs = {name: PluginSpec(name, points_of(cls)) for name, cls in plugins.items()}
    return load_config(text, source="test", plugins=specs)


def by_name(outcome: Outcome) -> dict[str, PodOutcome]:
    return {pod.name: pod for pod in outcome.pods}


def node(
    name: str, *, cpu: str = "4", memory: str = "8Gi", labels: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": spec,
        "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": "110"}},
    }  # fmt: skip


def pod(name: str, *, cpu: str | None = None, metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu}} if cpu is not None else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}], **spec},
    }


def workload(kind: str, name: str = "w", *, template: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A workload of an app called like itself."""
    group = "batch/v1" if kind == "Job" else "v1" if kind == "ReplicationController" else "apps/v1"
    labels = {"app": name}
    selector: dict[str, Any] = {} if kind == "Job" else {"selector": {"matchLabels": labels}}
    if kind == "ReplicationController":
        selector = {"selector": labels}
    inner = {"containers": [{"name": "c", "image": "i"}], **(template or {})}
    return {
        "apiVersion": group,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {**selector, "template": {"metadata": {"labels": labels}, "spec": inner}, **spec},
    }
