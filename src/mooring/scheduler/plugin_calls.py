"""Calls of filters and scorers, with either of their methods, and the conversion of failures to PluginFailure.

Hot path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from typing import Any

import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.checkpoints import checkpoint
from mooring.columns.distinct import distinct
from mooring.columns.node_info import NodeInfo
from mooring.columns.nodes import Nodes
from mooring.framework.plugin_errors import contain
from mooring.framework.score_range import are_fractions
from mooring.framework.state import CycleState
from mooring.framework.status import SUCCESS, Status
from mooring.framework.verdicts import Verdicts
from mooring.scheduler.answers import (
    BadAnswerError,
    FilterError,
    PluginFailure,
    as_score,
    as_status,
    checked_scores,
    failure,
)
from mooring.scheduler.profile import FilterPlugin, ScorePlugin

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


def passing_nodes(
    filters: Sequence[FilterPlugin], state: CycleState, pod: Pod, nodes: Nodes, base: Mask | bool
) -> Mask | bool:
    """Return which nodes pass some filters, among those that ``base`` allows; True for all of them."""
    result = base
    for plugin in filters:
        verdicts = call_filter(plugin, state, pod, nodes)
        if verdicts is not None:
            ok = verdicts.codes == 0
            result = ok if result is True else result & ok
    return result


def call_filter(
    plugin: FilterPlugin, state: CycleState, pod: Pod, nodes: Nodes, *, keep_errors: bool = False
) -> Verdicts | None:
    """Return a filter's verdicts for some nodes, with either of its methods.

    Raises PluginFailure if the plugin fails; also for an Error, unless ``keep_errors`` is set.
    """
    checkpoint()
    if plugin.filter_nodes is None:
        return Verdicts.of([_filter_each(plugin, state, pod, node) for node in nodes])
    try:
        verdicts = plugin.filter_nodes(state, pod, nodes)
        if verdicts is None:
            return None
        if type(verdicts) is not Verdicts or len(verdicts.codes) != len(nodes):
            raise BadAnswerError(
                f"filter_nodes returned {_shape(verdicts)}; return None or Verdicts with one entry per node"
            )
        if verdicts.may_fail:
            if keep_errors:
                return _with_error_text(plugin, verdicts)
            _raise_error(plugin, verdicts)
    except BaseException as error:
        contain(error)
        raise failure(f'running "{plugin.name}" filter plugin', plugin.name, error) from error
    return verdicts


def _filter_each(plugin: FilterPlugin, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
    checkpoint()
    return call_single_filter(plugin, state, pod, node)


def _raise_error(plugin: FilterPlugin, verdicts: Verdicts) -> None:
    """Raise FilterError if the verdict on any node is an Error."""
    for code in distinct(verdicts.codes[verdicts.codes != 0]):
        status = verdicts.status(code)
        if not status.is_rejected:
            raise FilterError(filter_error(plugin.name, status))


def _with_error_text(plugin: FilterPlugin, verdicts: Verdicts) -> Verdicts:
    """Return verdicts whose errors have the message of kube-scheduler."""

    def status(code: int) -> Status:
        found = verdicts.status(code)
        return found if found.is_rejected else filter_error(plugin.name, found)

    return Verdicts(verdicts.codes, status)


def filter_error(plugin: str, status: Status) -> Status:
    """Return a filter's Error with the message of kube-scheduler."""
    return Status.error(f'running "{plugin}" filter plugin: {status.message}').by(plugin)


def call_single_filter(plugin: FilterPlugin, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
    """Return a filter's status for one node. Raises PluginFailure."""
    try:
        answer = plugin.filter(state, pod, node)  # type: ignore[misc]  # asked only where the plugin has this form
        if answer is None:
            return SUCCESS
        status = as_status(answer)
    except BaseException as error:
        contain(error)
        raise failure(f'running "{plugin.name}" filter plugin', plugin.name, error) from error
    if status.is_success:
        return SUCCESS
    if not status.is_rejected:
        raise PluginFailure(filter_error(plugin.name, status))
    return status


def call_score(plugin: ScorePlugin, state: CycleState, pod: Pod, nodes: Nodes) -> Ints | int:
    """Return a scorer's raw scores for some nodes, with either of its methods. Raises PluginFailure."""
    checkpoint()
    try:
        if plugin.score_nodes is None:
            call: Callable[..., Any] = plugin.score  # type: ignore[assignment]  # it has one of the two forms
            values = [call(state, pod, node) for node in nodes]
            scores: Ints | int = np.fromiter(map(as_score, values), dtype=np.int64, count=len(nodes))
        else:
            values = plugin.score_nodes(state, pod, nodes)
            scores = values if type(values) is int else checked_scores(values, len(nodes))
    except BaseException as error:
        contain(error)
        raise failure(f'running Score plugin "{plugin.name}"', plugin.name, error) from error
    if plugin.on_fractions is not None and are_fractions(values):
        plugin.on_fractions("score" if plugin.score_nodes is None else "score_nodes")
    return scores


def call_single_score(plugin: ScorePlugin, state: CycleState, pod: Pod, node: NodeInfo) -> int:
    """Return a scorer's raw score for one node. Raises PluginFailure."""
    try:
        return as_score(plugin.score(state, pod, node))  # type: ignore[misc]  # asked only where the plugin has this form
    except BaseException as error:
        contain(error)
        raise failure(f'running Score plugin "{plugin.name}"', plugin.name, error) from error


def weighted_scores(plugin: ScorePlugin, state: CycleState, pod: Pod, nodes: Nodes) -> Ints | int:
    """Return a scorer's raw scores for some nodes, multiplied by its weight."""
    scores = call_score(plugin, state, pod, nodes)
    return scores if plugin.weight == 1 else scores * plugin.weight


def _shape(answer: object) -> str:
    size = f" of {len(answer)}" if isinstance(answer, Sized) else ""
    return f"{type(answer).__name__}{size}"
