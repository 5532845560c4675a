"""A run takes a scenario to its end: order, preemption, waiting, retries, and the end itself."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given as given_data
from hypothesis import settings
from hypothesis import strategies as st

from mooring.config import load_config
from mooring.framework import PermitWait, Plugin, Status
from mooring.simulation.outcome import Outcome, State
from tests.simulation.manifests import by_name, node, pod, run, workload

HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10}
NEVER = {**HIGH, "metadata": {"name": "polite"}, "preemptionPolicy": "Never"}


def states(outcome: Outcome) -> dict[str, str]:
    return {found.name: found.state.value for found in outcome.pods}


def test_more_important_pods_come_first() -> None:
    outcome = run(node("n", cpu="2"), HIGH, pod("a", cpu="1500m"), pod("b", cpu="1500m", priorityClassName="high"))
    assert states(outcome) == {"a": "pending", "b": "placed"}
    assert by_name(outcome)["a"].message.startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_equals_come_in_the_order_of_the_manifests() -> None:
    outcome = run(node("n", cpu="2"), *(pod(name, cpu="1") for name in ("c", "a", "b")))
    assert states(outcome) == {"c": "placed", "a": "placed", "b": "pending"}


def test_victims_make_room() -> None:
    outcome = run(
        node("n", cpu="2"), HIGH, pod("old", cpu="1500m", nodeName="n"), pod("new", cpu="1", priorityClassName="high")
    )
    new, old = by_name(outcome)["new"], by_name(outcome)["old"]
    assert (new.state, new.node, new.attempts, new.victims) == (State.PLACED, "n", 2, ("default/old",))
    assert (old.state, old.node, old.evicted_by) == (State.EVICTED, "n", "default/new")
    assert outcome.total("cpu").requested == 1000


def test_a_polite_pod_makes_no_victims() -> None:
    outcome = run(
        node("n", cpu="2"),
        NEVER,
        pod("old", cpu="1500m", nodeName="n"),
        pod("new", cpu="1", priorityClassName="polite"),
    )
    assert states(outcome) == {"old": "running", "new": "pending"}


def test_a_pod_is_tried_again_when_the_one_it_waits_for_has_come() -> None:
    near = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "cache"}}}
            ]
        }
    }
    cache = pod("cache", metadata={"labels": {"app": "cache"}})
    outcome = run(node("n"), pod("web", affinity=near), cache)
    web = by_name(outcome)["web"]
    assert (web.state, web.attempts) == (State.PLACED, 2)
    assert outcome.seconds == 0


def test_who_stays_pending_was_turned_down_by_the_cluster_as_it_is_at_the_end() -> None:
    # The first is tried before the second takes the small node, and says so only when it is tried again.
    outcome = run(
        node("small", cpu="1"),
        node("large", cpu="4", taints=[{"key": "t", "effect": "NoSchedule"}]),
        HIGH,
        pod("picky", cpu="500m", priorityClassName="high", nodeSelector={"absent": "x"}),
        pod("second", cpu="1"),
    )
    picky = by_name(outcome)["picky"]
    assert picky.attempts == 2
    assert outcome.seconds >= 300


def test_pods_that_are_not_tried() -> None:
    outcome = run(
        node("n"),
        pod("gated", schedulingGates=[{"name": "example.com/wait"}]),
        pod("foreign", schedulerName="defalt-scheduler"),
        pod("strange", schedulerName="volcano"),
        pod("leaving", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
    )
    found = {each.name: (each.state, each.attempts, each.message) for each in outcome.pods}
    assert found == {
        "gated": (State.GATED, 0, "waiting for scheduling gates: [example.com/wait]"),
        "foreign": (
            State.PENDING,
            0,
            'no profile has the scheduler name "defalt-scheduler"; did you mean default-scheduler?',
        ),
        "strange": (State.PENDING, 0, 'no profile has the scheduler name "volcano" (there are default-scheduler)'),
        "leaving": (State.PENDING, 0, "the pod is being deleted"),
    }
    assert outcome.seconds == 0


def test_without_nodes() -> None:
    outcome = run(pod("p"))
    assert by_name(outcome)["p"].message == "no nodes available to schedule pods"


def test_volumes_wait_for_their_first_consumer() -> None:
    storage = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["b"]}]}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "v"},
        "spec": {
            "capacity": {"storage": "5Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "local": {"path": "/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
    }
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    pair = workload("StatefulSet", replicas=2, volumeClaimTemplates=[claim])
    outcome = run(node("a"), node("b"), storage, volume, pair)
    found = by_name(outcome)
    assert (found["w-0"].state, found["w-0"].node) == (State.PLACED, "b")
    assert found["w-1"].state is State.PENDING
    assert "didn't find available persistent volumes to bind" in found["w-1"].message


# Plugins


class Gang(Plugin):
    """Holds pods until three of them have a node."""

    def setup(self) -> None:
        self.size = 3

    def permit(self, state: Any, pod: Any, node_name: str) -> PermitWait | None:
        held = [each for each in self.handle.waiting_pods if each.pod.labels.get("gang")]
        if not pod.labels.get("gang"):
            return None
        if len(held) + 1 < self.size:
            return PermitWait(10)
        for each in held:
            each.allow(self.name)
        return None


def gang(count: int) -> list[dict[str, Any]]:
    return [pod(f"g{number}", cpu="1", metadata={"labels": {"gang": "x"}}) for number in range(count)]


def test_a_gang_that_is_complete_is_placed_at_once() -> None:
    outcome = run(node("n", cpu="4"), *gang(3), plugins={"Gang": Gang})
    assert set(states(outcome).values()) == {"placed"}
    assert outcome.seconds == 0


def test_a_gang_that_never_is_times_out_in_simulated_time() -> None:
    outcome = run(node("n", cpu="4"), *gang(2), pod("other", cpu="1"), plugins={"Gang": Gang})
    found = by_name(outcome)
    assert found["other"].state is State.PLACED
    assert found["g0"].state is found["g1"].state is State.PENDING
    text = "0/1 nodes are available: 1 rejected due to timeout after waiting 10s at plugin Gang."
    assert found["g0"].message == text
    assert found["g0"].attempts == 3
    assert outcome.total("cpu").requested == 1000


class Shaky(Plugin):
    """Breaks twice for every pod."""

    def setup(self) -> None:
        self.calls: dict[str, int] = {}

    def pre_filter(self, state: Any, pod: Any, nodes: Any) -> None:
        self.calls[pod.name] = self.calls.get(pod.name, 0) + 1
        if self.calls[pod.name] < 3:
            raise RuntimeError("not today")


class Broken(Plugin):
    """Always breaks."""

    def filter(self, state: Any, pod: Any, node: Any) -> None:
        raise RuntimeError("never")


def test_what_breaks_is_tried_again_after_a_back_off() -> None:
    outcome = run(node("n"), pod("p"), plugins={"Shaky": Shaky})
    found = by_name(outcome)["p"]
    assert (found.state, found.attempts) == (State.PLACED, 3)
    assert outcome.seconds >= 3


def test_what_always_breaks_is_given_up() -> None:
    found = by_name(run(node("n"), pod("p"), plugins={"Broken": Broken}))["p"]
    assert (found.state, found.attempts) == (State.PENDING, 3)
    assert "RuntimeError: never" in found.message


class Restless(Plugin):
    """Turns a pod down and wakes all others, for ever."""

    def reserve(self, state: Any, pod: Any, node_name: str) -> Status:
        self.handle.activate([f"default/p{number}" for number in range(3)])
        return Status.unschedulable("no rest")

    def unreserve(self, state: Any, pod: Any, node_name: str) -> None:
        pass


def test_plugins_cannot_keep_a_run_from_ending() -> None:
    outcome = run(node("n"), *(pod(f"p{number}") for number in range(3)), plugins={"Restless": Restless})
    assert set(states(outcome).values()) == {"pending"}


class Doorman(Plugin):
    """Lets a pod in once another has a node."""

    def pre_enqueue(self, pod: Any) -> str | None:
        if pod.name == "late" and not any(each.name == "early" for each in self.handle.pods):
            return "early is not there yet"
        return None


def test_a_gate_that_opens_lets_the_pod_in() -> None:
    assert states(run(node("n"), pod("late"), pod("early"), plugins={"Doorman": Doorman})) == {
        "late": "placed",
        "early": "placed",
    }
    outcome = run(node("n"), pod("late"), plugins={"Doorman": Doorman})
    assert by_name(outcome)["late"].message == "early is not there yet"


def test_profiles_by_scheduler_name() -> None:
    text = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: packed
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
  plugins:
    score: {disabled: [{name: NodeResourcesBalancedAllocation}, {name: PodTopologySpread}]}
"""
    nodes = [node("busy"), node("idle"), pod("old", cpu="1", nodeName="busy")]
    config = load_config(text, source="test")
    outcome = run(*nodes, pod("a", cpu="1", schedulerName="packed"), pod("b", cpu="1"), config=config)
    found = by_name(outcome)
    assert {name: (each.profile, each.node) for name, each in found.items() if name != "old"} == {
        "a": ("packed", "busy"),
        "b": ("default-scheduler", "idle"),
    }
    assert outcome.profiles == ("default-scheduler", "packed")


# Properties

AMOUNTS = st.sampled_from(["100m", "500m", "1", "2", "3"])


@settings(max_examples=25, deadline=None)
@given_data(
    nodes=st.lists(AMOUNTS, min_size=1, max_size=4),
    pods=st.lists(st.tuples(AMOUNTS, st.booleans(), st.booleans()), max_size=12),
    seed=st.integers(0, 3),
)
def test_no_node_is_overfull_and_no_pod_is_lost(
    nodes: list[str], pods: list[tuple[str, bool, bool]], seed: int
) -> None:
    objects = [HIGH, *(node(f"n{number}", cpu=cpu) for number, cpu in enumerate(nodes))]
    for number, (cpu, high, grouped) in enumerate(pods):
        spec = {"priorityClassName": "high"} if high else {}
        containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
        if grouped:
            objects.append(
                workload("ReplicaSet", f"w{number}", replicas=2, template={**spec, "containers": containers})
            )
        else:
            objects.append(pod(f"p{number}", cpu=cpu, **spec))
    outcome = run(*objects, seed=seed)
    assert len(outcome.pods) == sum(2 if grouped else 1 for _, _, grouped in pods)
    assert all(each.uses["cpu"].requested <= each.uses["cpu"].allocatable for each in outcome.nodes)
    assert all((each.node is not None) == (each.state in (State.PLACED, State.EVICTED)) for each in outcome.pods)
    assert all(bool(each.message) == (each.state is State.PENDING) for each in outcome.pods)
    assert sum(each.uses["pods"].requested for each in outcome.nodes) == outcome.count(State.PLACED)
    assert run(*objects, seed=seed).as_dict() == outcome.as_dict()


def test_seeds_differ() -> None:
    objects = [*(node(f"n{number}") for number in range(8)), workload("Deployment", replicas=4)]
    assert len({str(run(*objects, seed=seed).as_dict()["pods"]) for seed in range(5)}) == 5


@pytest.mark.parametrize("count", [0, 1])
def test_progress_ends_at_the_total(count: int) -> None:
    from mooring.config import default_config
    from mooring.simulation.run import simulate
    from tests.simulation.manifests import scenario

    seen: list[tuple[int, int]] = []
    pods = [pod(f"p{number}") for number in range(3)] + [pod("big", cpu="99")] * count
    simulate(scenario(node("n"), *pods), default_config(), progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (3 + count, 3 + count)
