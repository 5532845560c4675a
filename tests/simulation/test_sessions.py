"""Gangs and queues in a simulation: sessions decide about them as on a cluster, next to the pods of profiles."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.decode_errors import ManifestError
from mooring.config import ConfigError, load_config
from mooring.loading import Catalog, Requested, Setup, find_plugins
from mooring.loading.setup import config_for
from mooring.simulation.outcome import GangOutcome, Outcome, QueueOutcome, State
from mooring.simulation.run import simulate_manifests
from mooring.simulation.sources import InputError, Source, given_in
from tests.simulation.manifests import by_name, given, node, pod, workload

SCHEDULING = "scheduling.volcano.sh/v1beta1"
CONF = """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""
VOLCANO_PROFILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: volcano}]
"""
HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10}


def simulated(
    *objects: dict[str, Any] | str, conf: str = "", plugins: tuple[type[Any], ...] = (), **more: Any
) -> Outcome:
    catalog = find_plugins(Requested(classes=tuple((getattr(cls, "name", ""), cls) for cls in plugins)))
    setup = Setup(more.pop("config", None) or config_for(catalog), catalog)
    source = Source("volcano-scheduler.conf", conf.encode()) if conf else None
    return simulate_manifests(given(*objects), setup, conf=source, **more)


def group(name: str, least: int, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": SCHEDULING,
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": least, **spec},
    }


def queue(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": SCHEDULING, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def member(name: str, gang: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    metadata = {"annotations": {"scheduling.k8s.io/group-name": gang}}
    return pod(name, cpu=cpu, metadata=metadata, **{"schedulerName": "volcano", **spec})


def gang(name: str, pods: int, cpu: str = "1", least: int | None = None, **spec: Any) -> list[dict[str, Any]]:
    members = [member(f"{name}-{number}", name, cpu) for number in range(pods)]
    return [group(name, pods if least is None else least, **spec), *members]


def task(name: str, replicas: int, cpu: str = "1", **fields: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}}
    return {"name": name, "replicas": replicas, "template": template, **fields}


def job(name: str, *tasks: dict[str, Any], **spec: Any) -> dict[str, Any]:
    fields = {"tasks": list(tasks), **spec}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": fields}


def states(outcome: Outcome) -> dict[str, str]:
    return {each.name: each.state.value for each in outcome.pods}


def gangs(outcome: Outcome) -> dict[str, GangOutcome]:
    return {each.workload.name if each.workload else each.name: each for each in outcome.gangs}


def queues(outcome: Outcome) -> dict[str, QueueOutcome]:
    return {each.name: each for each in outcome.queues}


# Gangs


@pytest.mark.parametrize(("cpu", "placed", "phase"), [("1", 3, "Running"), ("2", 0, "Inqueue")])
def test_a_gang_is_placed_as_a_whole_or_not_at_all(cpu: str, placed: int, phase: str) -> None:
    outcome = simulated(node("n", cpu="4"), *gang("three", 3, cpu))
    found = gangs(outcome)["three"]
    assert (outcome.count(State.PLACED), found.placed, found.phase, found.waits) == (placed, placed, phase, placed == 0)
    if not placed:
        assert "pod group is not ready" in found.message
        assert {each.message for each in outcome.pods} != {""}


def test_equal_gangs_come_in_the_order_of_the_manifests() -> None:
    outcome = simulated(node("n", cpu="2"), *gang("z", 2), *gang("a", 2))
    assert (gangs(outcome)["z"].placed, gangs(outcome)["a"].placed) == (2, 0)


def test_pods_of_profiles_and_gangs_share_one_account_of_the_nodes() -> None:
    plain = [pod(f"p{number}", cpu="1") for number in range(3)]
    outcome = simulated(node("n", cpu="4"), *plain, *gang("two", 2), *gang("one", 1))
    assert (outcome.count(State.PLACED), gangs(outcome)["two"].placed, gangs(outcome)["one"].placed) == (4, 0, 1)
    assert outcome.total("cpu").requested == 4000
    assert {each.profile for each in outcome.pods if each.gang is None} == {"default-scheduler"}
    assert by_name(outcome)["one-0"].gang == "default/one"


def test_a_pod_of_a_profile_is_tried_again_after_a_session_made_room() -> None:
    """A session evicts for its gang; a plain pod takes what is left."""
    victim = [group("low", 0), {**member("low-0", "low", "3"), "status": {"phase": "Running"}}]
    victim[1]["spec"]["nodeName"] = "n"
    urgent = [group("urgent", 1, priorityClassName="high"), member("urgent-0", "urgent", "2", priorityClassName="high")]
    outcome = simulated(node("n", cpu="4"), HIGH, *victim, *urgent, pod("plain", cpu="2"), conf=CONF)
    assert states(outcome) == {"low-0": "evicted", "urgent-0": "placed", "plain": "placed"}
    assert by_name(outcome)["low-0"].message == "evicted by a session (action preempt)"


def test_running_pods_count_for_their_gang() -> None:
    running = {**member("half-0", "half"), "status": {"phase": "Running"}}
    running["spec"] = {**running["spec"], "nodeName": "n"}
    outcome = simulated(node("n", cpu="4"), group("half", 2), running, member("half-1", "half"))
    assert states(outcome) == {"half-0": "running", "half-1": "placed"}


def test_workloads_for_sessions_get_a_pod_group() -> None:
    spec = {
        "schedulerName": "volcano",
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}],
    }
    outcome = simulated(node("n", cpu="4"), workload("Deployment", "web", template=spec, replicas=3))
    found = gangs(outcome)["web"]
    assert (found.min_member, found.pods, found.placed, found.waits) == (1, 3, 2, False)
    assert sum(each.gang == found.key for each in outcome.pods) == 3


def test_a_gated_pod_is_not_placed() -> None:
    gated = member("g-1", "g", schedulingGates=[{"name": "example.com/wait"}])
    outcome = simulated(node("n"), group("g", 1), member("g-0", "g"), gated)
    assert states(outcome) == {"g-0": "placed", "g-1": "gated"}
    assert by_name(outcome)["g-1"].message == "waiting for scheduling gates: [example.com/wait]"


def test_a_missing_pod_group_is_named() -> None:
    outcome = simulated(node("n"), member("lost", "nowhere"))
    assert by_name(outcome)["lost"].message == "there is no PodGroup default/nowhere"


# Queues


def test_queues_limit_gangs_and_show_their_shares() -> None:
    outcome = simulated(
        node("n", cpu="8"),
        queue("small", weight=1, capability={"cpu": "2"}),
        *gang("fits", 2, queue="small", minResources={"cpu": "2"}),
        *gang("waits", 2, queue="small", minResources={"cpu": "2"}),
    )
    assert gangs(outcome)["waits"].message == (
        "not admitted to queue small: queue resource quota insufficient: insufficient cpu"
    )
    small = queues(outcome)["small"]
    assert (small.gangs, small.waiting, small.allocated["cpu"], small.deserved["cpu"]) == (2, 1, "2", "2")
    assert (small.share, queues(outcome)["root"].share) == (0.25, 0.25)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ([], "there is no queue q"),
        ([{**queue("q"), "status": {"state": "Closed"}}], "queue q is closed"),
    ],
)
def test_a_gang_names_what_is_wrong_with_its_queue(made: list[dict[str, Any]], message: str) -> None:
    outcome = simulated(node("n"), *made, *gang("g", 1, queue="q"))
    assert (gangs(outcome)["g"].message, states(outcome)) == (message, {"g-0": "pending"})
    assert by_name(outcome)["g-0"].message


# Jobs


def test_a_job_is_expanded_when_its_queue_admits_it() -> None:
    outcome = simulated(
        node("n", cpu="8"),
        queue("small", capability={"cpu": "3"}),
        job("fits", task("worker", 3), queue="small"),
        job("wide", task("worker", 4), queue="small"),
    )
    assert {name for name, state in states(outcome).items() if state == "placed"} == {
        f"fits-worker-{number}" for number in range(3)
    }
    wide = by_name(outcome)["wide-worker-0"]
    assert wide.message.startswith("the pod was not created: not admitted to queue small: ")
    assert (wide.workload.kind, wide.workload.name) == ("Job", "wide") if wide.workload else False


def test_tasks_wait_for_those_that_they_depend_on() -> None:
    late = task("late", 1, dependsOn={"name": ["early"]})
    assert states(simulated(node("n"), job("j", task("early", 1), late, minAvailable=1))) == {
        "j-early-0": "placed",
        "j-late-0": "placed",
    }
    stuck = simulated(node("n"), job("j", task("early", 2, "3"), late, minAvailable=1))
    assert by_name(stuck)["j-late-0"].message == "the pod was not created: task late waits for tasks that it depends on"


def test_a_job_without_its_claim_says_so() -> None:
    outcome = simulated(node("n"), job("j", task("t", 1), volumes=[{"mountPath": "/d", "volumeClaimName": "data"}]))
    assert "the pod was not created: pvc data is not found" in by_name(outcome)["j-t-0"].message


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (job("j"), "Job j: spec: No task specified in job spec"),
        (job("j", task("t", 1), minAvailable=2), "'minAvailable' should not be greater than total replicas"),
        (job("j", task("t", -1)), "spec.tasks[0].replicas: Invalid value: -1: must be greater than or equal to 0"),
        (
            job("j", task("t", 1, "-2")),
            "spec.tasks[0].template.spec.containers[0].resources.requests.cpu: Invalid value",
        ),
        (job("j", {**task("t", 1), "template": {"spec": {"containers": 7}}}), "spec.tasks[0].template.spec.containers"),
        (
            job("j", task("t", 1), plugins={"svc": ["--wrong"]}),
            "plugin svc: unknown argument '--wrong'; it has --publish-not-ready-addresses",
        ),
        (job("j", task("t", 1), priorityClassName="absent"), "no PriorityClass with name absent was found"),
    ],
)
def test_invalid_jobs(made: dict[str, Any], message: str) -> None:
    with pytest.raises(ManifestError) as caught:
        simulated(node("n"), made)
    assert message in str(caught.value)
    assert str(caught.value).startswith("test.yaml, line ")


# The configuration


class Magic:
    """Draws every pod to one node."""

    name = "magic"

    class Args:
        node: str = "b"

    def on_session_open(self, session: Any) -> None:
        session.add_node_order(lambda task, node: 10_000.0 if node.name == self.args.node else 0.0)  # type: ignore[attr-defined]  # set by Mooring


MAGIC = CONF.replace("{name: conformance}", "{name: conformance}, {name: magic}")


@pytest.mark.parametrize("where", ["option", "document", "ConfigMap"])
def test_the_configuration_is_an_option_or_among_the_manifests(where: str) -> None:
    more: list[Any] = []
    if where == "document":
        more = [MAGIC]
    elif where == "ConfigMap":
        metadata = {"name": "volcano-scheduler-configmap", "namespace": "volcano-system"}
        data = {"volcano-scheduler.conf": MAGIC}
        more = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}]
    nodes = [node(name) for name in "abc"]
    conf = MAGIC if where == "option" else ""
    outcome = simulated(*nodes, *gang("g", 2), *more, conf=conf, plugins=(Magic,))
    assert {each.node for each in outcome.pods} == {"b"}
    assert outcome.notes == []


def test_a_file_may_be_a_configuration() -> None:
    (found,) = given_in(Source("my.conf", CONF.encode()))
    assert found.item.kind == "volcano-scheduler.conf"


def test_what_is_wrong_with_a_configuration() -> None:
    with pytest.raises(ConfigError, match='there is no action "alocate"'):
        simulated(node("n"), *gang("g", 1), conf=CONF.replace("allocate", "alocate"))
    outcome = simulated(node("n"), *gang("g", 1), conf=CONF.replace("{name: drf}", "{name: derf}"))
    assert any('there is no plugin "derf"' in note for note in outcome.notes)
    data = {"volcano-scheduler.conf": CONF}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}
    with pytest.raises(InputError, match=r"several configurations of sessions, in test.yaml and test.yaml"):
        simulated(CONF, config_map)


def test_a_plugin_that_fails_is_reported_as_one_of_a_profile() -> None:
    class Broken(Magic):
        name = "magic"

        def on_session_open(self, session: Any) -> None:
            raise KeyError("missing")

    outcome = simulated(node("n"), *gang("g", 1), conf=MAGIC, plugins=(Broken,))
    assert outcome.count(State.PLACED) == 1
    (failures,) = outcome.plugin_failures
    assert (failures.plugin, "KeyError: 'missing'" in failures.first) == ("magic", True)


def test_other_scheduler_names() -> None:
    mine = member("g-0", "g", schedulerName="mine")
    outcome = simulated(node("n"), group("g", 1), mine, scheduler_names=("mine",))
    assert states(outcome) == {"g-0": "placed"}
    outcome = simulated(node("n"), group("g", 1), mine)
    assert by_name(outcome)["g-0"].message == (
        'no profile has the scheduler name "mine" (there are default-scheduler, volcano)'
    )


def test_a_profile_named_volcano_schedules_pod_by_pod() -> None:
    config = load_config(VOLCANO_PROFILE, source="test")
    outcome = simulated(node("n", cpu="2"), *gang("g", 3), job("j", task("t", 1)), config=config)
    assert (outcome.count(State.PLACED), outcome.gangs) == (2, [])
    assert "ignored: 1 Job (batch.volcano.sh) (kinds that the simulation does not support)" in outcome.notes
    with pytest.raises(InputError, match="volcano is both a profile and a scheduler name of sessions"):
        simulated(node("n"), conf=CONF, config=config)


def test_without_gangs_there_are_no_sessions() -> None:
    outcome = simulated(node("n"), pod("p"))
    assert (outcome.session_names, outcome.sessions) == ((), 0)
    assert "gangs" not in outcome.as_dict()
    assert simulated(node("n"), pod("p"), conf=CONF).session_names == ("volcano",)


def test_time_passes_for_plugins_that_depend_on_it() -> None:
    """sla lets a gang in after its waiting time, whatever the limits say."""
    conf = CONF.replace("{name: priority}", "{name: sla, arguments: {sla-waiting-time: 10m}}, {name: priority}")
    limited = queue("small", capability={"cpu": "1"})
    made = gang("g", 2, queue="small", minResources={"cpu": "2"})
    assert gangs(simulated(node("n"), limited, *made, conf=CONF))["g"].phase == "Pending"
    late = simulated(node("n"), limited, *made, conf=conf)
    assert gangs(late)["g"].phase != "Pending"
    assert late.seconds >= 600


def test_the_same_arguments_give_the_same_outcome() -> None:
    objects = [*(node(f"n{number}") for number in range(4)), *gang("a", 3), *gang("b", 5), pod("p", cpu="1")]
    assert simulated(*objects, seed=3).as_dict() == simulated(*objects, seed=3).as_dict()


def test_an_empty_catalog_needs_no_plugins() -> None:
    setup = Setup(config_for(Catalog()), Catalog())
    assert simulate_manifests(given(node("n"), *gang("g", 1)), setup).count(State.PLACED) == 1
