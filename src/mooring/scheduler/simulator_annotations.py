"""A decision as the annotations of kube-scheduler-simulator, for tools that read them.

The values have the simulator's JSON shape: node -> plugin -> text. They are evaluated shortly after the decision, so
they count what changed since. Only some nodes are listed, because annotations have a limited size.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
import numpy as np

from mooring.api.pod import Pod
from mooring.columns.table import NodeTable
from mooring.scheduler.attempt_results import ScheduleFailure
from mooring.scheduler.plugin_runner import PluginRunner
from mooring.scheduler.schedule_pod import evaluate_pod

_PREFIX: Final = "kube-scheduler-simulator.sigs.k8s.io/"
SELECTED: Final = f"{_PREFIX}selected-node"
HISTORY: Final = f"{_PREFIX}result-history"
_PASSED: Final = "passed"
#: The nodes that are listed, feasible ones first; the results in the history, and its maximum length.
_NODES: Final = 30
_RESULTS: Final = 5
_MAX_HISTORY: Final = 64 << 10

_replace = msgspec.structs.replace
_ByNode = dict[str, dict[str, str]]


def simulator_annotations(runner: PluginRunner, pod: Pod, node_name: str) -> dict[str, str]:
    """Return the annotations about the decision that a pod is on a node, or (without one) has none."""
    table = runner.table
    spec, status = _replace(pod.spec, node_name=""), _replace(pod.status, nominated_node_name="")
    with _off_its_node(table, pod):
        outcome, evaluation = evaluate_pod(runner, _replace(pod, spec=spec, status=status))
        feasible = evaluation.feasible
        failed = isinstance(outcome, ScheduleFailure)
        steps = {} if failed or not len(feasible) else runner.scoring.steps(outcome.state, pod, feasible)
        filters = [each.name for each in runner.profile.filters if each.name not in outcome.state.skip_filter]
    totals = sum((each.weighted for each in steps.values()), np.zeros(len(feasible), dtype=np.int64))
    filtered: _ByNode = {}
    raw: _ByNode = {}
    final: _ByNode = {}
    for place in np.argsort(-totals, kind="stable")[:_NODES].tolist():
        name = table.nodes[int(feasible[place])].name
        filtered[name] = dict.fromkeys(filters, _PASSED)
        raw[name] = {plugin: str(int(each.raw[place])) for plugin, each in steps.items()}
        final[name] = {plugin: str(int(each.weighted[place])) for plugin, each in steps.items()}
    for verdict, rows in evaluation.statuses.groups() if evaluation.statuses is not None else ():
        rejected = rows[~np.isin(rows, feasible)]
        for row in rejected[: max(_NODES - len(filtered), 0)].tolist():
            passed = filters[: filters.index(verdict.plugin)] if verdict.plugin in filters else []
            filtered[table.nodes[row].name] = {**dict.fromkeys(passed, _PASSED), verdict.plugin: verdict.message}
    result = {
        f"{_PREFIX}filter-result": _json(filtered),
        f"{_PREFIX}score-result": _json(raw),
        f"{_PREFIX}finalscore-result": _json(final),
        SELECTED: node_name,
    }
    return {**result, HISTORY: _history(pod.annotations.get(HISTORY, ""), result)}


def _history(text: str, result: dict[str, str]) -> str:
    """Return the last results: a tenant can write the annotation, so its content may be anything."""
    try:
        before = msgspec.json.decode(text, type=list[dict[str, str]]) if len(text) <= _MAX_HISTORY else []
    except (msgspec.DecodeError, UnicodeEncodeError):
        before = []
    results = [*before[1 - _RESULTS :], result]
    while len(results) > 1 and len(_json(results)) > _MAX_HISTORY:
        results.pop(0)
    return _json(results)


@contextmanager
def _off_its_node(table: NodeTable, pod: Pod) -> Iterator[None]:
    """Take a pod off its node. Nothing else runs in between."""
    info = table.pods.get(pod.uid)
    home = None if info is None or info.node is None else info.node.name
    table.remove_pod(pod.uid)
    try:
        yield
    finally:
        if info is not None:
            table.add_pod(info.pod, home)


def _json(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()
