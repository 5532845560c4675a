"""Plays a scenario on both sides, step by step, and tells where they differ."""

from __future__ import annotations

import json
import ssl
import time
import urllib.request
from dataclasses import dataclass, field, replace
from typing import Final

from tests.e2e.differential.scenarios import Scenario
from tests.e2e.differential.side import PodView, Side
from tests.e2e.differential.steps import Step

#: Nothing may have changed for so long before the two are compared.
_QUIET_SECONDS: Final = 0.12
#: How long to wait for a side that lags behind before that counts as a difference.
_PATIENCE_SECONDS: Final = 6.0


@dataclass
class Outcome:
    """What a duel came to."""

    seed: int
    #: Pods that both sides decided about alike.
    pods: int = 0
    bound: int = 0
    pending: int = 0
    victims: int = 0
    events: int = 0
    #: The step at which equally good nodes were drawn for, after which the clusters are no longer the same.
    tie: str = ""
    differences: list[str] = field(default_factory=list)


class Decisions:
    """The records of Mooring's decisions, read from its endpoint."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._token = token
        self._context = ssl.create_default_context()
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE

    def totals(self, namespace: str, name: str) -> dict[str, int]:
        """The score of each node that the pod could have had."""
        url, headers = f"{self._url}/decisions/{namespace}/{name}", {"Authorization": f"Bearer {self._token}"}
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), context=self._context) as answer:
            found = json.loads(answer.read())
        return {each["node"]: each["total"] for each in (found.get("decision") or {}).get("candidates", ())}


class Duel:
    """kube-scheduler against Mooring."""

    def __init__(self, theirs: Side, ours: Side, decisions: Decisions) -> None:
        self._sides = (theirs, ours)
        self._decisions = decisions
        #: The steps that made the pods of the present scenario.
        self._made: dict[str, Step] = {}

    def play(self, scenario: Scenario) -> Outcome:
        """Play a scenario to its end, or to the first difference or tie; again if there was a difference.

        What happens at the same moment happens in either order; what is a real difference happens twice.
        """
        outcome = self._play(scenario)
        return self._play(scenario) if outcome.differences else outcome

    def _play(self, scenario: Scenario) -> Outcome:
        outcome = Outcome(scenario.seed)
        for side in self._sides:
            side.begin(scenario)
        created = 0
        self._made = {}
        for step in scenario.steps:
            for side in self._sides:
                side.apply(step)
            if step.pod:
                self._made[step.pod] = step
            created += bool(step.pod)
            if not self._agree(scenario, outcome, step):
                break
            outcome.pods = created
        if not outcome.tie and not outcome.differences:
            self._count(scenario, outcome)
            self._compare_events(scenario, outcome)
        for side in self._sides:
            side.end(scenario)
        return outcome

    def _agree(self, scenario: Scenario, outcome: Outcome, step: Step) -> bool:
        """Wait for both to come to rest, and compare; then remove victims and look again."""
        what, new = str(step), step.pod
        while True:
            theirs, ours = self._settled(scenario)
            for name in _told_otherwise(theirs, ours):
                if name != new and name in self._made:
                    self._ask_again(scenario, self._made[name])
                    theirs, ours = self._settled(scenario)
            if not self._same(scenario, outcome, what, theirs, ours):
                return False
            outcome.victims += sum(view.terminating for view in ours.values())
            removed = [side.finish_terminating(scenario) for side in self._sides]
            for side in self._sides:
                side.play_kubelet(scenario)
            if not any(removed):
                return True
            what, new = f"{step}, victims removed", ""

    def _ask_again(self, scenario: Scenario, step: Step) -> None:
        """Make a waiting pod anew on both sides.

        A message says how the cluster was when the pod was last tried, and of two pods that an event wakes it is a
        matter of moments which is tried first. A new pod is tried now.
        """
        spec = {name: value for name, value in step.body["spec"].items() if name != "schedulingGates"}
        for side in self._sides:
            side.apply(Step("delete", f"{step.path}/{step.pod}"))
            side.apply(Step("create", step.path, {**step.body, "spec": spec}))

    def _settled(self, scenario: Scenario) -> tuple[dict[str, PodView], dict[str, PodView]]:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        seen, since = ("", ""), time.monotonic()
        while True:
            (their_version, theirs), (our_version, ours) = (side.look(scenario) for side in self._sides)
            now = time.monotonic()
            if (their_version, our_version) != seen:
                seen, since = (their_version, our_version), now
            decided = all(view.decided for view in (*theirs.values(), *ours.values()))
            if now > deadline or (now - since >= _QUIET_SECONDS and decided and theirs == ours):
                return theirs, ours
            if now - since >= 1.0 and decided and _placed(theirs) != _placed(ours):
                return theirs, ours  # no further waiting will help
            time.sleep(0.015)

    def _same(
        self, scenario: Scenario, outcome: Outcome, step: str, theirs: dict[str, PodView], ours: dict[str, PodView]
    ) -> bool:
        if theirs == ours:
            return True
        for name in sorted(theirs.keys() | ours.keys()):
            one, other = theirs.get(name), ours.get(name)
            if one == other:
                continue
            if one is not None and other is not None and one.node and other.node and self._tied(scenario, name, one):
                outcome.tie = f"{step}: {name} to {one.node} or {other.node}"
            else:
                outcome.differences.append(f"seed {scenario.seed}, {step}: {name}:\n  theirs {one}\n  ours   {other}")
        if outcome.tie:
            outcome.differences.clear()  # what else differs may follow from it
        return False

    def _tied(self, scenario: Scenario, name: str, theirs: PodView) -> bool:
        totals = self._decisions.totals(scenario.namespace, name)
        return bool(totals) and totals.get(theirs.node) == max(totals.values())

    def _count(self, scenario: Scenario, outcome: Outcome) -> None:
        _, views = self._sides[1].look(scenario)
        outcome.bound = sum(bool(view.node) for name, view in views.items() if name.startswith("new-"))
        outcome.pending = sum(not view.node for view in views.values())

    def _compare_events(self, scenario: Scenario, outcome: Outcome) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            theirs, ours = (side.events(scenario) for side in self._sides)
            if theirs == ours or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        outcome.events = len(ours)
        for who, more in (("theirs", theirs - ours), ("ours", ours - theirs)):
            outcome.differences += [f"seed {scenario.seed}: event only of {who}: {each}" for each in sorted(more)]


def _told_otherwise(theirs: dict[str, PodView], ours: dict[str, PodView]) -> list[str]:
    """Pods that wait on both sides and of which only the message differs, if nothing else does."""
    differing = [name for name in theirs.keys() | ours.keys() if theirs.get(name) != ours.get(name)]
    for name in differing:
        one, other = theirs.get(name), ours.get(name)
        if one is None or other is None or replace(one, scheduled=other.scheduled) != other or one.node:
            return []
    return sorted(differing)


def _placed(views: dict[str, PodView]) -> dict[str, str]:
    return {name: view.node for name, view in views.items()}
