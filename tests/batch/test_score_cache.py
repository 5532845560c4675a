"""Answers that are kept from task to task never change a decision."""

from __future__ import annotations

import pytest

from mooring.batch.evaluate import evaluate
from tests.golden.sessions import themes


@pytest.mark.parametrize("least", [0, 10**9], ids=["kept", "afresh"])
def test_golden_sessions_match_either_way(least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Golden clusters are too small for answers to be kept, unless that is asked for."""
    monkeypatch.setattr("mooring.batch.score_cache.LEAST_NODES", least)
    wrong = []
    for case, expected in (pair for cases in themes().values() for pair in cases[::2]):
        answer = evaluate(case)
        for key in ("bound", "pipelined"):
            wanted = expected.get(key, answer[key])
            places = {name: wanted[name] if wanted.get(name) == "*" else node for name, node in answer[key].items()}
            if places != wanted:
                wrong.append((case["id"], key))
        if answer["evicted"] != expected.get("evicted", answer["evicted"]):
            wrong.append((case["id"], "evicted"))
    assert wrong == []
