"""Isolated plugins: the same decisions as without isolation, and failures that do not affect the scheduler."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.api import ObjectMeta, Service
from mooring.framework import Plugin
from mooring.loading import PluginLoadError, Setup, load_setup
from mooring.loading.setup_files import SetupFiles
from mooring.logs import configure_logs
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt
from mooring.scheduler.engine import Engine
from mooring.scheduler.profiles import swap
from mooring.testing import make_node, make_pod
from tests.waiting import wait_until

CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {{multiPoint: {{enabled: [{{name: Mine, weight: 100}}]}}}}
  pluginConfig: [{{name: Mine, args: {{digit: "2"}}}}]
---
apiVersion: mooring.dev/v1alpha1
kind: PluginSources
plugins:
- name: Mine
  path: mine.py
  isolation: process
  timeout: {timeout}
{more}
"""
HEAD = """\
import os, time
import numpy as np
from mooring.framework import *

class Mine(Plugin):
    class Args:
        digit: str = "0"
"""
ONE_BY_ONE = (
    HEAD
    + """
    def pre_filter(self, state, pod, nodes):
        state.write(SEEN, len(nodes))

    def filter(self, state, pod, node):
        assert state.read(SEEN) in (6, 5)
        return "an odd node" if int(node.name[-1]) % 2 else None

    def score(self, state, pod, node):
        return 100 if node.name.endswith(self.args.digit) and not len(node.pods) else 0

SEEN = StateKey("seen")
"""
)
IN_COLUMNS = (
    HEAD
    + """
    def filter_nodes(self, state, pod, nodes):
        odd = np.array([int(name[-1]) % 2 for name in nodes.names], dtype=bool)
        return Verdicts.reject(odd, Status.unschedulable("an odd node"))

    def score_nodes(self, state, pod, nodes):
        mine = np.array([name.endswith(self.args.digit) for name in nodes.names])
        return np.where(mine & (nodes.pod_count == 0), 100, 0)
"""
)
HANGS = (
    HEAD
    + """
    def filter(self, state, pod, node):
        if pod.name.startswith("hang"):
            time.sleep(60)
        if pod.name.startswith("crash"):
            os._exit(3)
        if pod.name.startswith("raise"):
            raise KeyError("zone")
        if pod.name.startswith("eat"):
            self.eaten = np.ones(1 << 28)
"""
)


class World:
    """An engine with an isolated plugin and six nodes."""

    def __init__(self, folder: Path, text: str, *, timeout: str = "10s", more: str = "") -> None:
        (folder / "mine.py").write_text(text)
        config = CONFIG.format(timeout=timeout, more=more)
        self.setup: Setup = load_setup(config, source="test", base=folder)
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.engine = Engine(
            self.setup.config,
            plugins=self.setup.plugins,
            options=self.setup.catalog.options(),
            warn=lambda event, **details: self.told.append((event, details)),
        )
        for number in range(6):
            self.engine.put(make_node(f"node-{number}").capacity(cpu="4", memory="8Gi", pods=110).obj())

    @property
    def plugin(self) -> Any:
        return self.engine.profiles.first.profile.plugins["Mine"]

    def attempt(self, name: str) -> AssumedPod | FailedAttempt:
        self.engine.put(make_pod(name).req(cpu="1").obj())
        outcome = self.engine.schedule_one()
        assert isinstance(outcome, AssumedPod | FailedAttempt)
        if isinstance(outcome, FailedAttempt):
            self.engine.remove(outcome.queued.pod)
        return outcome

    def node(self, name: str) -> str:
        outcome = self.attempt(name)
        assert isinstance(outcome, AssumedPod), outcome.failure.message
        return outcome.node_name

    def failure(self, name: str) -> str:
        outcome = self.attempt(name)
        assert isinstance(outcome, FailedAttempt)
        return outcome.failure.message

    def wait(self, holds: Callable[[], bool]) -> None:
        wait_until(holds)


def _proxy(setup: Setup) -> Any:
    return setup.plugins["Mine"]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Callable[..., World]]:
    made: list[World] = []

    def make(text: str, **settings: Any) -> World:
        made.append(World(tmp_path, text, **settings))
        return made[-1]

    yield make
    for each in made:
        for found in each.setup.catalog.found.values():
            found.cls.process.close()
        each.setup.catalog.unload()


@pytest.mark.parametrize("text", [ONE_BY_ONE, IN_COLUMNS], ids=["one by one", "in columns"])
def test_the_process_has_the_current_state_of_the_cluster(world: Callable[..., World], text: str) -> None:
    here = world(text)
    assert here.plugin.process.pid != os.getpid()
    assert here.node("a") == "node-2"
    assert here.node("b") in ("node-0", "node-4")  # node-2 is full: a pod is assumed there
    here.engine.remove(make_node("node-0").obj())
    here.engine.remove(make_node("node-4").obj())
    here.engine.put(make_node("node-22").capacity(cpu="4", memory="8Gi", pods=110).obj())
    assert here.node("c") == "node-22"


def test_reasons_are_returned(world: Callable[..., World]) -> None:
    here = world(IN_COLUMNS)
    for number in (0, 2, 4):
        here.engine.remove(make_node(f"node-{number}").obj())
    assert here.failure("a").startswith("0/3 nodes are available: 3 an odd node.")


def test_a_plugin_that_hangs_is_killed_and_restarted(world: Callable[..., World]) -> None:
    here = world(HANGS, timeout="1s", more="  failureThreshold: 1000")
    assert here.node("a")
    first = here.plugin.process.pid
    assert "the plugin's process: killed: it did not answer within 1 s" in here.failure("hang")
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)
    assert "is restarting" in here.failure("b")
    here.wait(lambda: isinstance(here.attempt(f"x{time.monotonic_ns()}"), AssumedPod))
    assert here.plugin.process.pid not in (0, first)
    assert here.engine.guards.health.failures["Mine", "filter_nodes"] >= 2


def test_a_crash_and_an_exception_fail_the_attempt_and_open_the_breaker(world: Callable[..., World]) -> None:
    here = world(HANGS, more="  failureThreshold: 2\n  failurePolicy: Ignore")
    line = HANGS.splitlines().index('            raise KeyError("zone")') + 1
    assert f"mine.py:{line} in filter: KeyError: 'zone'" in here.failure("raise")
    traceback = here.told[-1][1]["traceback"].splitlines()
    assert traceback[0].endswith(f'/mine.py", line {line}, in filter')
    assert traceback[1:] == ['    raise KeyError("zone")']
    assert "it exited with code 3" in here.failure("crash")
    assert here.engine.guards.of("Mine").state.startswith("switched off (Ignore)")
    assert here.node("goes-on")


STARTS_PROCESSES = (
    HEAD.replace("import os, time", "import os, signal, subprocess, time")
    + """
    def filter(self, state, pod, node):
        if pod.name == "a":
            return None
        here = os.environ["MOORING_TEST_FOLDER"]
        if pod.name.startswith("bomb"):
            for _ in range(150):
                if os.fork() == 0:
                    open(f"{here}/{os.getpid()}", "w").close()
                    time.sleep(600)
            time.sleep(600)
        # A child, and a daemon: it has another session, and its parent has ended.
        child = subprocess.Popen(["sleep", "600"])
        script = "sleep 600 & echo $! > daemon.pid"
        subprocess.run(["setsid", "sh", "-c", script], cwd=here)
        daemon = int(open(f"{here}/daemon.pid").read())
        for pid in (child.pid, daemon):
            open(f"{here}/{pid}", "w").close()
        if pod.name.startswith("crash"):
            os.kill(daemon, signal.SIGKILL)  # nobody knows of it once this process has ended
            os._exit(3)
        time.sleep(600)
"""
)


@pytest.mark.parametrize(
    ("pod", "reason", "count"),
    [
        ("hang", "did not answer within 1 s", 2),
        ("crash", "it exited with code 3", 2),
        ("bomb", "it started more than 64 processes", 10),
    ],
)
def test_all_processes_of_a_plugin_are_killed(
    world: Callable[..., World], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pod: str, reason: str, count: int
) -> None:
    pids = tmp_path / "pids"
    pids.mkdir()
    monkeypatch.setenv("MOORING_TEST_FOLDER", str(pids))
    here = world(STARTS_PROCESSES, timeout="1s" if pod == "hang" else "60s", more="  failureThreshold: 1000")
    assert here.node("a")
    assert reason in here.failure(pod)
    started = [int(path.name) for path in pids.iterdir() if path.name.isdigit()]
    assert len(started) >= count
    here.wait(lambda: not any(map(_runs, started)))


def _runs(pid: int) -> bool:
    """Whether a process exists and is not a zombie that waits for its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user; others are limited themselves")
def test_other_users_than_root_cannot_start_many_processes() -> None:
    """The kernel limits the tasks of every user but root, for whom the scheduler counts them."""
    script = """
import os, signal, sys
from mooring.loading.isolation.worker import _limit_processes
os.setgroups([]); os.setgid(54321); os.setuid(54321); os.setsid()
_limit_processes(64)
count = 0
try:
    while count < 2000:
        pid = os.fork()
        if pid == 0:
            signal.pause()
        count += 1
except OSError:
    pass
print(count, flush=True)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.killpg(0, signal.SIGTERM)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip(), done.stderr
    assert 32 <= int(done.stdout) <= 192


ANSWERS = (
    HEAD
    + """
    def filter_nodes(self, state, pod, nodes):
        rejected = np.ones(len(nodes), dtype=bool)
        if pod.name == "large":
            return Verdicts.reject(rejected, Status.unschedulable("x" * (40 << 20)))
        if pod.name == "twice":
            import msgspec, socket, struct, sys
            reply = msgspec.msgpack.encode({"number": 1, "answer": None})
            os.write(int(sys.argv[1]), struct.pack("<I", len(reply)) + reply)
        if pod.name == "long":
            raise ValueError("x" * 100_000)
"""
)


def test_answers_are_limited(world: Callable[..., World]) -> None:
    here = world(ANSWERS, more="  failureThreshold: 1000")
    assert here.node("a")
    assert len(here.failure("long")) < 5_000
    assert "killed: its answer has 40 MiB; the limit is 32 MiB" in here.failure("large")


def test_an_answer_to_another_call_is_not_accepted(world: Callable[..., World]) -> None:
    """A child process has the same socket, so it can answer too."""
    here = world(ANSWERS, more="  failureThreshold: 1000")
    assert here.node("a")
    assert "killed: its answer does not belong to the last call" in here.failure("twice")


LEAVES = (
    HEAD
    + """
    def filter(self, state, pod, node):
        if pod.name.startswith("exit"):
            raise SystemExit(3)
        if pod.name.startswith("interrupt"):
            raise KeyboardInterrupt
        if pod.name.startswith("cancel"):
            import asyncio
            raise asyncio.CancelledError
        if pod.name.startswith("end"):
            raise GeneratorExit
"""
)


def test_a_plugin_that_exits_fails_the_attempt_and_its_process_continues(world: Callable[..., World]) -> None:
    here = world(LEAVES, more="  failureThreshold: 1000")
    assert here.node("a")
    first = here.plugin.process.pid
    for name in ("exit", "interrupt", "cancel", "end"):
        text = {"exit": "SystemExit: 3", "interrupt": "KeyboardInterrupt", "cancel": "CancelledError"}
        assert text.get(name, "GeneratorExit") in here.failure(name)
    assert here.node("b")
    assert here.plugin.process.pid == first


MODEL = (
    HEAD
    + """
    score_range = (0.0, 1.0)

    def score(self, state, pod, node):
        return 0.9 if node.name == "node-4" else 0.1 if pod.name != "high" else 7.5
"""
)


def test_scores_of_a_declared_range_are_scaled(world: Callable[..., World]) -> None:
    here = world(MODEL)
    assert here.node("a") == "node-4"
    line = MODEL.splitlines().index("    def score(self, state, pod, node):") + 1
    text = f"mine.py:{line} in score: ScoreRangeError: score_nodes returned 7.5 for node node-0, which is outside of"
    assert text in here.failure("high")


def test_scores_between_0_and_1_are_reported(world: Callable[..., World]) -> None:
    here = world(MODEL.replace("    score_range = (0.0, 1.0)\n", ""))
    here.attempt("a")
    (told,) = here.told
    line = MODEL.splitlines().index("    def score(self, state, pod, node):")
    assert told[0].startswith(f"mine.py:{line} in score: all scores are between 0 and 1")


def test_memory_limit(world: Callable[..., World]) -> None:
    here = world(HANGS, more="  memoryLimit: 1Gi")
    assert "MemoryError" in here.failure("eat") or "ended" in here.failure("eat-again")
    assert here.plugin.process.generation >= 1


def test_unsupported_methods_are_rejected(world: Callable[..., World]) -> None:
    with pytest.raises(PluginLoadError) as refused:
        world(HEAD + "    def less(self, a, b):\n        return a.timestamp < b.timestamp\n")
    assert "'less' is not supported with isolation: process" in str(refused.value)
    with pytest.raises(PluginLoadError) as refused:
        world(HEAD + "    async def pre_bind(self, state, pod, node_name):\n        return None\n")
    assert "must not be async with isolation: process" in str(refused.value)


def test_the_process_exits_with_the_plugin(tmp_path: Path) -> None:
    here = World(tmp_path, IN_COLUMNS)
    process = here.plugin.process
    pid = process.pid
    process.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert issubclass(here.setup.plugins["Mine"], Plugin)
    here.setup.catalog.unload()


def test_listed_objects_are_sent_to_the_process(world: Callable[..., World]) -> None:
    here = world(
        HEAD.replace("import os", "from mooring.api import Service\nimport os")
        + """
    services = Lister(Service)

    def filter(self, state, pod, node):
        return None if self.services.get(node.name, "default") else "no service"
"""
    )
    assert "no service" in here.failure("a")
    service = Service(metadata=ObjectMeta(name="node-3", namespace="default"))
    here.engine.put(service)
    assert here.node("b") == "node-3"
    here.engine.remove(service)
    assert "no service" in here.failure("c")


def test_state_is_passed_to_the_next_version(tmp_path: Path) -> None:
    counting = (
        HEAD
        + """
    keep = ("seen",)

    def setup(self):
        self.seen = 0

    def reserve(self, state, pod, node_name):
        self.seen += 1

    def score(self, state, pod, node):
        return 100 if node.name == f"node-{self.seen}" else 0
"""
    )
    here = World(tmp_path, counting)
    assert [here.node(name) for name in "abc"] == ["node-0", "node-1", "node-2"]
    files = SetupFiles(tmp_path / "scheduler.yaml")
    (tmp_path / "scheduler.yaml").write_text(CONFIG.format(timeout="10s", more=""))
    (tmp_path / "mine.py").write_text(counting + "\n# edited\n")
    after = files.load(here.setup)
    old = here.plugin
    swap(here.engine, after.config, after.plugins, after.catalog.options())
    assert here.node("d") == "node-3"
    assert here.plugin is not old
    for setup in (here.setup, after):
        _proxy(setup).process.close()
        setup.catalog.unload()


def test_a_large_cluster_is_sent_in_parts(world: Callable[..., World], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.loading.isolation.proxy._MAX_CHANGES", 7)
    here = world(
        HEAD + "    def filter(self, state, pod, node):\n        return None if node.name == 'node-59' else 'no'\n"
    )
    for number in range(6, 60):
        here.engine.put(make_node(f"node-{number}").capacity(cpu="40", memory="8Gi", pods=110).obj())
    assert here.node("a") == "node-59"
    here.plugin._generation = -1  # as after a restart: everything is sent again
    assert here.node("b") == "node-59"


LOGS = (
    HEAD.replace("import os, time", "import logging, os, time")
    + """
    def filter(self, state, pod, node):
        logging.getLogger("mooring.plugins.Mine").info("saw %s", node.name)
"""
)


@pytest.mark.parametrize(("verbosity", "text"), [(2, '] "saw node-0"'), (0, ""), (None, "")])
def test_a_plugin_logs_as_the_scheduler_does(
    world: Callable[..., World], capfd: pytest.CaptureFixture[str], verbosity: int | None, text: str
) -> None:
    """In the same format and at the same verbosity; nothing in a program that has not configured logs."""
    if verbosity is not None:
        configure_logs(verbosity, as_json=False)
    world(LOGS).node("web")
    output = capfd.readouterr()
    assert (text in output.err) if text else ("saw" not in output.err)
    assert output.out == ""
