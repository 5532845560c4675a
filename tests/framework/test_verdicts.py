"""Verdicts of many nodes at once."""

from __future__ import annotations

import numpy as np

from mooring.framework import Status, Verdicts

CPU, PORT, BROKEN = Status.unschedulable("cpu"), Status.unschedulable("port"), Status.error("broken")


def test_reject() -> None:
    verdicts = Verdicts.reject(np.array([True, False]), CPU)
    assert verdicts.codes.tolist() == [1, 0]
    assert verdicts.status(1) is CPU
    assert not verdicts.may_fail
    assert Verdicts.reject(np.array([True]), BROKEN).may_fail


def test_the_first_mask_decides() -> None:
    verdicts = Verdicts.first([(np.array([True, False, False]), CPU), (np.array([True, True, False]), PORT)])
    assert [verdicts.status(code) if code else None for code in verdicts.codes.tolist()] == [CPU, PORT, None]
    assert len(verdicts) == 3


def test_from_one_status_per_node() -> None:
    verdicts = Verdicts.of([None, Status(), PORT, BROKEN])
    assert verdicts.codes.tolist() == [0, 0, 3, 4]
    assert (verdicts.status(3), verdicts.status(4)) == (PORT, BROKEN)
    assert verdicts.may_fail
