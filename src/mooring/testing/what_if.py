"""Checks that a plugin's ``what_if`` says what removing the pods one by one and filtering again says."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.framework.state import CycleState
from mooring.framework.status import Code, Status
from mooring.framework.what_if import Victims
from mooring.testing.harness import PluginHarness, statuses


def make_victims(harness: PluginHarness, victims: Mapping[str, Sequence[str]]) -> Victims:
    """The victims (uids by node name) as preemption passes them to ``what_if``."""
    width = max((len(uids) for uids in victims.values()), default=0)
    index = np.full((len(victims), width), -1, dtype=np.int64)
    for candidate, uids in enumerate(victims.values()):
        for place, uid in enumerate(uids):
            index[candidate, place] = harness.table.pods[uid].index
    return Victims(harness.nodes(victims), index)


def check_what_if(
    harness: PluginHarness, pod: Pod, victims: Mapping[str, Sequence[str]], *, trials: int = 6, seed: int = 0
) -> None:
    """Compare ``what_if`` with what preemption upstream does node by node, for random sets of victims gone.

    That is: on a clone, remove all victims, add those back that can stay, and filter.
    """
    state = CycleState()
    verdict, _ = harness.pre_filter(state, pod)
    if verdict.code is Code.SKIP or not verdict.is_success:
        return
    given = make_victims(harness, victims)
    model = harness.plugin.what_if(state, pod, given)
    rng = np.random.default_rng(random.Random(seed).randrange(2**32))
    shape = given.index.shape
    gone_sets = [np.zeros(shape, dtype=np.bool_), np.ones(shape, dtype=np.bool_)]
    gone_sets += [rng.random(shape) < 0.5 for _ in range(trials)]
    for gone in gone_sets:
        removed = gone & given.present
        values = model.values - (model.effects * removed).sum(axis=2)
        answered = statuses(model.verdicts(values), len(victims))
        expected = _one_by_one(harness, state, pod, victims, removed)
        if answered != expected:
            raise AssertionError(f"what_if says {answered}, one by one it is {expected}; gone: {removed.tolist()}")


def _one_by_one(
    harness: PluginHarness,
    state: CycleState,
    pod: Pod,
    victims: Mapping[str, Sequence[str]],
    removed: npt.NDArray[np.bool_],
) -> list[Status]:
    return [
        harness.filter_what_if(
            state,
            pod,
            node,
            without=uids,
            back=[uid for place, uid in enumerate(uids) if not removed[candidate, place]],
        )
        for candidate, (node, uids) in enumerate(victims.items())
    ]
