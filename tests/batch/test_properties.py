"""What must hold for every cluster: discarding restores, gangs are whole, queues get what they deserve."""

from __future__ import annotations

from collections import Counter
from typing import Any

import hypothesis.strategies as st
import numpy as np
from hypothesis import HealthCheck, given, settings

from mooring.batch.plugins.proportion import fill
from mooring.batch.plugins.queue_accounts import QueueAccount
from mooring.batch.resource import Resource
from mooring.batch.run import run_actions
from mooring.batch.session import Session
from mooring.batch.task import PENDING, RUNNING
from tests.batch.cases import conf, decide, gang, node, opened, queue, running

relaxed = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))

NODES = ("a", "b", "c")


def amounts(resource: Resource) -> dict[str, float]:
    """Amounts, but for those of nothing: Volcano, too, keeps the names of what a job had."""
    return {name: amount for name, amount in resource.as_dict().items() if amount}


def state(session: Session, plugins: list[Any]) -> Any:
    """Everything that a statement may change, in a form that can be compared."""
    own = session.amounts
    columns = [np.array(each) for each in (own.idle, own.used, own.releasing, own.pipelined, own.future)]
    by_name = {plugin.name: plugin for plugin in plugins}
    return (
        [column.tolist() for column in columns],
        {
            job.uid: {uid: (task.status, task.node_name) for uid, task in job.tasks.items()}
            for job in session.jobs.values()
        },
        {job.uid: {status: sorted(tasks) for status, tasks in job.by_status.items()} for job in session.jobs.values()},
        {job.uid: amounts(job.allocated) for job in session.jobs.values()},
        {each.name: sorted(each.tasks) for each in session.node_list},
        {uid: (amounts(own.allocated), own.share) for uid, own in by_name["drf"].shares.items()},
        {name: (amounts(own.allocated), own.share) for name, own in by_name["proportion"].accounts.items()},
        {uid: known.node.name for uid, known in session.table.pods.items() if known.node is not None},
        session.bindings[:],
        session.evictions[:],
    )


@relaxed
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["allocate", "pipeline", "evict"]), st.integers(0, 30), st.sampled_from(NODES)),
        min_size=1,
        max_size=25,
    ),
    split=st.integers(0, 25),
)
def test_discarding_a_statement_restores_the_session_exactly(steps: list[tuple[str, int, str]], split: int) -> None:
    """Also where it was put together from others; the table that kube-scheduler's plugins see is restored too."""
    objects = [*(node(name, "8") for name in NODES), running("old", ["a", "b", "c", "a", "b"]), gang("new", 12)]
    _, session, plugins = opened(conf(), *objects)
    before = state(session, plugins)
    statement, other = session.statement(), session.statement()
    for number, (kind, which, place) in enumerate(steps):
        target = statement if number < split else other
        tasks = [each for job in session.jobs.values() for each in job.tasks.values()]
        if kind == "evict":
            able = [each for each in tasks if each.status == RUNNING]
            if able:
                target.evict(able[which % len(able)], "test")
        else:
            able = [each for each in tasks if each.status == PENDING]
            if able and kind == "allocate":
                target.allocate(able[which % len(able)], place)
            elif able:
                target.pipeline(able[which % len(able)], place, evicted=bool(which % 2))
    statement.merge(other)
    statement.discard()
    assert state(session, plugins) == before
    assert session.rollback.restore() is None
    assert state(session, plugins) == before


@relaxed
@given(
    gangs=st.lists(st.tuples(st.integers(1, 6), st.integers(0, 6), st.sampled_from(["500m", "1", "3"])), max_size=8),
    cores=st.lists(st.integers(1, 8), min_size=1, max_size=4),
)
def test_no_gang_is_bound_in_part(gangs: list[tuple[int, int, str]], cores: list[int]) -> None:
    """Either nothing of it, or at least as many as it needs; and no node is overfilled."""
    objects: list[Any] = [node(f"node-{number}", str(count)) for number, count in enumerate(cores)]
    wanted = {}
    for number, (pods, least, cpu) in enumerate(gangs):
        objects += gang(f"g{number}", pods, min(least, pods), cpu=cpu)
        wanted[f"g{number}"] = min(least, pods)
    answer = decide(conf(), *objects)
    placed = Counter(key.split("/")[1].split("-")[0] for key in answer["bound"])
    assert all(count >= wanted[name] for name, count in placed.items())
    asked = {"500m": 500, "1": 1000, "3": 3000}
    used: Counter[str] = Counter()
    for key, place in answer["bound"].items():
        used[place] += asked[gangs[int(key.split("/")[1].split("-")[0][1:])][2]]
    assert all(used[f"node-{number}"] <= count * 1000 for number, count in enumerate(cores))


accounts = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 40), st.integers(0, 10)), min_size=1, max_size=6)


@relaxed
@given(total=st.integers(1, 60), queues=accounts)
def test_what_queues_deserve_adds_up(total: int, queues: list[tuple[int, int, int]]) -> None:
    """Nobody deserves more than it wants or may have; nothing is left while somebody wants it; weights count."""
    made = []
    for number, (weight, request, limit) in enumerate(queues):
        account = QueueAccount(f"q{number}")
        account.request, account.limit = Resource(request * 1000.0), Resource(limit * 4000.0)
        made.append((weight, account))
    fill(Resource(total * 1000.0), made)
    can_have = {each.name: min(each.request.cpu, each.limit.cpu) for _, each in made}
    for _, each in made:
        assert each.deserved.cpu <= can_have[each.name] + 0.1
    given = sum(each.deserved.cpu for _, each in made)
    assert given <= total * 1000 + 0.1 * len(made)
    assert given >= min(total * 1000, sum(can_have.values())) - 0.1 * len(made) - 1
    unmet = [(weight, each) for weight, each in made if each.deserved.cpu < can_have[each.name] - 1]
    for weight, each in unmet:
        for other_weight, other in made:
            # Nobody has more by weight than one that wants more.
            assert other.deserved.cpu / other_weight <= each.deserved.cpu / weight + 1


@relaxed
@given(weights=st.lists(st.integers(1, 5), min_size=2, max_size=4), cores=st.integers(4, 40))
def test_queues_that_want_everything_get_what_they_deserve(weights: list[int], cores: int) -> None:
    """To within one task each, from nothing or from one queue that has it all, session after session."""
    objects: list[Any] = [node("a", str(cores))]
    for number, weight in enumerate(weights):
        objects += [queue(f"q{number}", weight), *gang(f"g{number}", cores, 1, queue=f"q{number}")]
    answer = decide(conf(), *objects)
    placed = Counter(key.split("/")[1].split("-")[0] for key in answer["bound"])
    for number, weight in enumerate(weights):
        deserved = cores * weight / sum(weights)
        assert deserved - 1 <= placed[f"g{number}"] <= deserved + 1e-6


def test_steps_of_actions_end_with_nothing_half_done() -> None:
    """Between two steps every gang has all it needs or nothing that was committed."""
    objects = [node("a", "5"), gang("x", 3), gang("y", 3), gang("z", 2)]
    _, session, _ = opened(conf(), *objects)
    run_actions(session)
    assert Counter(task.job for task in session.bindings) == {"default/x": 3, "default/z": 2}
