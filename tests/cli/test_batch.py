"""`mooring batch evaluate`: every line has an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mooring.cli.main import main
from tests.batch.cases import conf, gang, node, queue

GOOD = {"id": "good", "conf": conf(), "objects": [queue("root"), queue("default"), node("a"), *gang("g", 2)]}


def evaluate(*lines: Any) -> tuple[Result, list[dict[str, Any]]]:
    text = "\n".join(each if isinstance(each, str) else json.dumps(each) for each in lines)
    done = CliRunner().invoke(main, ["batch", "evaluate"], input=text)
    return done, [json.loads(line) for line in done.output.splitlines()]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("{", "not JSON"),
        ("[1]", "not a JSON object"),
        ({"id": "bad"}, "conf: not text"),
        ({"id": "bad", "conf": "actions: nonsense"}, 'there is no action "nonsense"'),
        ({"id": "bad", "conf": "actions: [", "objects": []}, "conf"),
        ({"id": "bad", "conf": conf(), "objects": 3}, "objects: not a list"),
        ({"id": "bad", "conf": conf(), "objects": [{"kind": "Pod", "spec": 1}]}, "objects[0]"),
        ({"id": "bad", "conf": conf(), "objects": [], "sessions": 3}, "sessions: give 1 or 2"),
    ],
)
def test_a_bad_case_is_answered_and_the_rest_go_on(bad: Any, message: str) -> None:
    done, (first, second, third) = evaluate(GOOD, bad, GOOD)
    assert done.exit_code == 1
    assert message in second["error"]
    assert first == third
    assert first["bound"] == {"default/g-task-0": "a", "default/g-task-1": "a"}


def test_even_a_fault_of_ours_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise KeyError("oops")

    monkeypatch.setattr("mooring.batch.evaluate.run_actions", broken)
    done, answers = evaluate(GOOD, GOOD)
    assert done.exit_code == 1
    assert answers == [{"id": "good", "error": "no answer: KeyError: 'oops'"}] * 2


@pytest.mark.parametrize("name", ["numa-aware", "rescheduling", "network-topology-aware"])
def test_plugins_that_come_later_are_left_out(name: str) -> None:
    text = conf(("gang", name), ("predicates", "nodeorder"))
    done, (answer,) = evaluate({**GOOD, "conf": text})
    assert done.exit_code == 0
    assert len(answer["bound"]) == 2
