"""Extenders, as far as plugins meet them: preemption has to ask them about its candidates.

The question is asked outside, so PostFilter cannot wait for the answer. It hands back an ``AskExtenders``, which
says what to ask and how to go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from mooring.api.pod import Pod
from mooring.framework.preemption.candidate import Candidate
from mooring.framework.results import PostFilterResult
from mooring.framework.status import Status

Outcome = tuple[PostFilterResult, Status]


class PreemptionExtenders(Protocol):
    """Who has a say in preemption besides the plugins."""

    def weigh_victims(self, pod: Pod) -> bool:
        """Whether somebody wants to be asked before room is made for this pod."""


class AskExtenders(msgspec.Struct, frozen=True):
    """A PostFilter answer that is not complete: extenders are to be asked about candidates first."""

    candidates: tuple[Candidate, ...]
    #: Called with the candidates that extenders left, or with what went wrong.
    then: Callable[[Sequence[Candidate] | Status], Outcome]

    def and_then(self, change: Callable[[Outcome], Outcome]) -> AskExtenders:
        """The same question, with something done to what comes of it."""
        return AskExtenders(self.candidates, lambda left: change(self.then(left)))
