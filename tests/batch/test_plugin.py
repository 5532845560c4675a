"""Plugins and actions of users in sessions: arguments, names, failures, and what they can register."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import pytest

from mooring.batch.actions import ACTIONS
from mooring.batch.callbacks import ABSTAIN, PERMIT, REJECT
from mooring.batch.conf import read_conf
from mooring.batch.evaluate import _objects, offline_cluster
from mooring.batch.plugin import SessionGuards
from mooring.batch.plugins import PLUGINS
from mooring.batch.run import close_session, open_session, run_actions
from mooring.batch.session import Session
from mooring.loading.plugin_options import PluginOptions
from tests.batch.cases import conf, gang, node, queue, running

VICTIMS = "the tasks that may be evicted and a vote, such as (candidates, 1)"
TIERS = (("mine", "gang"), ("predicates", "nodeorder"))


def without_places(messages: list[str]) -> list[str]:
    """Replace the file and line of this file in messages."""
    return [re.sub(r"tests/batch/test_plugin\.py:\d+", "FILE", message) for message in messages]


def decided(
    plugin: type[Any],
    *objects: Any,
    arguments: str = "",
    actions: str = "enqueue, allocate",
    more: Any = None,
    guards: SessionGuards | None = None,
) -> tuple[dict[str, str], Session, list[str]]:
    """What a session with a user's plugin called `mine` binds, the session, and what was told."""
    flat = [queue("root"), queue("default")]
    for each in objects:
        flat += each if isinstance(each, list) else [each]
    plugins, known = {**PLUGINS, "mine": plugin}, {**ACTIONS, **(more or {})}
    text = conf(*TIERS, actions=actions, mine=arguments)
    cluster = offline_cluster(list(_objects({"objects": flat})))
    cluster.kube.hides_unevicted = False  # as on a live cluster
    session = cluster.session(read_conf(text, actions=known, plugins=list(plugins)))
    opened = open_session(session, plugins, guards)
    run_actions(session, known)
    close_session(session, opened)
    return {task.name: task.node_name for task in session.bindings}, session, session.warnings


def test_arguments_come_typed_as_they_are_declared() -> None:
    seen = []

    class Mine:
        class Args:
            node: str = "a"
            times: int = 1
            names: tuple[str, ...] = ()

        def on_session_open(self, session: Any) -> None:
            seen.append((self.args.node, self.args.times, self.args.names))  # type: ignore[attr-defined]

    decided(Mine, node("a"))
    decided(Mine, node("a"), arguments="{node: b, times: 3, names: [p, q]}")
    assert seen == [("a", 1, ()), ("b", 3, ("p", "q"))]
    _, _, told = decided(Mine, node("a"), arguments="{times: often}")
    assert len(told) == 1
    assert "on_session_open" in told[0]
    assert "arguments.times: Expected `int`, got `str`" in told[0]
    _, _, told = decided(Mine, node("a"), arguments="{tims: 3}")
    assert "tims" in told[0]


def leave(*_: Any) -> Any:
    raise SystemExit(3)


KINDS = ("job_order", "queue_order", "task_order", "predicate", "node_order", "overused", "allocatable", "job_ready")


@pytest.mark.parametrize("kind", KINDS)
def test_a_callback_that_exits_the_process_fails(kind: str) -> None:
    class Mine:
        def on_session_open(self, session: Any) -> None:
            getattr(session, f"add_{kind}")(leave)

    _, _, told = decided(Mine, node("a"), node("b"), gang("g", 2), gang("h", 1))
    assert all("SystemExit: 3" in each for each in told)


@pytest.mark.parametrize("method", ["__init__", "on_session_open", "on_session_close"])
def test_a_session_plugin_that_exits_the_process_fails(method: str) -> None:
    mine = type("Mine", (), {"on_session_open": lambda self, session: None, method: leave})
    placed, _, told = decided(mine, node("a"), gang("g", 1))
    assert len(placed) == 1
    assert ["SystemExit: 3" in each for each in told] == [True]


@pytest.mark.parametrize("error", [SystemExit(3), KeyError("zone")])
def test_an_action_that_fails_is_skipped(error: BaseException) -> None:
    def mine(session: Any) -> None:
        raise error

    class Nothing:
        def on_session_open(self, session: Any) -> None:
            """Register nothing."""

    placed, _, told = decided(Nothing, node("a"), gang("g", 1), actions="enqueue, mine, allocate", more={"mine": mine})
    assert len(placed) == 1
    assert without_places(told) == [f'action "mine" failed: FILE in mine: {type(error).__name__}: {error}']


class CommonArgs:
    zones: list[str] = ["a"]  # noqa: RUF012  # a mutable default is what is tested


def test_args_may_have_mutable_defaults_and_inherited_fields() -> None:
    """Session plugins share the decoder of profile plugins."""
    seen = []

    class Mine:
        class Args(CommonArgs):
            times: int = 1

        def on_session_open(self, session: Any) -> None:
            seen.append((self.args.zones, self.args.times))  # type: ignore[attr-defined]
            self.args.zones.append("changed")  # type: ignore[attr-defined]

    _, _, told = decided(Mine, node("a"))
    decided(Mine, node("a"), arguments="{zones: [b, c], times: 2}")
    decided(Mine, node("a"))
    assert told == []
    assert [(zones[:-1], times) for zones, times in seen] == [(["a"], 1), (["b", "c"], 2), (["a"], 1)]


def test_arguments_come_as_a_mapping_to_those_that_declare_none() -> None:
    seen = []

    class Mine:
        def __init__(self, arguments: dict[str, Any]) -> None:
            seen.append(arguments)

        def on_session_open(self, session: Any) -> None:
            seen.append(self.args)  # type: ignore[attr-defined]

    decided(Mine, node("a"), arguments='{"mine.weight": 3}')
    assert seen == [{"mine.weight": 3}, {"mine.weight": 3}]


def test_every_kind_of_callback_can_be_registered_and_is_asked() -> None:
    """By a session that has something to do for each: the names follow Volcano's."""
    asked: set[str] = set()

    def note(name: str, answer: Any) -> Any:
        def callback(*given: Any) -> Any:
            asked.add(name)
            return answer(*given) if callable(answer) else answer

        return callback

    answers = {
        "job_order": 0, "queue_order": 0, "victim_queue_order": 0, "task_order": 0, "pre_predicate": None,
        "predicate": None, "node_order": 1.0, "batch_node_order": {}, "best_node": None,
        "preemptable": lambda _task, candidates: (candidates, PERMIT),
        "reclaimable": lambda _task, candidates: (candidates, PERMIT),
        "overused": False, "preemptive": True, "allocatable": True, "job_ready": True, "job_pipelined": ABSTAIN,
        "job_enqueueable": ABSTAIN, "job_enqueued": None, "job_starving": True, "job_valid": None, "victim_tasks": [],
    }  # fmt: skip

    class Mine:
        def on_session_open(self, session: Any) -> None:
            for name, answer in answers.items():
                getattr(session, f"add_{name}")(note(name, answer))
            session.add_event_handler(note("allocate", None), note("deallocate", None))

        def on_session_close(self, session: Any) -> None:
            asked.add("on_session_close")

    objects = [
        node("a", "4"), node("b", "3"), node("c", "2"), queue("one"), queue("two"), queue("three"),
        running("x", ["a", "a"], queue="one"), running("v", ["a", "a"], queue="three"),
        gang("fits", 2, queue="one", minResources={"cpu": "1"}), gang("w", 1, queue="three"),
        gang("huge", 5, queue="two", minResources={"cpu": "5"}), gang("more", 3, queue="one"),
    ]  # fmt: skip
    decided(Mine, *objects, actions="enqueue, allocate, preempt, reclaim, backfill, shuffle")
    full = [node("a", "4"), *objects[3:8], gang("other", 1, queue="two")]
    decided(Mine, *full, actions="enqueue, reclaim")
    assert asked == {*answers, "allocate", "deallocate", "on_session_close"}


@pytest.mark.parametrize(
    ("register", "answer"),
    [
        ("add_job_enqueueable", REJECT),
        ("add_overused", True),
        ("add_allocatable", False),
        ("add_job_ready", False),
        ("add_predicate", "not there"),
        ("add_pre_predicate", "not at all"),
    ],
)
def test_what_a_plugin_says_counts(register: str, answer: Any) -> None:
    class Mine:
        def on_session_open(self, session: Any) -> None:
            getattr(session, register)(lambda *_: answer)

    bound, _, told = decided(Mine, node("a"), gang("g", 1, minResources={"cpu": "1"}))
    assert bound == {}
    assert told == []


def test_columns_and_single_nodes_decide_the_same() -> None:
    class Single:
        def on_session_open(self, session: Any) -> None:
            session.add_node_order(lambda task, node: -node.idle.cpu)

    class Columns:
        def on_session_open(self, session: Any) -> None:
            session.add_node_order(lambda task, nodes: -nodes.idle("cpu"), columns=True)

    objects = [node("a", "4"), node("b", "3"), node("c", "2"), gang("g", 7)]
    single, columns = decided(Single, *objects)[0], decided(Columns, *objects)[0]
    assert single == columns
    assert sorted(single.values()) == ["a", "a", "b", "b", "b", "c", "c"]


def test_a_plugin_that_breaks_harms_no_session_and_is_told_of_once() -> None:
    class Mine:
        def on_session_open(self, session: Any) -> None:
            session.add_node_order(lambda task, node: 1 / 0)
            session.add_job_order(lambda left, right: left.nothing)

        def on_session_close(self, session: Any) -> None:
            raise ValueError("too late")

    bound, _, told = decided(Mine, node("a"), node("b"), gang("g", 3), gang("h", 1))
    assert len(bound) == 4
    assert sorted(text.split(" failed in ")[1].split(":")[0] for text in told) == [
        "job_order", "node_order", "on_session_close"
    ]  # fmt: skip


def test_one_that_breaks_at_the_opening_has_no_say() -> None:
    class Mine:
        def on_session_open(self, session: Any) -> None:
            session.add_overused(lambda queue: True)
            raise ValueError("after all")

    bound, _, told = decided(Mine, node("a"), gang("g", 1))
    assert len(bound) == 1
    expected = 'plugin "mine" failed in on_session_open: FILE in on_session_open: ValueError: after all'
    assert without_places(told) == [expected]


@pytest.mark.parametrize("columns", [False, True])
def test_a_failing_predicate_rejects_the_nodes(columns: bool) -> None:
    class Mine:
        def on_session_open(self, session: Any) -> None:
            session.add_predicate(lambda task, nodes: 1 / 0, columns=columns)

    bound, _, told = decided(Mine, node("a"), gang("g", 1))
    assert bound == {}
    expected = 'plugin "mine" failed in predicate: FILE in <lambda>: ZeroDivisionError: division by zero'
    assert without_places(told) == [expected]


def test_wrong_answers_count_as_failures() -> None:
    """Otherwise they would fail the session."""

    class Mine:
        def on_session_open(self, session: Any) -> None:
            session.add_job_order(lambda left, right: "first")
            session.add_node_order(lambda task, node: None)
            session.add_preemptable(lambda task, candidates: candidates)

    full = [node("a", "1"), running("x", ["a"])]
    bound, _, told = decided(Mine, *full, node("b", "2"), gang("g", 2), gang("h", 1), actions="allocate, preempt")
    assert len(bound) == 2
    order = "returned str 'first'; return a negative number, 0 or a positive number"
    assert sorted(without_places(told)) == [
        f'plugin "mine" failed in job_order: FILE in <lambda>: {order}',
        'plugin "mine" failed in node_order: FILE in <lambda>: returned None; return a number',
        'plugin "mine" failed in preemptable: FILE in <lambda>: returned list; return ' + VICTIMS,
    ]


@pytest.mark.parametrize("handler", ["allocate", "deallocate"])
def test_failing_event_handlers_harm_no_session(handler: str) -> None:
    class Mine:
        def on_session_open(self, session: Any) -> None:
            session.add_event_handler(**{handler: lambda task: task.nothing})

    bound, _, told = decided(Mine, node("a", "2"), gang("g", 1), gang("huge", 2))
    assert len(bound) == 1
    assert len(told) == 1
    (text,) = without_places(told)
    assert text.startswith(f'plugin "mine" failed in {handler}_handler: FILE in <lambda>: AttributeError')


def test_a_failing_reservation_rejects_the_task() -> None:
    class Mine:
        def on_session_open(self, session: Any) -> None:
            session.add_reservation(lambda task: 1 / 0, lambda task: None)

    bound, _, told = decided(Mine, node("a"), gang("g", 1))
    assert bound == {}
    expected = 'plugin "mine" failed in reservation: FILE in <lambda>: ZeroDivisionError: division by zero'
    assert without_places(told) == [expected]


def test_a_plugin_that_fails_to_open_leaves_no_handlers() -> None:
    seen: list[str] = []

    class Mine:
        def on_session_open(self, session: Any) -> None:
            session.add_event_handler(lambda task: seen.append(task.name))
            session.add_reservation(lambda task: "no", lambda task: None)
            raise ValueError("after all")

    bound, _, _ = decided(Mine, node("a"), gang("g", 1))
    assert len(bound) == 1
    assert seen == []


class Flaky:
    """Its predicate fails while ``broken``; its order of nodes works."""

    broken = True
    calls: ClassVar[list[str]] = []

    def on_session_open(self, session: Any) -> None:
        session.add_predicate(self.predicate)
        session.add_node_order(lambda task, node: self.calls.append("order") or 0.0)  # type: ignore[func-returns-value]

    def predicate(self, task: Any, node: Any) -> None:
        self.calls.append("predicate")
        if self.broken:
            raise ValueError("no connection")


class Breaker:
    """Sessions with a flaky plugin, one after the other."""

    def __init__(self, policy: str = "Fail") -> None:
        self.now, self.events = 1000.0, []
        self.plugin = type("Flaky", (Flaky,), {"broken": True, "calls": []})
        self.guards = SessionGuards(
            {"mine": PluginOptions(failure_threshold=3, failure_policy=policy)},  # type: ignore[arg-type]
            clock=lambda: self.now,
            log=lambda event, **details: self.events.append(event),
        )

    def session(self, arguments: str = "") -> int:
        """Return how many pods the session bound."""
        self.plugin.calls.clear()
        return len(decided(self.plugin, node("a"), node("b"), gang("g", 1), arguments=arguments, guards=self.guards)[0])


def test_failing_callbacks_of_session_plugins_are_counted_and_switched_off() -> None:
    world = Breaker()
    for _ in range(3):
        assert world.session() == 0
        assert world.plugin.calls == ["predicate", "predicate"]
    assert world.session() == 0, "a predicate that is switched off rejects nodes as a failing one does"
    assert world.plugin.calls == []
    assert world.guards.health.open == {"mine"}
    assert world.guards.health.failures["mine", "predicate"] == 6
    assert world.guards.health.skipped["mine", "predicate"] == 2
    switched_off = "plugin switched off after 3 failed sessions in a row; its answers count as failed"
    assert world.events == ["plugin failed", f"{switched_off} until it is tried again"]
    world.plugin.broken = False
    assert world.session() == 0
    world.now += 31
    assert world.session() == 1
    assert world.plugin.calls == ["predicate", "predicate", "order", "order"]
    assert world.events[-1] == "plugin works again"
    assert world.guards.health.open == set()


@pytest.mark.parametrize("method", ["on_session_open", "on_session_close"])
def test_a_plugin_that_always_fails_to_open_or_close_is_switched_off(method: str) -> None:
    calls: list[str] = []

    def fail(self: Any, session: Any) -> None:
        calls.append(method)
        raise ValueError("no connection")

    world = Breaker()
    world.plugin = type("Failing", (), {method: fail, "calls": []})
    assert [world.session() for _ in range(5)] == [1] * 5, "the plugin has no say"
    assert len(calls) == 3
    assert world.guards.health.failures["mine", method] == 3
    assert world.guards.health.open == {"mine"}
    world.now += 31
    world.session()
    assert len(calls) == 4
    (statistics,) = world.guards.statistics().values()
    (state,) = without_places([statistics["state"]])
    assert state == "switched off (Fail): FILE in fail: ValueError: no connection"
    assert statistics["failures"] == 4


@pytest.mark.parametrize("generates", [False, True])
def test_a_users_action_that_always_fails_is_switched_off(generates: bool) -> None:
    calls: list[str] = []

    def plain(session: Any) -> None:
        calls.append("execute")
        raise ValueError("no connection")

    def generator(session: Any) -> Any:
        yield
        plain(session)

    class Nothing:
        def on_session_open(self, session: Any) -> None: ...

    world = Breaker()
    action = world.guards.action("mine", generator if generates else plain)
    objects = [node("a"), gang("g", 1)]
    for _ in range(5):
        bound, _, _ = decided(
            Nothing, *objects, actions="enqueue, mine, allocate", more={"mine": action}, guards=world.guards
        )
        assert len(bound) == 1, "the other actions run"
        world.guards.end_attempt()
    assert len(calls) == 3
    assert world.guards.health.failures["mine", "execute"] == 3


def test_a_session_plugin_that_is_ignored_rejects_no_nodes_once_it_is_switched_off() -> None:
    world = Breaker("Ignore")
    assert [world.session() for _ in range(4)] == [0, 0, 0, 1]
    assert "order" in world.plugin.calls, "its other callbacks are called"


def test_new_arguments_or_options_close_the_breaker() -> None:
    world = Breaker()
    for _ in range(4):
        world.session()
    world.session("{zone: b}")
    assert world.plugin.calls
    assert world.guards.health.open == set()
    for _ in range(4):
        world.session("{zone: b}")
    assert not world.plugin.calls
    world.guards.set_options({})
    world.session("{zone: b}")
    assert world.plugin.calls


def test_an_action_of_ones_own_runs_where_the_configuration_names_it() -> None:
    """It works with statements, as the built-in ones do."""

    class Mine:
        def on_session_open(self, session: Any) -> None: ...

    def spare_first(session: Any) -> None:
        statement = session.statement()
        for job in session.jobs.values():
            for task in job.of_status("Pending"):
                if not statement.allocate(task, "b"):
                    continue
        statement.commit()

    bound, session, _ = decided(
        Mine,
        node("a"),
        node("b"),
        gang("g", 2),
        actions="enqueue, spare-first, allocate",
        more={"spare-first": spare_first},
    )
    assert bound == {"g-task-0": "b", "g-task-1": "b"}
    assert session.conf.actions == ("enqueue", "spare-first", "allocate")
