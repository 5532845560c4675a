"""The plugins of jobs: arguments, dependencies, and what each built-in plugin does to pods."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.controllers.jobs.job_objects import pod_document
from mooring.controllers.jobs.job_plugins import JobPluginFaultError, JobPlugins, parse_flags, required_plugins
from mooring.controllers.jobs.plugins import PLUGINS
from mooring.framework import JobPlugin, JobPluginError
from mooring.loading import JOB
from tests.controllers.jobs.builders import job


def test_the_names_of_built_in_plugins() -> None:
    assert PLUGINS.keys() == JOB.builtin


def test_plugins_that_others_require_are_added() -> None:
    assert required_plugins(["mpi"]) == ["svc", "ssh"]
    assert required_plugins(["ssh", "mpi"]) == ["svc"]
    assert required_plugins(["env"]) == []
    assert list(job(plugins={"pytorch": []}).spec.plugins) == ["pytorch", "svc"]


class Example:
    word: str
    the_count: int = 3
    flag: bool = False


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["--word=a"], ("a", 3, False)),
        (["-word", "a=b", "--the-count", "0x10"], ("a=b", 16, False)),
        (["--word=", "--theCount=-1", "--flag"], ("", -1, True)),
        (["--word=a", "--flag=F"], ("a", 3, False)),
    ],
)
def test_arguments_are_flags_as_in_go(arguments: list[str], wanted: tuple[Any, ...]) -> None:
    found = parse_flags("p", arguments, Example)
    assert (found.word, found.the_count, found.flag) == wanted


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "plugin p: argument --word is missing"),
        (["--word"], "plugin p: argument '--word' needs a value"),
        (["--word=a", "--the-cuont=1"], "unknown argument '--the-cuont=1'; did you mean --the-count?"),
        (["word"], "unknown argument 'word'"),
        (["--word=a", "--the-count=many"], "must be an integer"),
        (["--word=a", "--flag=perhaps"], "must be true or false"),
    ],
)
def test_invalid_arguments_are_errors(arguments: list[str], message: str) -> None:
    with pytest.raises(JobPluginError, match=message.replace("?", r"\?")):
        parse_flags("p", arguments, Example)


def test_unknown_arguments_of_built_in_plugins_are_ignored_and_reported() -> None:
    """As in Volcano, whose suite creates a job with such an argument. An argument of a user's plugin stays an error."""
    plugins = JobPlugins(job(plugins={"svc": ["--enable-networking", "--publish-not-ready-addresses"]}))
    assert ["plugin svc: unknown argument '--enable-networking'" in each for each in plugins.ignored] == [True]
    assert any(each["kind"] == "Service" and each["spec"]["publishNotReadyAddresses"] for each in plugins.documents())
    with pytest.raises(JobPluginError, match="must be true or false"):
        JobPlugins(job(plugins={"svc": ["--publish-not-ready-addresses=perhaps"]}))

    class Own(JobPlugin[Any]):
        Args = Example

    with pytest.raises(JobPluginError, match="unknown argument '--wrong'"):
        JobPlugins(job(plugins={"svc": ["--word=a", "--wrong"]}), {"svc": Own})


class Broken(JobPlugin[Any]):
    def on_pod_create(self, job: Any, task: Any, index: int, pod: Any) -> None:
        raise KeyError("missing")

    def objects(self, job: Any) -> Any:
        return [{"kind": "ConfigMap"}]


def test_failures_of_plugins_name_the_plugin() -> None:
    found = job(plugins={"broken": []})
    plugins = JobPlugins(found, {"broken": Broken})
    with pytest.raises(JobPluginFaultError, match=r"plugin broken failed: .*KeyError: 'missing'"):
        pod_document(found, found.spec.tasks[0], 0, plugins)
    with pytest.raises(JobPluginFaultError, match="plugin broken returned an object without apiVersion"):
        plugins.documents()
    with pytest.raises(JobPluginError, match="unable to find job plugin: lost"):
        JobPlugins(job(plugins={"lost": []}))
