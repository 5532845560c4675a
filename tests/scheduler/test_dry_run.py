"""The dry run of a plugin: which points it calls, and what it reports."""

from __future__ import annotations

from typing import Any

import numpy as np

from mooring.framework import Plugin, Status
from mooring.scheduler.dry_run import dry_run


def _messages(cls: type[Plugin]) -> list[str]:
    return [fault.message for fault in dry_run(cls)]


def test_one_run_reports_the_faults_of_all_points() -> None:
    class Broken(Plugin):
        def pre_enqueue(self, pod: Any) -> None:
            raise ValueError("pre_enqueue")

        def pre_filter(self, state: Any, pod: Any, nodes: Any) -> None:
            raise ValueError("pre_filter")

        def filter(self, state: Any, pod: Any, node: Any) -> None:
            raise ValueError("filter")

        def pre_score(self, state: Any, pod: Any, nodes: Any) -> None:
            raise ValueError("pre_score")

        def score(self, state: Any, pod: Any, node: Any) -> int:
            return 1000

        def normalize_scores(self, state: Any, pod: Any, scores: Any) -> Any:
            raise ValueError("normalize")

        def reserve(self, state: Any, pod: Any, node_name: str) -> Status:
            return Status.error("reserve")

        def unreserve(self, state: Any, pod: Any, node_name: str) -> None:
            raise ValueError("unreserve")

        def permit(self, state: Any, pod: Any, node_name: str) -> int:
            return 3

    assert _messages(Broken) == [
        "ValueError: pre_enqueue",
        'running PreFilter plugin "Broken": ValueError: pre_filter',
        'running "Broken" filter plugin: ValueError: filter',
        'running PreScore plugin "Broken": ValueError: pre_score',
        'normalizing scores of plugin "Broken": ValueError: normalize',
        'running Reserve plugin "Broken": reserve',
        'running Permit plugin "Broken": BadAnswerError: returned int; return None, a reason (str) or a Status',
        'running Unreserve plugin "Broken": ValueError: unreserve',
    ]


def test_filter_is_not_called_after_skip() -> None:
    class Skips(Plugin):
        def pre_filter(self, state: Any, pod: Any, nodes: Any) -> Status:
            return Status.skip()

        def filter(self, state: Any, pod: Any, node: Any) -> None:
            raise AssertionError("called after Skip")

    assert _messages(Skips) == []


def test_a_plugin_that_rejects_every_node_is_called_at_the_later_points() -> None:
    class Strict(Plugin):
        def filter(self, state: Any, pod: Any, node: Any) -> str:
            return "no GPU"

        def score_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
            return np.full(len(nodes), 101)

    expected = 'plugin "Strict" returns an invalid score 101, it should in the range of [0, 100] after normalizing'
    assert _messages(Strict) == [expected]


def test_state_of_a_rejecting_pre_filter_reaches_filter() -> None:
    called = []

    class Gang(Plugin):
        def pre_filter(self, state: Any, pod: Any, nodes: Any) -> str:
            self.seen = True
            return "no pod group"

        def filter(self, state: Any, pod: Any, node: Any) -> None:
            called.append(self.seen)

    assert _messages(Gang) == []
    assert called


def test_a_plugin_without_faults_has_none_and_leaves_no_pod_waiting() -> None:
    class Waits(Plugin):
        def permit(self, state: Any, pod: Any, node_name: str) -> Any:
            assert self.handle.waiting_pods.get(pod.uid) is None
            return Status.wait(), 10

    assert _messages(Waits) == []


def test_less_must_return_a_bool() -> None:
    class Sorts(Plugin):
        def less(self, a: Any, b: Any) -> int:
            return 1

    assert _messages(Sorts) == ["BadAnswerError: less returned int; return True or False"]
