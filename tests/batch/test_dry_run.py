"""The dry run of session plugins and actions finds their faults, with the file and the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.batch.dry_run import dry_run_session
from mooring.loading.dry_run import DryRun
from mooring.loading.plugin_files import load_file


def run(tmp_path: Path, source: str, seconds: float = 20.0, **arguments: object) -> DryRun:
    (tmp_path / "mine.py").write_text(source)
    (found,) = load_file(tmp_path / "mine.py", "test")
    return dry_run_session(found, arguments, seconds)


def plugin(*lines: str) -> str:
    body = "".join(f"        {line}\n" for line in lines)
    return f"class Mine:\n    def on_session_open(self, session):\n{body}"


#: Registration -> a valid function.
CALLBACKS = {
    "job_order": "lambda left, right: 0",
    "queue_order": "lambda left, right: 0",
    "victim_queue_order": "lambda left, right, preemptor: 0",
    "task_order": "lambda left, right: 0",
    "pre_predicate": "lambda task: None",
    "predicate": "lambda task, node: None",
    "node_order": "lambda task, node: 1.0",
    "batch_node_order": "lambda task, nodes: {}",
    "best_node": "lambda task, nodes: None",
    "preemptable": "lambda task, candidates: (candidates, 1)",
    "reclaimable": "lambda task, candidates: (candidates, 1)",
    "overused": "lambda queue: False",
    "preemptive": "lambda queue, tasks: True",
    "allocatable": "lambda queue, task: True",
    "job_ready": "lambda job: True",
    "job_pipelined": "lambda job: 0",
    "job_enqueueable": "lambda job: 0",
    "job_enqueued": "lambda job: None",
    "job_starving": "lambda job: True",
    "job_valid": "lambda job: None",
    "victim_tasks": "lambda tasks: []",
}


def test_the_made_up_sessions_call_every_callback(tmp_path: Path) -> None:
    lines = [f"session.add_{kind}({function})" for kind, function in CALLBACKS.items()]
    result = run(tmp_path, plugin(*lines))
    assert result == DryRun(called=tuple(CALLBACKS))


@pytest.mark.parametrize("kind", sorted(CALLBACKS))
def test_a_callback_that_raises(tmp_path: Path, kind: str) -> None:
    result = run(tmp_path, plugin("", f"session.add_{kind}(lambda *given: given[0].nothing)"))
    (fault,) = {each.line: each for each in result.faults}.values()
    assert (fault.path, fault.line) == (str(tmp_path / "mine.py"), 4)
    assert fault.message.startswith(f"mine: {kind}: AttributeError")


@pytest.mark.parametrize(
    ("lines", "line", "message"),
    [
        (
            ["session.nothing()"],
            3,
            "mine: on_session_open: AttributeError: 'Session' object has no attribute 'nothing'",
        ),
        (["raise SystemExit(3)"], 3, "mine: on_session_open: SystemExit: 3"),
        (["", "session.add_job_order(lambda a, b: None)"], 4, "mine: job_order: returned None; return a negative"),
        (["session.add_predicate(lambda task: None)"], 0, "mine: predicate: TypeError"),
    ],
)
def test_other_faults(tmp_path: Path, lines: list[str], line: int, message: str) -> None:
    result = run(tmp_path, plugin(*lines))
    (fault,) = result.faults
    assert message in fault.message
    assert line in (0, fault.line)


def test_callbacks_that_are_not_reached_are_named(tmp_path: Path) -> None:
    result = run(tmp_path, plugin("session.add_unified_evictable(lambda *_: ([], 0))"))
    assert (result.called, result.not_called) == ((), ("unified_evictable",))


def test_arguments(tmp_path: Path) -> None:
    source = "class Mine:\n    class Args:\n        node: str\n    def on_session_open(self, session):\n"
    source += "        session.add_node_order(lambda task, node: float(node.name == self.args.node))\n"
    missing = run(tmp_path, source)
    assert missing.reason == "its arguments are missing: arguments: Object missing required field `node`"
    assert run(tmp_path, source, node="node-0") == DryRun(called=("node_order",))


def test_a_callback_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    monkeypatch.setattr("builtins.still_hanging", threading.Event(), raising=False)
    (fault,) = run(tmp_path, plugin("still_hanging.wait()"), seconds=0.5).faults
    assert (fault.line, fault.message) == (3, "mine: did not return within 0.5 s")
    still_hanging.set()  # type: ignore[name-defined]  # noqa: F821  # of builtins


def test_an_action(tmp_path: Path) -> None:
    source = "class Mine:\n    def execute(self, session):\n        {}\n"
    assert run(tmp_path, source.format("session.statement().commit()")) == DryRun(called=("execute",))
    (fault,) = run(tmp_path, source.format("session.jobs['missing']")).faults
    assert (fault.line, fault.message) == (3, "mine: execute: KeyError: 'missing'")
