"""Lists: all formats, at 80 columns, with kubectl's conventions for contexts and namespaces, and while they change."""

from __future__ import annotations

import asyncio
import io
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from mooring.api import ObjectMeta
from mooring.api.volcano import Queue, QueueSpec
from mooring.api.volcano_jobs import TaskSpec, VolcanoJob, VolcanoJobSpec
from mooring.cli.cluster_process import ChildCluster
from mooring.cli.main import main
from mooring.cli.object_list import ChangePrinter, Item, ObjectList
from mooring.cli.options import LIST_FORMATS
from mooring.kube import Client, load_access
from mooring.simulation.report import Column
from tests.waiting import PATIENCE

QUEUE = "research-large-language-models-evaluation"
JOB = "bert-pretraining-with-very-long-sequences-17"
NODE = "ip-10-0-0-{}.eu-west-1.compute.internal"
MESSAGE = "queue resource quota insufficient: requests.nvidia.com/gpu 1024, allocated 896, capability 1024"


class Terminal(io.StringIO):
    """A stream that says it is a terminal; $COLUMNS is its width."""

    def isatty(self) -> bool:
        return True


class World(NamedTuple):
    """A cluster, and a folder with kubeconfigs: `cluster`, `contexts`, and `broken`, whose server does not exist."""

    folder: Path

    def file(self, name: str) -> str:
        return str(self.folder / name)

    def apply(self, work: Callable[[Client], Any]) -> None:
        async def run() -> None:
            async with Client(load_access(kubeconfig=self.file("cluster"))) as client:
                await work(client)

        asyncio.run(run())


def write_kubeconfig(
    path: Path, *, cluster: dict[str, Any], contexts: dict[str, str], current: str, **user: Any
) -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": current,
        "clusters": [{"name": "c", "cluster": cluster}] if cluster else [],
        "users": [{"name": "u", "user": user}] if user else [],
        "contexts": [
            {"name": name, "context": {"cluster": "c", "user": "u", "namespace": namespace}}
            for name, namespace in contexts.items()
        ],
    }
    path.write_text(yaml.safe_dump(document))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("world")
    with ChildCluster(nodes=0) as running:
        authority = folder / "ca.pem"
        authority.write_text(running.authority)
        cluster = {"server": running.server, "certificate-authority": "ca.pem"}
        write_kubeconfig(
            folder / "cluster", cluster=cluster, contexts={"main": ""}, current="main", token=running.token
        )
        # Contexts in a file of their own, as people keep them in $KUBECONFIG=contexts:cluster.
        write_kubeconfig(
            folder / "contexts", cluster={}, contexts={"research": "research", "empty": "empty"}, current="research"
        )
        write_kubeconfig(
            folder / "broken", cluster={"server": "https://127.0.0.1:1"}, contexts={"b": ""}, current="b", token="x"
        )
        found = World(folder)
        found.apply(_create)
        yield found


async def _create(client: Client) -> None:
    for name in ("default", QUEUE):
        await client.create(Queue(metadata=ObjectMeta(name=name), spec=QueueSpec(parent="root")))
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    for namespace in ("default", "research"):
        if namespace != "default":
            document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            await client.send("POST", "/api/v1/namespaces", document)
        job = VolcanoJob(
            metadata=ObjectMeta(name=JOB, namespace=namespace),
            spec=VolcanoJobSpec(
                queue=QUEUE, min_available=1, tasks=(TaskSpec(name="t", replicas=1, template=template),)
            ),
        )
        await client.create(job)
        status = {"state": {"phase": "Pending", "message": MESSAGE}, "pending": 128}
        await client.patch(VolcanoJob, JOB, {"status": status}, namespace=namespace, subresource="status")
    # Last, because jobs cannot be submitted to a queue with child queues.
    await client.create(Queue(metadata=ObjectMeta(name=f"{QUEUE}-nightly"), spec=QueueSpec(parent=QUEUE)))


def mooring(world: World, *arguments: str, kubeconfig: str = "cluster", **env: str) -> Result:
    files = ":".join(world.file(name) for name in kubeconfig.split(":"))
    return CliRunner().invoke(main, arguments, env={"KUBECONFIG": files, **env})


def on_terminal(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    stream = Terminal()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("COLUMNS", "80")
    main(arguments, prog_name="mooring", standalone_mode=False)
    monkeypatch.undo()
    return stream.getvalue()


def commands(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    with click.Context(group) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield (*path, name), command
            if isinstance(command, click.Group):
                yield from commands(command, *path, name)


LISTS = {path: command for path, command in commands(main) if path[-1] == "list"}


@pytest.mark.parametrize("path", LISTS, ids=" ".join)
def test_every_list_has_all_formats_and_can_be_watched(path: tuple[str, ...]) -> None:
    options = {name: each for each in LISTS[path].params for name in each.opts}
    formats = options["-o"].type
    assert isinstance(formats, click.Choice)
    assert tuple(formats.choices) == LIST_FORMATS
    assert {"-w", "--watch", "--context", "--kubeconfig"} <= set(options)


def test_every_command_on_a_cluster_has_kubectl_s_options() -> None:
    for path, command in commands(main):
        options = {name for each in command.params for name in each.opts}
        if "--kubeconfig" in options and path[0] not in ("cluster", "install"):
            assert "--context" in options, path
        if "--namespace" in options:
            assert "-n" in options, path


#: Command -> the names that must be readable.
AT_80 = {
    ("plugin", "list", "-a"): ["NodeResourcesBalancedAllocation", "NodeResourcesFit", "DefaultPreemption"],
    ("queue", "list"): ["default", QUEUE, f"{QUEUE}-nightly"],
    ("job", "list", "-A"): ["default", "research", JOB],
    ("job", "list"): [JOB],
    ("queue", "get", QUEUE): [QUEUE],
    ("job", "view", JOB): [f"default/{JOB}"],
    ("explain", "job", JOB): [f"default/{JOB}"],
    ("explain", "pod", "web", "-f", "manifests"): ["NodeResourcesBalancedAllocation", "TaintToleration"],
    ("simulate", "-f", "manifests"): [NODE.format(n) for n in range(4)],
}


def manifests() -> str:
    container = {"name": "c", "image": "app", "resources": {"requests": {"cpu": "1"}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [container]}}
    documents: list[dict[str, Any]] = [pod]
    for number in range(4):
        status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}
        metadata = {
            "name": NODE.format(number),
            "labels": {"topology.kubernetes.io/zone": f"eu-west-1{'abc'[number % 3]}"},
        }
        documents.append({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status})
    return yaml.safe_dump_all(documents)


@pytest.mark.parametrize("wide", [False, True], ids=["table", "wide"])
@pytest.mark.parametrize("arguments", AT_80, ids=" ".join)
def test_at_80_columns_no_line_is_longer_and_no_name_is_cut(
    world: World, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], wide: bool
) -> None:
    monkeypatch.chdir(world.folder)
    monkeypatch.setenv("KUBECONFIG", "cluster")
    monkeypatch.setenv("NO_COLOR", "1")
    (world.folder / "manifests").write_text(manifests())
    text = on_terminal(monkeypatch, *arguments, *(["-o", "wide"] if wide else []))
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert "..." not in text.replace("... and", "")
    assert "\x1b" not in text
    if arguments[0] != "simulate" or not wide:  # there, node names continue on the next line
        assert [name for name in AT_80[arguments] if name not in text] == [], text


def test_left_out_columns_are_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", world.file("cluster"))
    text = on_terminal(monkeypatch, "queue", "list")
    assert "Not shown: " in text
    assert "`-o wide` shows all." in " ".join(text.split())
    assert "Not shown" not in mooring(world, "queue", "list").stdout, "a pipe gets all columns"


def test_colors_are_for_terminals_that_want_them(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", world.file("cluster"))
    for variable in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(variable, raising=False)
    assert "\x1b[1m" in on_terminal(monkeypatch, "queue", "list")
    for variable, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        monkeypatch.setenv("KUBECONFIG", world.file("cluster"))
        monkeypatch.setenv(variable, value)
        assert "\x1b" not in on_terminal(monkeypatch, "queue", "list")


def test_formats(world: World) -> None:
    names = mooring(world, "job", "list", "-A", "-o", "name").stdout.splitlines()
    assert names == [f"job.batch.volcano.sh/{JOB}"]
    queues = [f"queue.scheduling.volcano.sh/{name}" for name in ("default", QUEUE, f"{QUEUE}-nightly")]
    assert mooring(world, "queue", "list", "-o", "name").stdout.splitlines() == queues
    as_json = json.loads(mooring(world, "queue", "list", "-o", "json").stdout)
    assert [each["name"] for each in as_json] == ["default", QUEUE, f"{QUEUE}-nightly"]
    assert yaml.safe_load(mooring(world, "queue", "list", "-o", "yaml").stdout) == as_json
    plugins = mooring(world, "plugin", "list", "-a", "-o", "name").stdout.splitlines()
    assert {"plugin/NodeResourcesFit", "plugin/DefaultBinder"} <= set(plugins)


@pytest.mark.parametrize(
    ("arguments", "kubeconfig", "namespaces"),
    [
        ((), "cluster", ["default"]),
        (("-n", "research"), "cluster", ["research"]),
        (("-A",), "cluster", ["default", "research"]),
        # The files of $KUBECONFIG are merged; the first current-context counts, with its namespace.
        ((), "contexts:cluster", ["research"]),
        ((), "cluster:contexts", ["default"]),
        (("--context", "research"), "cluster:contexts", ["research"]),
        (("--context", "empty"), "cluster:contexts", []),
        (("--context", "empty", "-n", "default"), "cluster:contexts", ["default"]),
        (("--context", "empty", "-A"), "cluster:contexts", ["default", "research"]),
        # --kubeconfig comes before $KUBECONFIG.
        (("--kubeconfig", "{cluster}"), "broken", ["default"]),
        # Files that do not exist are ignored.
        ((), "missing:cluster", ["default"]),
    ],
)
def test_the_cluster_and_the_namespace_are_found_as_kubectl_does(
    world: World, arguments: tuple[str, ...], kubeconfig: str, namespaces: list[str]
) -> None:
    given = [each.format(cluster=world.file("cluster")) for each in arguments]
    result = mooring(world, "job", "list", "-o", "json", *given, kubeconfig=kubeconfig)
    assert result.exit_code == 0, result.stderr
    assert [each["namespace"] for each in json.loads(result.stdout)] == namespaces


def test_one_object_is_looked_up_in_the_namespace_of_the_context(world: World) -> None:
    for arguments in (("job", "view", JOB), ("explain", "job", JOB)):
        result = mooring(world, *arguments, kubeconfig="contexts:cluster")
        assert f"Job research/{JOB}" in result.stdout, result.output
        result = mooring(world, *arguments, "--context", "main", kubeconfig="contexts:cluster")
        assert f"Job default/{JOB}" in result.stdout, result.output
    missing = mooring(world, "explain", "pod", "none", kubeconfig="contexts:cluster")
    assert "research/none" in missing.stderr


@pytest.mark.parametrize(
    ("arguments", "kubeconfig", "problem"),
    [
        (("--context", "none"), "cluster", "context 'none' does not exist; existing: main"),
        ((), "broken", "https://127.0.0.1:1 cannot be reached"),
    ],
)
def test_errors_are_one_line(
    world: World, arguments: tuple[str, ...], kubeconfig: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mooring.kube.rest._TRIES", 0)
    result = mooring(world, "queue", "list", *arguments, kubeconfig=kubeconfig)
    assert result.exit_code == 1
    assert problem in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_watch_prints_what_changes_until_ctrl_c(world: World) -> None:
    """Rows are appended, as kubectl does; an object that is deleted is named."""

    async def create(client: Client) -> None:
        await client.create(Queue(metadata=ObjectMeta(name="new"), spec=QueueSpec(parent="root")))

    async def delete(client: Client) -> None:
        await client.delete(Queue, "new")

    command = [sys.executable, "-m", "mooring.cli", "queue", "list", "-w", "--kubeconfig", world.file("cluster")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = [process.stdout.readline() for _ in range(5)]
        assert [line.split()[0] for line in lines] == ["QUEUES", "NAME", "default", QUEUE, f"{QUEUE}-nightly"]
        world.apply(create)
        assert process.stdout.readline().split()[0] == "new"
        world.apply(delete)
        while (line := process.stdout.readline()).split()[0] == "new":
            pass
        assert line == "queue.scheduling.volcano.sh/new deleted\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        assert process.stderr.read() == ""


AS_JSON = '{\n  "name": "%s",\n  "state": %d\n}\n'


@pytest.mark.parametrize(
    ("output", "first", "later"),
    [
        ("name", "thing/a\nthing/b\n", "thing/b\nthing/c\n"),
        (
            "json",
            '{\n  "name": "a",\n  "state": 1\n}\n{\n  "name": "b",\n  "state": 1\n}\n',
            '{\n  "name": "b",\n  "state": 2\n}\n',
        ),
        ("yaml", "---\nname: a\nstate: 1\n---\nname: b\nstate: 1\n", "---\nname: b\nstate: 2\n"),
        ("table", "THINGS\nNAME  STATE\na         1\nb         1\n", "b         2\n"),
    ],
)
def test_a_watch_in_each_format(capsys: pytest.CaptureFixture[str], output: str, first: str, later: str) -> None:
    def things(**states: int) -> ObjectList:
        items = [Item(n, f"thing/{n}", {"name": n, "state": s}, (n, str(s)), s) for n, s in states.items()]
        return ObjectList("Things", (Column("name"), Column("state", "right")), items)

    printer = ChangePrinter(output)
    printer.show(things(a=1, b=1))
    assert capsys.readouterr().out == first
    printer.show(things(a=1, b=1))
    assert capsys.readouterr().out == "", "nothing has changed"
    printer.show(things(a=1, b=2, c=1))
    assert capsys.readouterr().out.startswith(later)
