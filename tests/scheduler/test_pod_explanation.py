"""Explanations of pods at Permit, of preemptors and victims, and of gated pods, also after the pods are gone."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from mooring.api.pod import Pod
from mooring.config import default_config
from mooring.framework import PermitWait, Plugin, Status
from mooring.loading.setup import configuration
from mooring.observe.decision_records import DecisionRecords
from mooring.observe.explanation import Explanation, HoldView, PreemptedView
from mooring.scheduler import suggestions
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt
from mooring.scheduler.engine import Engine
from mooring.scheduler.observer import Observer
from mooring.scheduler.pod_explanation import explain, explain_with_pauses
from mooring.scheduler.suggestions import Suggestion
from mooring.testing import make_node, make_pod

START = 1_000_000_000.0
NOW, IN_SEVEN, IN_TWO = "2001-09-09T01:46:40Z", "2001-09-09T01:46:47Z", "2001-09-09T01:46:42Z"


class Patience(Plugin):
    """Makes every pod wait."""

    def permit(self, state: Any, pod: Any, node_name: str) -> PermitWait:
        return PermitWait(7.0, allow_after=2.0 if pod.name == "soon" else None)


class Approval(Plugin):
    """Holds pods that are not approved."""

    def pre_enqueue(self, pod: Any) -> Status | None:
        return None if "approved" in pod.labels else Status.unresolvable("not approved yet", "ask ops")


def make_engine(*plugins: type[Plugin]) -> Engine:
    classes = {cls.name: cls for cls in plugins}
    engine = Engine(
        configuration(None, plugins=classes, source=""),
        plugins=classes,
        rng=random.Random(0),
        clock=lambda: START,
        observer=Observer(records=DecisionRecords(), clock=lambda: START),
    )
    engine.put(make_node("n").capacity(cpu="2", memory="4Gi", pods="10").obj())
    return engine


def explained(engine: Engine, key: str) -> Explanation:
    found = explain(engine, key)
    assert found is not None
    return found


def pod(name: str, cpu: str = "1", priority: int = 0, uid: str = "", **labels: str) -> Pod:
    return make_pod(name).uid(uid or name).req(cpu=cpu).priority(priority).label(**labels).obj()


# Permit


def test_a_pod_at_permit_names_the_plugins_and_their_deadlines() -> None:
    engine = make_engine(Patience)
    for name, allowed_at in (("p", ""), ("soon", IN_TWO)):
        engine.put(pod(name, cpu="100m"))
        assert isinstance(engine.schedule_one(), AssumedPod)
        found = explained(engine, f"default/{name}")
        hold = HoldView(plugin="Patience", timeout_seconds=7.0, until=IN_SEVEN, allowed_at=allowed_at)
        assert (found.state, found.node, found.held_by) == ("held", "n", [hold])
        assert found.decision is not None
        assert found.decision.permit == [hold]


async def test_the_record_keeps_who_held_a_pod_that_was_deleted_at_permit() -> None:
    engine = make_engine(Patience)
    waiting = pod("p")
    engine.put(waiting)
    assumed = engine.schedule_one()
    assert isinstance(assumed, AssumedPod)
    binding = asyncio.create_task(engine.bind(assumed))
    await asyncio.sleep(0)
    engine.remove(waiting)
    await binding
    found = explained(engine, "default/p")
    assert (found.state, found.held_by) == ("gone", [])
    assert found.decision is not None
    assert [each.plugin for each in found.decision.permit] == ["Patience"]


async def test_a_pod_that_is_retried_after_its_backoff_says_so() -> None:
    engine = make_engine(Patience)
    engine.put(pod("p", cpu="2"))
    assumed = engine.schedule_one()
    assert isinstance(assumed, AssumedPod)
    engine.put(pod("other", cpu="2"))
    assert isinstance(engine.schedule_one(), FailedAttempt)
    before = explained(engine, "default/other").waiting
    held = engine.profiles.waiting_pods.get("p")
    assert held is not None
    held.reject("Patience", "no")
    await engine.bind(assumed)
    after = explained(engine, "default/other").waiting
    assert before is not None
    assert after is not None
    assert before.queue == after.queue == "unschedulable"
    assert after.backoff_ends < after.retried_by < before.retried_by


async def test_an_allowed_pod_is_not_held_any_more() -> None:
    engine = make_engine(Patience)
    engine.put(pod("p"))
    assumed = engine.schedule_one()
    assert isinstance(assumed, AssumedPod)
    held = engine.profiles.waiting_pods.get("p")
    assert held is not None
    held.allow("Patience")
    assert explained(engine, "default/p").state == "binding"


# Preemption


def preempt(engine: Engine, victim: Pod, preemptor: Pod) -> FailedAttempt:
    """Place a pod and let another preempt it, up to the deletion of the first."""
    engine.put(victim)
    assumed = engine.schedule_one()
    assert isinstance(assumed, AssumedPod)
    asyncio.run(engine.bind(assumed))
    engine.put(assumed.pod)
    engine.put(preemptor)
    failed = engine.schedule_one()
    assert isinstance(failed, FailedAttempt)
    assert failed.victims == (victim.uid,)
    assert failed.failure.post_filter is not None
    assert engine.observer is not None
    engine.observer.preempted(victim, preemptor, "n", failed.failure.post_filter.plugin)
    return failed


def test_a_victim_names_its_preemptor_and_a_preemptor_its_victims() -> None:
    engine = make_engine()
    victim, vip = pod("victim", cpu="2"), pod("vip", cpu="2", priority=10)
    preempt(engine, victim, vip)
    by = PreemptedView(by="default/vip", plugin="DefaultPreemption", node="n", time=NOW)
    found = explained(engine, "default/victim")
    assert found.decision is not None
    assert (found.state, found.decision.preempted) == ("bound", by)
    engine.remove(victim)
    found = explained(engine, "default/victim")
    assert found.decision is not None
    assert (found.state, found.decision.outcome, found.decision.preempted) == ("gone", "preempted", by)
    # The victims stay known when the preemptor's next attempt places it.
    engine.queue.activate(["default/vip"])
    assert isinstance(engine.schedule_one(), AssumedPod)
    placed = explained(engine, "default/vip")
    assert placed.decision is not None
    assert (placed.decision.node, placed.decision.attempt) == ("n", 2)
    assert placed.decision.victims == ["default/victim"]


def test_a_victim_that_this_scheduler_did_not_place() -> None:
    engine = make_engine()
    stranger = make_pod("stranger").uid("stranger").req(cpu="2").node("n").obj()
    engine.put(stranger)
    engine.put(pod("vip", cpu="2", priority=10))
    assert isinstance(engine.schedule_one(), FailedAttempt)
    assert engine.observer is not None
    engine.observer.preempted(stranger, pod("vip"), "n", "DefaultPreemption")
    assert "Another scheduler bound it" in explained(engine, "default/stranger").note
    engine.remove(stranger)
    found = explained(engine, "default/stranger")
    assert found.decision is not None
    assert found.decision.preempted is not None
    assert (found.state, found.decision.preempted.by) == ("gone", "default/vip")


def test_the_next_pod_of_the_name_was_not_preempted() -> None:
    engine = make_engine()
    victim = pod("web-0", cpu="2")
    preempt(engine, victim, pod("vip", cpu="2", priority=10))
    engine.remove(victim)
    engine.put(pod("web-0", cpu="2", uid="another"))
    found = explained(engine, "default/web-0")
    assert (found.state, found.decision) == ("pending", None)


async def test_a_pod_that_was_preempted_at_permit_says_so_while_it_is_pending() -> None:
    engine = make_engine(Patience)
    waiting, vip = pod("waiting", cpu="2"), pod("vip", cpu="2", priority=10)
    engine.put(waiting)
    assumed = engine.schedule_one()
    assert isinstance(assumed, AssumedPod)
    binding = asyncio.create_task(engine.bind(assumed))
    await asyncio.sleep(0)
    held = engine.profiles.waiting_pods.get(waiting.uid)
    assert held is not None
    held.preempt("DefaultPreemption")
    assert engine.observer is not None
    engine.observer.preempted(waiting, vip, "n", "DefaultPreemption")
    assert isinstance(await binding, FailedAttempt)
    found = explained(engine, "default/waiting")
    assert found.decision is not None
    assert found.decision.preempted is not None
    assert (found.state, found.decision.preempted.by) == ("pending", "default/vip")
    assert [each.plugin for each in found.decision.permit] == ["Patience"]


# PreEnqueue


def test_a_gated_pod_names_its_plugin_and_the_reasons_also_after_it_is_gone() -> None:
    engine = make_engine(Approval)
    held = pod("held")
    engine.put(held)
    found = explained(engine, "default/held")
    assert found.waiting is not None
    assert (found.state, found.waiting.gated_by) == ("gated", "Approval")
    assert found.waiting.gate_reasons == ["not approved yet", "ask ops"]
    engine.remove(held)
    found = explained(engine, "default/held")
    assert found.decision is not None
    assert (found.state, found.decision.outcome) == ("gone", "gated")
    assert [(each.plugin, each.reasons) for each in found.decision.verdicts] == [
        ("Approval", ["not approved yet", "ask ops"])
    ]


def test_a_released_pod_leaves_no_gate_behind() -> None:
    engine = make_engine(Approval)
    engine.put(pod("held"))
    engine.put(pod("held", approved="yes"))
    assert isinstance(engine.schedule_one(), AssumedPod)
    found = explained(engine, "default/held")
    assert found.decision is not None
    assert (found.state, found.decision.outcome) == ("binding", "placed")


async def test_suggestions_are_found_once_per_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions continue in the pauses of the search, and the result is the same as without pauses."""
    observer = Observer(records=DecisionRecords())
    engine = Engine(default_config(), observer=observer)
    engine.put(make_node("a").capacity(cpu="4", pods=10).obj())
    engine.put(make_pod("big").req(cpu="9").obj())
    engine.schedule_one()
    plain = explain(engine, "default/big")
    searches: list[str] = []
    real = suggestions.suggest_with_pauses

    async def counted(searched: Engine, pod: Pod) -> list[Suggestion]:
        searches.append(pod.key)
        return await real(searched, pod)

    monkeypatch.setattr(suggestions, "suggest_with_pauses", counted)
    for _ in range(3):
        assert await explain_with_pauses(engine, "default/big") == plain
    assert plain is not None
    assert plain.suggestions
    assert searches == ["default/big"]
    engine.queue.activate(["default/big"])
    engine.schedule_one()
    await explain_with_pauses(engine, "default/big")
    assert len(searches) == 2
