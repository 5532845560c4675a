"""PodGroups of scheduling.k8s.io on a real API server of 1.37 with the gate GenericWorkload, next to kube-scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mooring.releases import release_named
from tests.e2e.cluster import Cluster
from tests.e2e.conftest import running
from tests.e2e.controlplane import ControlPlane, free_port
from tests.e2e.controlplane.parts import KUBERNETES
from tests.e2e.endpoints import is_ready
from tests.e2e.grounds import GALLERY
from tests.e2e.mooring_process import mooring_command

pytestmark = pytest.mark.skipif(release_named(KUBERNETES).version == "1.36", reason="needs PodGroups of v1beta1")

_GATE = "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true"
_GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/{}/podgroups"
Start = Callable[[ControlPlane], Any]


@pytest.fixture(scope="module")
def plane(built: None) -> Iterator[ControlPlane]:
    """A control plane that serves PodGroups."""
    flags = [_GATE, "--runtime-config=scheduling.k8s.io/v1beta1=true"]
    yield from running(ControlPlane(apiserver_flags=flags))


def mooring(plane: ControlPlane, *arguments: str) -> Any:
    port = free_port()
    command = mooring_command(plane, "--leader-elect=false", "--emulated-version=1.37", _GATE, *arguments, port=port)
    return plane.run("mooring", command, ready=lambda: is_ready(port))


def kube_scheduler(plane: ControlPlane) -> Any:
    return plane.start_kube_scheduler(flags=[_GATE])


def _add_group(cluster: Cluster, name: str, policy: dict[str, Any], members: int, cpu: str = "1", **spec: Any) -> None:
    """Add pods and then their group, so that the scheduler sees all pods at once."""
    for index in range(members):
        cluster.add_pod(f"{name}-{index}", cpu=cpu, schedulingGroup={"podGroupName": name})
    body = {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy, **spec}}
    cluster.api.create(_GROUPS.format(cluster.namespace), body)


def _condition(cluster: Cluster, name: str) -> tuple[str, str, str] | None:
    for group in cluster.api.items(_GROUPS.format(cluster.namespace)):
        if group["metadata"]["name"] == name:
            for each in group.get("status", {}).get("conditions", ()):
                return each["status"], each["reason"], each["message"]
    return None


def _story(plane: ControlPlane, start: Start) -> dict[str, Any]:
    """Run gangs that fit, that do not fit and that are incomplete; return what is seen of them."""
    cluster = Cluster(plane)
    try:
        cluster.add_node("small", cpu="3")
        cluster.add_node("large", cpu="8")
        process = start(plane)
        _add_group(cluster, "fits", {"gang": {"minCount": 3}}, 3, cpu="2")
        cluster.wait_bound(*(f"fits-{index}" for index in range(3)))
        _add_group(cluster, "waits", {"gang": {"minCount": 5}}, 2)
        _add_group(cluster, "too-large", {"gang": {"minCount": 3}}, 4, cpu="2")
        messages = {f"too-large-{index}": cluster.wait_unschedulable(f"too-large-{index}") for index in range(4)}
        _add_group(cluster, "basic", {"basic": {}}, 4, cpu="2")
        cluster.wait_unschedulable("basic-3")
        cluster.api.wait_for("condition", lambda: _condition(cluster, "basic"), 30)
        bound = cluster.placements()
        seen = {
            "bound": sorted(bound),
            "large": sum(node == "large" for node in bound.values()),
            "messages": messages,
            "conditions": {name: _condition(cluster, name) for name in ("fits", "waits", "too-large", "basic")},
        }
        process.stop()
        return seen
    finally:
        cluster.clean_up()


def test_groups_are_scheduled_as_kube_scheduler_does(plane: ControlPlane) -> None:
    theirs, ours = _story(plane, kube_scheduler), _story(plane, mooring)
    # kube-scheduler may overwrite it with False if it has not seen its own write yet.
    theirs["conditions"].pop("basic")
    assert ours["conditions"].pop("basic") == ("True", "Scheduled", "")
    assert ours == theirs
    assert theirs["conditions"]["fits"] == ("True", "Scheduled", "")


_IN_RACK = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}


def _racks_story(plane: ControlPlane, start: Start) -> dict[str, Any]:
    """Run gangs that need one rack; return the racks, the messages and the conditions."""
    cluster = Cluster(plane)
    try:
        racks: dict[str, str] = {}
        for rack, cpu in (("a", "4"), ("b", "4"), ("c", "8"), ("d", "2")):
            for index in range(3):
                racks[f"{rack}{index}"] = rack
                cluster.add_node(f"{rack}{index}", cpu=cpu, labels={"rack": rack})
        cluster.add_node("no-rack", cpu="64")
        process = start(plane)
        names = ("fills", "packs", "prefers-pods", "too-large", "nowhere")
        # 12 of 12 cores of a or b, which is fuller than c.
        _add_group(cluster, "fills", {"gang": {"minCount": 6}}, 6, cpu="2", **_IN_RACK)
        cluster.wait_bound(*(f"fills-{index}" for index in range(6)))
        # d is the fullest rack for three small pods.
        _add_group(cluster, "packs", {"gang": {"minCount": 3}}, 3, cpu="1", **_IN_RACK)
        cluster.wait_bound(*(f"packs-{index}" for index in range(3)))
        # Only c has room for all six; three fit in a or b.
        _add_group(cluster, "prefers-pods", {"gang": {"minCount": 2}}, 6, cpu="3", **_IN_RACK)
        cluster.wait_bound(*(f"prefers-pods-{index}" for index in range(6)))
        _add_group(cluster, "too-large", {"gang": {"minCount": 2}}, 2, cpu="16", **_IN_RACK)
        other = {"schedulingConstraints": {"topology": [{"key": "no-such-label"}]}}
        _add_group(cluster, "nowhere", {"gang": {"minCount": 2}}, 2, **other)
        failed = [f"{name}-{index}" for name in ("too-large", "nowhere") for index in range(2)]
        messages = {name: cluster.wait_unschedulable(name) for name in failed}
        for name in names:
            cluster.api.wait_for("condition", lambda name=name: _condition(cluster, name), 30)
        bound = cluster.placements()
        placed = {name: sorted({racks[bound[pod]] for pod in bound if pod.startswith(f"{name}-")}) for name in names}
        assert len(placed["fills"]) == 1
        placed["fills"] = ["a or b"] if placed["fills"][0] in "ab" else placed["fills"]
        seen = {
            "racks": placed,
            "messages": messages,
            "conditions": {name: _condition(cluster, name) for name in names},
        }
        process.stop()
        return seen
    finally:
        cluster.clean_up()


def test_groups_are_placed_in_one_rack_as_kube_scheduler_does(plane: ControlPlane) -> None:
    theirs, ours = _racks_story(plane, kube_scheduler), _racks_story(plane, mooring)
    assert ours == theirs
    assert theirs["racks"]["prefers-pods"] == ["c"]
    assert theirs["conditions"]["fills"] == ("True", "Scheduled", "")


def _preemption_story(plane: ControlPlane, start: Start) -> dict[str, Any]:
    """Run groups that need the room of a pod, and of a group that is disrupted as a whole; return who was evicted."""
    cluster = Cluster(plane)
    try:
        # The first group prefers n0, because more of it would be free; where it is placed decides who is evicted.
        for index, cpu in enumerate(("3", "2", "2")):
            cluster.add_node(f"n{index}", cpu=cpu)
        urgent = {"metadata": {"name": "urgent"}, "value": 1000}
        cluster.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", urgent)
        cluster.add_pod("single", cpu="3", nodeName="n0")
        whole = {
            "metadata": {"name": "whole"},
            "spec": {"schedulingPolicy": {"basic": {}}, "disruptionMode": {"all": {}}},
        }
        cluster.api.create(_GROUPS.format(cluster.namespace), whole)
        for index in (1, 2):
            group = {"podGroupName": "whole"}
            cluster.add_pod(f"whole-{index}", cpu="2", nodeName=f"n{index}", schedulingGroup=group)
        process = start(plane)
        preemptors = {"first": 1, "second": 1}
        for name, size in preemptors.items():
            body = {
                "metadata": {"name": name},
                "spec": {"schedulingPolicy": {"gang": {"minCount": size}}, "priorityClassName": "urgent"},
            }
            cluster.api.create(_GROUPS.format(cluster.namespace), body)
            for index in range(size):
                group = {"podGroupName": name}
                cluster.add_pod(f"{name}-{index}", cpu="2", schedulingGroup=group, priorityClassName="urgent")
            cluster.wait_bound(*(f"{name}-{index}" for index in range(size)))
        cluster.api.wait_for("all victims", lambda: len(cluster.pods()) == 2 or None, 30)
        cluster.api.wait_for("all events", lambda: len(cluster.events("Preempted")) == 3 or None, 30)
        groups = [each["metadata"] for each in cluster.api.items(_GROUPS.format(cluster.namespace))]
        uids = {each["uid"]: each["name"] for each in groups}
        evicted = []
        for event in cluster.events("Preempted"):
            note = event["note"]
            for uid, name in uids.items():
                note = note.replace(uid, name)
            evicted.append((event["regarding"]["name"], note, event["related"]["kind"]))
        notes = {each["note"] for each in cluster.events("FailedScheduling") if "found a placement" in each["note"]}
        seen = {
            "evicted": sorted(evicted),
            "notes": sorted(notes),
            "placed": {name: cluster.placements()[name] for name in ("first-0",)},
            "conditions": {name: _condition(cluster, name) for name in preemptors},
        }
        process.stop()
        return seen
    finally:
        cluster.clean_up()
        cluster.api.delete("/apis/scheduling.k8s.io/v1/priorityclasses/urgent")


def test_groups_preempt_and_are_preempted_as_with_kube_scheduler(plane: ControlPlane) -> None:
    theirs, ours = _preemption_story(plane, kube_scheduler), _preemption_story(plane, mooring)
    assert ours == theirs
    assert [name for name, _, _ in theirs["evicted"]] == ["single", "whole-1", "whole-2"]


def _retry_story(plane: ControlPlane, start: Start) -> dict[str, Any]:
    """Run groups that cannot be scheduled at first: because of room, of the minimum, or of missing pods."""
    cluster = Cluster(plane)
    groups = _GROUPS.format(cluster.namespace)
    try:
        cluster.add_node("first", cpu="3")
        process = start(plane)
        _add_group(cluster, "no-room", {"gang": {"minCount": 4}}, 4)
        cluster.wait_unschedulable("no-room-3")
        # A new pod joins the group that waits, and counts for it.
        cluster.add_pod("no-room-4", cpu="1", schedulingGroup={"podGroupName": "no-room"})
        cluster.add_node("second", cpu="2")
        cluster.wait_bound(*(f"no-room-{index}" for index in range(5)))
        cluster.add_node("third", cpu="4")
        _add_group(cluster, "lower", {"gang": {"minCount": 3}}, 2)
        _add_group(cluster, "grows", {"gang": {"minCount": 2}}, 1)
        assert not {"lower-0", "grows-0"} & set(cluster.placements())
        lower = {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
        cluster.api.patch(f"{groups}/lower", lower)
        cluster.add_pod("grows-1", cpu="1", schedulingGroup={"podGroupName": "grows"})
        cluster.wait_bound("lower-0", "lower-1", "grows-0", "grows-1")
        names = ("no-room", "lower", "grows")
        for name in names:
            scheduled = lambda name=name: (_condition(cluster, name) or ("",))[0] == "True" or None  # noqa: E731
            cluster.api.wait_for(f"the condition of {name}", scheduled, 30)
        seen = {
            "bound": sorted(cluster.placements()),
            "conditions": {name: _condition(cluster, name) for name in names},
        }
        process.stop()
        return seen
    finally:
        cluster.clean_up()


def test_groups_that_failed_are_retried_as_kube_scheduler_does(plane: ControlPlane) -> None:
    theirs, ours = _retry_story(plane, kube_scheduler), _retry_story(plane, mooring)
    assert ours == theirs
    assert len(theirs["bound"]) == 9


def test_a_custom_plugin_places_groups(plane: ControlPlane) -> None:
    folder = GALLERY / "cheapest_rack"
    cluster = Cluster(plane)
    try:
        for rack, price, cpu in (("a", "1", "1"), ("b", "3", "4"), ("c", "2", "4")):
            labels = {"example.com/rack": rack, "example.com/price": price}
            cluster.add_node(f"{rack}0", cpu=cpu, labels=labels)
        plugin = f"--plugin=CheapestRack={folder / 'cheapest_rack.py'}"
        process = mooring(plane, f"--config={folder / 'scheduler.yaml'}", plugin)
        for index in range(3):
            labels = {"role": "leader"} if index == 0 else {}
            spec = {"schedulerName": "racks", "schedulingGroup": {"podGroupName": "train"}}
            cluster.add_pod(f"train-{index}", cpu="1", metadata={"labels": labels}, **spec)
        policy = {"schedulingPolicy": {"gang": {"minCount": 3}}}
        cluster.api.create(_GROUPS.format(cluster.namespace), {"metadata": {"name": "train"}, "spec": policy})
        assert set(cluster.wait_bound(*(f"train-{index}" for index in range(3))).values()) == {"c0"}
        process.stop()
    finally:
        cluster.clean_up()
