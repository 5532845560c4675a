"""The comparison with Volcano: its recorded sessions agree; ties, races, and gangs that only one side places."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from mooring.api.codec import decode_object
from mooring.api.meta import Condition, KubeObject
from mooring.api.pod import Pod
from mooring.batch.evaluate import evaluate, offline_cluster, offline_device_config
from mooring.cluster import EmbeddedCluster
from mooring.config import default_config
from mooring.kube import Client, load_access
from mooring.live.batch.batch_settings import BatchSettings
from mooring.live.batch.session_shadow import SessionShadow
from mooring.live.shadow import LiveShadow
from mooring.scheduler.shadow import Judgement, Verdict
from tests.golden.decisions import decoded
from tests.golden.sessions import ANY, themes
from tests.live.batch.batch_world import PODS, SCHEDULING, World
from tests.live.volcano_crds import POD_GROUP, QUEUE
from tests.waiting import PATIENCE

_replace = msgspec.structs.replace
_VOLCANO = "scheduling.volcano.sh/v1beta1"
_CONF = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: nodeorder}]
"""
#: Every how manieth recorded session is judged; with 1, all 1,142 are.
_STEP = 9
_AGREEMENT = {Verdict.AGREES, Verdict.TIE}


class Volcano:
    """Volcano, which binds what the test says, and the shadow that watches it."""

    def __init__(self, folder: Path, objects: list[dict[str, Any]], conf: str = _CONF, **settings: Any) -> None:
        path = folder / "volcano-scheduler.conf"
        path.write_text(conf)
        items = [item for item in map(decode_object, objects) if isinstance(item, KubeObject)]
        clock = offline_cluster(items).handle.clock
        self.judged: list[Judgement] = []
        self.shadow = SessionShadow(
            default_config(), BatchSettings(scheduler_conf=path, **settings), report=self.judged.append, clock=clock
        )
        self.shadow.use_device_config(offline_device_config(objects, self.shadow.conf))
        self.pods: dict[str, Pod] = {}
        self.time = 0.0
        for item in items:
            self.shadow.start_with(None, item)
            if isinstance(item, Pod):
                self.pods[item.key] = item

    def add(self, raw: dict[str, Any]) -> None:
        item = decode_object(raw)
        assert isinstance(item, KubeObject)
        if isinstance(item, Pod):
            self.pods[item.key] = item
        self._change(None, item)

    def bind(self, name: str, node: str) -> None:
        pod = self.pods[name]
        self._become(pod, _replace(pod, spec=_replace(pod.spec, node_name=node)))

    def reject(self, name: str) -> None:
        pod = self.pods[name]
        condition = Condition(type="PodScheduled", status="False", reason="Unschedulable", message="pod group")
        self._become(pod, _replace(pod, status=_replace(pod.status, conditions=(condition,))))

    def delete(self, name: str) -> None:
        self._change(self.pods.pop(name), None)

    def _become(self, old: Pod, new: Pod) -> None:
        self.pods[new.key] = new
        self._change(old, new)

    def _change(self, old: KubeObject | None, new: KubeObject | None) -> None:
        self.time += 1
        self.shadow.changed(old, new, self.time)

    def verdicts(self) -> dict[str, Verdict]:
        self.shadow.judge(float("inf"))
        return {each.pod.partition("/")[2]: each.verdict for each in self.judged}


def _node(name: str, cpu: int) -> dict[str, Any]:
    amounts = {"cpu": str(cpu), "memory": "32Gi", "pods": "110"}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name}, "status": status}


def _queue(name: str) -> dict[str, Any]:
    head = {"apiVersion": _VOLCANO, "kind": "Queue", "metadata": {"name": name, "uid": f"queue-{name}"}}
    return {**head, "spec": {"weight": 1}, "status": {"state": "Open"}}


def _gang(name: str, pods: int, cpu: int = 1) -> list[dict[str, Any]]:
    def metadata(named: str) -> dict[str, Any]:
        return {"name": named, "namespace": "default", "uid": named, "creationTimestamp": "2026-01-01T00:00:00Z"}

    container = {"name": "app", "image": "app", "resources": {"requests": {"cpu": str(cpu)}}}
    group = {"apiVersion": _VOLCANO, "kind": "PodGroup", "metadata": metadata(name)}
    members = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**metadata(f"{name}-{number}"), "annotations": {"scheduling.k8s.io/group-name": name}},
            "spec": {"schedulerName": "volcano", "containers": [container]},
            "status": {"phase": "Pending"},
        }
        for number in range(pods)
    ]
    return [{**group, "spec": {"minMember": pods}, "status": {"phase": "Inqueue"}}, *members]


def _cluster(*cpus: int) -> list[dict[str, Any]]:
    return [_queue("root"), _queue("default"), *(_node(f"n{number}", cpu) for number, cpu in enumerate(cpus))]


def test_recorded_sessions_of_volcano_agree(tmp_path: Path) -> None:
    """The binds arrive in another order than Volcano decided them, after the rejections."""
    counts: Counter[Verdict] = Counter()
    for cases in themes().values():
        for case, expected in decoded(cases[::_STEP]):
            if "bound" not in expected:
                continue
            bound = evaluate(case)["bound"] if ANY in expected["bound"].values() else expected["bound"]
            volcano = Volcano(tmp_path, case["objects"], case["conf"])
            rejected = {name for name, pod in expected.get("pods", {}).items() if pod["reason"] == "Unschedulable"}
            rejected &= volcano.pods.keys()
            for name in sorted(rejected):
                volcano.reject(name)
            for name, node in sorted(bound.items(), reverse=True):
                volcano.bind(name, node)
            volcano.verdicts()
            assert [each for each in volcano.judged if each.verdict not in _AGREEMENT] == [], case["id"]
            assert sum(volcano.shadow.counts.values()) == len(bound), case["id"]
            counts += Counter(each.verdict for each in volcano.judged if each.theirs)
    assert counts[Verdict.AGREES] > counts[Verdict.TIE] > 0


async def test_a_cluster_is_watched_and_nothing_is_written(tmp_path: Path) -> None:
    cluster = EmbeddedCluster(admission=False)
    await cluster.start()
    cluster.add_nodes(2, capacity={"cpu": "4", "memory": "32Gi", "pods": "110"})
    (tmp_path / "kubeconfig").write_text(cluster.kubeconfig())
    judged: list[Judgement] = []
    async with Client(load_access(kubeconfig=str(tmp_path / "kubeconfig"))) as client:
        world = World(client, tmp_path)
        await world.define(QUEUE, POD_GROUP)
        await world.queue("default")
        opened = {"status": {"state": "Open"}}
        path = f"{SCHEDULING}/queues/default/status"
        await client.send("PATCH", path, opened, type="application/merge-patch+json")
        await world.gang("one", 2, cpu="3")
        live = LiveShadow(default_config(), client, batch=BatchSettings(), report=judged.append, delay=0.0)
        task = asyncio.create_task(live.run(pods=2))
        await asyncio.wait_for(live.synced.wait(), PATIENCE)
        nodes = [node["metadata"]["name"] for node in (await world.ask("GET", "/api/v1/nodes"))["items"]]
        assert await world.placed("one") == {}
        for number, node in enumerate(nodes):
            target = {"metadata": {"name": f"one-task-{number}"}, "target": {"kind": "Node", "name": node}}
            await world.ask("POST", f"{PODS}/one-task-{number}/binding", target)
        await asyncio.wait_for(task, PATIENCE)
        status = await world.group("one")
    await cluster.stop()
    assert {each.pod for each in judged} == {"default/one-task-0", "default/one-task-1"}
    assert {each.verdict for each in judged} <= _AGREEMENT
    assert not status


def test_a_choice_agrees_or_is_a_tie(tmp_path: Path) -> None:
    volcano = Volcano(tmp_path, [*_cluster(8, 8, 4), *_gang("one", 2)])
    volcano.bind("default/one-1", "n0")
    volcano.bind("default/one-0", "n1")
    assert volcano.verdicts() == {"one-0": Verdict.TIE, "one-1": Verdict.AGREES}
    assert {each.pod: each.best for each in volcano.judged} == {"default/one-0": 2, "default/one-1": 1}


def test_a_difference_names_the_scores_or_the_rejection(tmp_path: Path) -> None:
    volcano = Volcano(tmp_path, [*_cluster(4, 64, 64), *_gang("worse", 1), *_gang("impossible", 1, cpu=6)])
    volcano.bind("default/worse-0", "n0")
    volcano.bind("default/impossible-0", "n0")
    assert set(volcano.verdicts().values()) == {Verdict.DIFFERS}
    worse, impossible = volcano.judged
    assert worse.theirs == "n0"
    assert worse.ours in ("n1", "n2")
    assert worse.why.startswith("n0 has ")
    assert "nodeorder" in worse.why
    assert impossible.why == "n0 is rejected: Insufficient cpu"


def test_a_wrong_choice_does_not_make_the_next_ones_wrong(tmp_path: Path) -> None:
    volcano = Volcano(tmp_path, [*_cluster(9, 8), *_gang("one", 3, cpu=2)])
    for number, node in enumerate(("n1", "n0", "n0")):
        volcano.bind(f"default/one-{number}", node)
    assert list(volcano.verdicts().values()).count(Verdict.DIFFERS) == 1


def test_gangs_that_only_one_side_places_are_differences(tmp_path: Path) -> None:
    volcano = Volcano(tmp_path, [*_cluster(8), *_gang("huge", 2, cpu=5), *_gang("small", 2)])
    volcano.reject("default/small-0")
    volcano.bind("default/huge-0", "n0")
    assert volcano.verdicts() == {"small-0": Verdict.DIFFERS, "huge-0": Verdict.DIFFERS}
    small, huge = volcano.judged
    assert (small.theirs, small.ours, small.why) == ("", "n0", "Mooring places it on n0")
    assert (huge.theirs, huge.ours) == ("n0", "")
    assert "Insufficient cpu" in huge.why or "minAvailable" in huge.why
    assert volcano.shadow.failures[Verdict.DIFFERS] == volcano.shadow.counts[Verdict.DIFFERS] == 1


def test_gangs_that_neither_side_places_agree(tmp_path: Path) -> None:
    volcano = Volcano(tmp_path, [*_cluster(4), *_gang("huge", 2, cpu=3)])
    volcano.reject("default/huge-0")
    assert volcano.verdicts() == {"huge-0": Verdict.AGREES}
    assert volcano.shadow.judged == 0


def test_a_decision_on_an_earlier_state_is_a_race(tmp_path: Path) -> None:
    volcano = Volcano(tmp_path, [*_cluster(8, 8), *_gang("one", 1, cpu=4)])
    volcano.add(_node("n2", 64))
    volcano.bind("default/one-0", "n0")
    assert volcano.verdicts() == {"one-0": Verdict.RACE}
    assert volcano.judged[0].why.startswith("it was decided before Node n2 changed (n0 has ")


def test_a_rejection_before_room_was_released_is_a_race(tmp_path: Path) -> None:
    volcano = Volcano(tmp_path, [*_cluster(4), *_gang("first", 1, cpu=4), *_gang("second", 1, cpu=4)])
    volcano.bind("default/first-0", "n0")
    volcano.delete("default/first-0")
    volcano.reject("default/second-0")
    assert volcano.verdicts() == {"first-0": Verdict.AGREES, "second-0": Verdict.RACE}
    assert "was deleted" in volcano.judged[-1].why


def test_the_state_is_the_observed_one_after_sessions_and_a_search_for_races(tmp_path: Path) -> None:
    volcano = Volcano(tmp_path, [*_cluster(4, 64), *_gang("early", 1)])
    volcano.bind("default/early-0", "n0")
    for raw in _gang("right", 2, cpu=20):
        volcano.add(raw)
    volcano.bind("default/right-0", "n1")
    volcano.bind("default/right-1", "n1")
    assert volcano.verdicts() == {"early-0": Verdict.DIFFERS, "right-0": Verdict.AGREES, "right-1": Verdict.AGREES}


def test_a_gang_that_stays_pending_although_it_fits_is_reported_once(tmp_path: Path) -> None:
    volcano = Volcano(tmp_path, [*_cluster(4), *_gang("late", 2)])
    for now in (0.0, 5.0, 9.0):
        volcano.shadow.judge(now)
    assert volcano.judged == []
    for now in (10.0, 20.0, 30.0):
        volcano.shadow.judge(now)
    assert {(each.pod, each.verdict, each.ours) for each in volcano.judged} == {
        ("default/late-0", Verdict.DIFFERS, "n0"),
        ("default/late-1", Verdict.DIFFERS, "n0"),
    }
    assert len(volcano.judged) == 2
    assert "pending" in volcano.judged[0].why


def test_sessions_use_only_the_nodes_that_volcano_selects(tmp_path: Path) -> None:
    objects = [*_cluster(4, 64), *_gang("gang", 1, cpu=3)]
    selected = next(item for item in objects if item["metadata"]["name"] == "n0")
    selected["metadata"]["labels"] = {"pool": "batch"}
    volcano = Volcano(tmp_path, objects, node_selector=(("pool", "batch"),))
    volcano.bind("default/gang-0", "n0")
    assert volcano.verdicts() == {"gang-0": Verdict.AGREES}


def test_pods_of_kube_scheduler_are_judged_too_and_others_are_not(tmp_path: Path) -> None:
    plain = {"containers": [{"name": "app", "image": "app"}]}
    volcano = Volcano(tmp_path, _cluster(4))
    for name, scheduler in (("kube", "default-scheduler"), ("alone", "volcano"), ("other", "other")):
        metadata = {"name": name, "namespace": "default", "uid": name}
        spec = {**plain, "schedulerName": scheduler}
        volcano.add({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        volcano.bind(f"default/{name}", "n0")
    assert volcano.verdicts() == {"kube": Verdict.AGREES}
