"""Coscheduling: who goes first, who is worth a try, who waits, who is given up."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.api.pod import Pod
from mooring.config import ConfigError, load_config
from mooring.framework import ActionType, CycleState, PermitWait, Status
from mooring.framework.node_statuses import NodeStatuses
from mooring.framework.waiting_pods import WaitingPod
from mooring.plugins.coscheduling import Coscheduling
from mooring.plugins.coscheduling.pod_group import LABEL, PodGroup
from mooring.scheduler.queue import QueuedPod
from mooring.testing import PluginHarness, PodBuilder, make_node, make_pod

NOW = 2_000_000_000.0


class Clock:
    now = NOW

    def __call__(self) -> float:
        return self.now


def group(name: str, members: int | None = 2, *, created: str = "2024-01-01T00:00:00Z", **spec: Any) -> PodGroup:
    raw: dict[str, Any] = {"metadata": {"name": name, "namespace": "default", "creationTimestamp": created}}
    return msgspec.convert({**raw, "spec": {**spec, **({} if members is None else {"minMember": members})}}, PodGroup)


def member(name: str, of: str = "g") -> PodBuilder:
    return make_pod(name).uid(name).label({LABEL: of}).req(cpu="1")


def harness(*objects: Any, clock: Clock | None = None, **args: Any) -> PluginHarness:
    nodes = [make_node(f"n{number}").capacity(cpu="4", memory="8Gi", pods="3").obj() for number in range(2)]
    made = [each.obj() if isinstance(each, PodBuilder) else each for each in objects]
    pods = [each for each in made if isinstance(each, Pod)]
    rest = [each for each in made if not isinstance(each, Pod)]
    return PluginHarness(Coscheduling, args=args, nodes=nodes, pods=pods, objects=rest, clock=clock or Clock())


def pre_filter(world: PluginHarness, pod: PodBuilder) -> tuple[str, ...]:
    status = world.plugin.pre_filter(CycleState(), pod.obj(), world.nodes())
    assert status is None or status.code is Status.unresolvable().code
    return () if status is None else status.reasons


def permit(world: PluginHarness, pod: PodBuilder, state: CycleState | None = None) -> Any:
    answer = world.plugin.permit(CycleState() if state is None else state, pod.obj(), "n0")
    if isinstance(answer, PermitWait):
        world.handle.waiting_pods.add(WaitingPod(pod.obj(), "n0", {"Coscheduling": (answer.seconds, NOW + 1e6)}))
    return answer


def post_filter(world: PluginHarness, pod: PodBuilder) -> Status:
    _, status = world.plugin.post_filter(CycleState(), pod.obj(), NodeStatuses(world.table))
    assert status.is_rejected
    found: Status = status
    return found


# The queue


def queued(pod: PodBuilder, first: float | None = 5.0) -> QueuedPod:
    made = QueuedPod.new(pod.obj(), 9.0)
    made.initial_attempt_timestamp = first
    return made


OLD, NEW = group("old", created="2024-01-01T00:00:00Z"), group("new", created="2024-01-02T00:00:00Z")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (queued(member("b", "new").priority(1)), queued(member("a", "old"))),
        (queued(member("b", "old")), queued(member("a", "new"))),
        (queued(member("a", "old")), queued(member("b", "old"))),
        (queued(make_pod("z"), 1.0), queued(make_pod("a"), 2.0)),
        (queued(make_pod("a"), 1.0), queued(make_pod("b"), 1.0)),
        (queued(make_pod("z"), 3.0), queued(make_pod("a"), None)),
        (queued(make_pod("z")), queued(member("a", "old"))),
        (queued(member("z", "nobody")), queued(member("a", "old"))),
    ],
)
def test_order(first: QueuedPod, second: QueuedPod) -> None:
    """Priority; age of the group, or of the pod where it has none (or the group does not exist); name."""
    less = harness(OLD, NEW).plugin.less
    assert less(first, second) is True
    assert less(second, first) is False


def test_a_group_that_failed_goes_last_until_it_succeeds() -> None:
    world = harness(OLD, NEW, member("a", "old"), member("b", "old"))
    first, second = queued(member("a", "old")), queued(member("c", "new"))
    world.plugin.unreserve(CycleState(), member("a", "old").obj(), "n0")
    assert world.plugin.less(second, first) is True
    permit(world, member("a", "old"))
    permit(world, member("b", "old"))
    assert world.plugin.less(first, second) is True


# PreFilter


def test_pods_without_a_group_pass() -> None:
    world = harness(group("g", 5))
    assert pre_filter(world, make_pod("p")) == ()
    assert pre_filter(world, member("p", "nobody")) == ()


@pytest.mark.parametrize(
    ("members", "present", "reasons"),
    [
        (2, [member("a"), member("b")], ()),
        (None, [member("a")], ()),
        (3, [member("a"), member("b")], ("pre-filter pod a cannot find enough sibling pods, current pods number: 2, "
         "minMember of group: 3")),
        (2, [member("a"), make_pod("b", "other").label({LABEL: "g"})], ("pre-filter pod a cannot find enough sibling "
         "pods, current pods number: 1, minMember of group: 2")),
        (2, [member("a"), member("b").gate("x")], ("pre-filter pod a cannot proceed due to gated pods in the same "
         "PodGroup")),
        (2, [member("a"), member("b"), member("c").gate("x")], ()),
        (2, [member("a"), member("b").node("n1")], ()),
        (2, [member("a"), member("b").scheduler("somebody-else")], ()),
    ],
)  # fmt: skip
def test_enough_pods(members: int | None, present: list[PodBuilder], reasons: Any) -> None:
    """Pods count wherever they are and whoever places them, but for those held back by gates."""
    assert pre_filter(harness(group("g", members), *present), member("a")) == ((reasons,) if reasons else ())


@pytest.mark.parametrize(
    ("wanted", "missing"),
    [
        ({"cpu": "8"}, ""),
        ({"cpu": "8001m"}, "resource gap: cpu 1m"),
        ({"cpu": "2", "memory": "20Gi"}, "resource gap: memory 4Gi"),
        ({"nvidia.com/gpu": 1}, "resource gap: nvidia.com/gpu 1"),
        ({"cpu": "0"}, ""),
        ({}, ""),
        ({"cpu": "many"}, "PodGroup default/g: minResources"),
    ],
)
def test_enough_room_in_sum(wanted: dict[str, Any], missing: str) -> None:
    found = pre_filter(harness(group("g", 1, minResources=wanted), member("a")), member("a"))
    assert found[0].startswith(missing) if missing else found == ()


def test_room_counts_pods_too() -> None:
    members = [member(f"m{number}") for number in range(7)]
    assert pre_filter(harness(group("g", 6, minResources={}), *members), member("m0")) == ()
    assert pre_filter(harness(group("g", 7, minResources={}), *members), member("m0")) == ("resource gap: pods 1",)


def test_what_the_group_has_is_its_own() -> None:
    """Four of eight cores are taken: by the group itself, which is no obstacle, or by others."""
    wanted = group("g", 1, minResources={"cpu": "8"})
    mine = [member(f"m{number}").node("n0") for number in range(3)]
    others = [make_pod(f"m{number}").uid(f"m{number}").req(cpu="1").node("n0") for number in range(3)]
    assert pre_filter(harness(wanted, *mine, member("a")), member("a")) == ()
    assert pre_filter(harness(wanted, *others, member("a")), member("a")) == ("resource gap: cpu 3",)


def test_a_node_that_gave_too_much_counts_against_it_only_before_there_is_enough() -> None:
    full = [make_pod(f"o{number}").uid(f"o{number}").req(cpu="5").node("n0") for number in range(1)]
    assert pre_filter(harness(group("g", 1, minResources={"cpu": "4"}), *full, member("a")), member("a")) == (
        "resource gap: cpu 1",
    )
    last = [make_pod("o").uid("o").req(cpu="9").node("n1")]
    assert pre_filter(harness(group("g", 1, minResources={"cpu": "4"}), *last, member("a")), member("a")) == ()


@pytest.mark.parametrize(("waiting", "kept"), [(10, 10), (0, 3)])
def test_enough_room_is_remembered_for_a_while(waiting: int, kept: int) -> None:
    clock = Clock()
    wanted = group("g", 1, minResources={"cpu": "8"})
    world = harness(wanted, member("a"), clock=clock, permitWaitingTimeSeconds=waiting)
    assert pre_filter(world, member("a")) == ()
    world.add(make_pod("o").uid("o").req(cpu="1").node("n0").obj())
    clock.now += kept
    assert pre_filter(world, member("a")) == ()
    clock.now += 1
    assert pre_filter(world, member("a")) == ("resource gap: cpu 1",)


# Permit


@pytest.mark.parametrize(
    ("own", "argument", "seconds"), [(None, 60, 60), (None, 0, 60), (7, 60, 7), (7, 0, 7), (0, 20, 20), (0, 0, 0)]
)
def test_how_long_pods_wait(own: int | None, argument: int, seconds: int) -> None:
    spec = {} if own is None else {"scheduleTimeoutSeconds": own}
    world = harness(group("g", **spec), member("a"), permitWaitingTimeSeconds=argument)
    assert permit(world, member("a")) == PermitWait(seconds)


def test_together() -> None:
    """The first wakes its siblings, gated or not; the one that completes the group lets all go."""
    world = harness(group("g", 3), member("a"), member("b"), member("c"), member("d").gate("x"))
    states = [CycleState() for _ in range(3)]
    assert permit(world, member("a"), states[0]) == PermitWait(60)
    assert permit(world, member("b"), states[1]) == PermitWait(60)
    assert permit(world, member("c"), states[2]) is None
    assert [state.pods_to_activate for state in states] == [{"default/b", "default/c", "default/d"}, set(), set()]
    assert all(waiting.verdict == Status() for waiting in world.handle.waiting_pods)


def test_bound_pods_count_and_gone_ones_do_not() -> None:
    bound = member("b").node("n0")
    world = harness(group("g", 2), member("a"), bound)
    assert permit(world, member("a")) is None
    world = harness(group("g", 2), member("a"), bound)
    world.handle.objects.remove(bound.obj())
    assert permit(world, member("a")) == PermitWait(60)


def test_a_pod_bound_by_another_scheduler_counts() -> None:
    world = harness(group("g", 2), member("a"), member("b"))
    world.handle.objects.put(member("b").node("n0").obj())
    assert permit(world, member("a")) is None


def test_without_a_group() -> None:
    world = harness()
    assert permit(world, make_pod("p")) is None
    assert permit(world, member("p")) == Status.unschedulable("PodGroup not found")


# Giving up


def waiting(world: PluginHarness) -> list[str]:
    verdicts = {each.pod.name: each.verdict for each in world.handle.waiting_pods}
    return [name for name, verdict in verdicts.items() if verdict is not None and verdict.is_rejected]


def test_unreserve_takes_the_others_along() -> None:
    world = harness(group("g", 3), group("h", 2), member("a"), member("b"), member("x", "h"))
    for pod in (member("a"), member("b"), member("x", "h")):
        permit(world, pod)
    world.plugin.unreserve(CycleState(), member("a").obj(), "n0")
    assert waiting(world) == ["a", "b"]
    assert permit(world, member("c")) == PermitWait(60)  # b still has its node, until it is unreserved itself


@pytest.mark.parametrize(
    ("percentage", "assigned", "given_up"),
    [(10, 9, False), (10, 8, True), (0, 9, True), (0, 10, False), (50, 5, False), (50, 4, True), (100, 0, False)],
)
def test_how_much_may_be_missing(percentage: int, assigned: int, given_up: bool) -> None:
    """Of ten."""
    bound = [member(f"b{number}").node("n0") for number in range(assigned)]
    world = harness(group("g", 10), *bound, podGroupRejectPercentage=percentage)
    world.handle.waiting_pods.add(WaitingPod(member("w").obj(), "n0", {"Coscheduling": (1, NOW)}))
    status = post_filter(world, member("p"))
    assert bool(waiting(world)) is given_up
    text = "PodGroup default/g gets rejected due to Pod p is unschedulable even after PostFilter"
    assert status.reasons == ((text,) if given_up else ())


def test_nothing_to_give_up() -> None:
    assert post_filter(harness(), make_pod("p")).reasons == ("can not find pod group",)
    assert post_filter(harness(), member("p")).reasons == ("can not find pod group",)


def test_back_off() -> None:
    """Only if the group is all there; one in force is not extended."""
    clock = Clock()
    pods = [member("a"), member("b")]
    world = harness(group("g", 2), group("h", 2), *pods, member("x", "h"), clock=clock, podGroupBackoffSeconds=10)
    for name, of in (("a", "g"), ("x", "h")):
        post_filter(world, member(name, of))
    clock.now += 6
    assert pre_filter(world, member("a")) == ("podGroup default/g failed recently",)
    assert "cannot find enough" in pre_filter(world, member("x", "h"))[0]
    post_filter(world, member("a"))
    clock.now += 5
    assert pre_filter(world, member("a")) == ()


def test_events() -> None:
    """What wakes pods that were turned down: a new pod; groups come from the lister."""
    plugin = harness().plugin
    (event,) = plugin.events_to_register()
    assert (event.resource, event.actions) == ("Pod", ActionType.ADD)
    assert Coscheduling.groups.events == ActionType.ADD | ActionType.UPDATE


@pytest.mark.parametrize(
    ("args", "path"),
    [
        ("{permitWaitingTimeSeconds: -1}", "permitWaitingTimeSeconds"),
        ("{podGroupBackoffSeconds: -1}", "podGroupBackoffSeconds"),
        ("{podGroupRejectPercentage: 101}", "podGroupRejectPercentage"),
        ("{deniedPGExpirationTimeSeconds: 3}", "deniedPGExpirationTimeSeconds"),
    ],
)
def test_invalid_arguments(args: str, path: str) -> None:
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
        "- plugins: {multiPoint: {enabled: [{name: Coscheduling}], disabled: [{name: PrioritySort}]}}\n"
        f"  pluginConfig: [{{name: Coscheduling, args: {args}}}]\n"
    )
    with pytest.raises(ConfigError) as caught:
        load_config(text, source="test")
    assert [error.path for error in caught.value.errors] == [f"profiles[0].pluginConfig[0].args.{path}"]
