"""What test/e2e/schedulingaction of Volcano 1.15.1 checks.

| Upstream's case | Test |
|---|---|
| allocate: resource is enough | `enough` |
| allocate: resource is not enough | `not enough` |
| allocate: podgroup is pending (skipped upstream) | `group is pending` |
| allocate: job does not satisfy predicates | `anti-affinity to a running job` |
| allocate: queue is overused | `queue is overused`, also `without enqueue` |
| allocate: scheduling gates block a vcjob | `gates` |
| allocate: scheduling gates block a Deployment | `gates`; tests/controllers/test_pod_groups.py for its PodGroup |
| allocate: subgroups without a network topology | `partitions without topology` |
| enqueue: allocate without the action enqueue | `without enqueue` |
| enqueue: gated tasks do not consume inqueue resources | `gated pods leave room in the queue` |
| guarantee: one queue reserves the cluster | `guarantee of all` |
| guarantee: one queue reserves a part | `guarantee of a part` |
| predicates: Hostport | `host port` |
| predicates: NodeAffinity | `node affinity` |
| predicates: Pod Affinity | `pod affinity` |
| predicates: Pod Anti-Affinity | `pod anti-affinity` |
| predicates: Taints; Taints and Tolerations | `taints` |
| preempt: resource is enough | `preempt: enough` |
| preempt: preemptee resource is enough | `preempt: half` |
| preempt: podgroup is pending | `preempt: group is pending` |
| preempt: only in the same queue | `preempt: same queue` |
| preempt: idle resource and preemptee is not enough | `preempt: too little` |
| preempt: several preemptors of different priority (skipped upstream) | `preempt: two preemptors` |
| preempt: gated jobs do not preempt | `preempt: gated` |
| preempt: anti-affinity constraint | `preempt: anti-affinity` |
| Reclaim Case 1: resource is enough | `reclaim 1` |
| Reclaim Case 3: podgroup is pending (skipped upstream) | `reclaim 3` |
| Reclaim Case 4, 5: the queue does not exist | `reclaim 4` (admission refuses such jobs: tests/controllers/admission) |
| Reclaim Case 6: overused | `reclaim 6` |
| Reclaim Case 7: job does not satisfy predicates | `reclaim 7` |
| Reclaim Case 8: more than can be reclaimed | `reclaim 8` |
| Reclaim Case 9: not reclaimable | `reclaim 9` |
| Reclaim Case 10: several queues | `reclaim 10` |
| Capacity Reclaim Case 11 | `reclaim 11` |
| Capacity Reclaim Case 12: hierarchy | `reclaim 12` |
| Reclaim (skipped upstream) | `reclaim half` |
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest

from mooring.api.node import Node, Taint
from tests.batch.suites.suite_world import (
    PREEMPTABLE,
    WITHOUT_ENQUEUE,
    Case,
    SuiteWorld,
    change_nodes,
    conf,
    job,
    on_nodes,
    partitions,
    phases,
    play,
    runs,
    ungate,
)

GATED: Final = {"schedulingGates": [{"name": "example.com/gate"}]}
TOLERATION: Final = {"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}
CAPACITY: Final = conf(queues="{name: capacity}")


def terms(kind: str, label: str) -> dict[str, Any]:
    """An affinity to pods with this value of the label `app`, on the same node."""
    term = {"labelSelector": {"matchLabels": {"app": label}}, "topologyKey": "kubernetes.io/hostname"}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def on_node(name: str) -> dict[str, Any]:
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]}]
    required = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def taint(node: Node) -> Node:
    return msgspec.structs.replace(
        node, spec=msgspec.structs.replace(node.spec, taints=(Taint(key="k", value="v", effect="NoSchedule"),))
    )


def untaint(node: Node) -> Node:
    return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, taints=()))


def spread_over(name: str, nodes: int) -> Any:
    def step(world: SuiteWorld) -> None:
        assert len(set(world.running(name).values())) == nodes

    return step


ALLOCATE: Final = {
    "enough": Case([job("low", cpu="500m"), runs(low=1), job("high"), runs(low=1, high=1)], nodes=2, cores="2"),
    "not enough": Case(
        [job("middle"), job("low", cpu="500m"), runs(middle=1, low=1), job("high", cpu="3"),
         runs(middle=1, low=1, high=0)],
        nodes=1, cores="2",
    ),
    "group is pending": Case(
        [job("big", 3), job("small"), runs(big=0, small=1), phases(big="Pending", small="Running")], nodes=1, cores="2"
    ),
    "anti-affinity to a running job": Case(
        [job("j1", cpu="500m", labels={"app": "first"}), runs(j1=1),
         job("j2", cpu="500m", affinity=terms("podAntiAffinity", "first")), runs(j1=1, j2=0), phases(j2="Inqueue")],
        nodes=1, cores="2",
    ),
    "queue is overused": Case(
        [job("j1", 2, queue="q1"), runs(j1=2), job("j2", 2, queue="q2"), runs(j2=2),
         job("j3", cpu="500m", queue="q1"), runs(j1=2, j2=2, j3=0)],
        nodes=3, cores="2", queues={"q1": {"capability": {"cpu": "2"}}, "q2": {}},
    ),
    "queue is overused, without enqueue": Case(
        [job("j1", 2, queue="q1"), runs(j1=2), job("j3", cpu="500m", queue="q1"), runs(j1=2, j3=0)],
        nodes=3, cores="2", conf=conf(WITHOUT_ENQUEUE), queues={"q1": {"capability": {"cpu": "2"}}},
    ),
    "gates": Case(
        [job("j1", 2, "2", **GATED), runs(j1=0), ungate("j1"), runs(j1=2), phases(j1="Running")], cores="2"
    ),
    "partitions without topology": Case(
        [job("j1", 2, "500m", of_task=partitions(2, 1, least=2)), runs(j1=2)], nodes=2, cores="2"
    ),
    "without enqueue": Case(
        [job("low", cpu="500m"), job("high"), runs(low=1, high=1)], nodes=2, cores="2", conf=conf(WITHOUT_ENQUEUE)
    ),
    "gated pods leave room in the queue": Case(
        [job("gated", 4, **GATED), runs(gated=0), job("j1", 2), job("j2", 2), runs(gated=0, j1=2, j2=2)],
        nodes=1, cores="4",
    ),
    "guarantee of all": Case(
        [job("j2", cpu="500m", queue="q2"), runs(j2=0)],
        nodes=1, cores="2", queues={"q1": {"guarantee": {"resource": {"cpu": "2", "memory": "64Gi"}}}, "q2": {}},
    ),
    "guarantee of a part": Case(
        [job("j2", cpu="1500m", queue="q2"), runs(j2=0), job("j3", queue="q2"), runs(j2=0, j3=1)],
        nodes=1, cores="2", queues={"q1": {"guarantee": {"resource": {"cpu": "1", "memory": "1Gi"}}}, "q2": {}},
    ),
}  # fmt: skip

PREDICATES: Final = {
    "host port": Case(
        [job("j1", 8, "100m", least=4, container={"ports": [{"containerPort": 80, "hostPort": 28080}]}), runs(j1=4)]
    ),
    "node affinity": Case(
        [job("j1", 4, least=1, affinity=on_node("n2")), runs(j1=4), on_nodes("j1", "n2")], cores="4"
    ),
    "pod affinity": Case(
        [job("j1", 4, labels={"app": "a"}, affinity=terms("podAffinity", "a")), runs(j1=4), spread_over("j1", 1)],
        cores="4",
    ),
    "pod anti-affinity": Case(
        [job("j1", 3, labels={"app": "a"}, affinity=terms("podAntiAffinity", "a")), runs(j1=3), spread_over("j1", 3)],
        cores="4",
    ),
    "taints": Case(
        [change_nodes(taint), job("j1"), job("j2", tolerations=[TOLERATION]), runs(j1=0, j2=1),
         change_nodes(untaint), runs(j1=1, j2=1)],
    ),
}  # fmt: skip

PREEMPT: Final = {
    "preempt: enough": Case(
        [job("low", priority="low", labels=PREEMPTABLE), runs(low=1),
         job("high", priority="high", labels=PREEMPTABLE), runs(low=1, high=1)],
    ),
    "preempt: half": Case(
        [job("low", 4, least=1, priority="low", labels=PREEMPTABLE), runs(low=4),
         job("high", 4, least=2, priority="high", labels=PREEMPTABLE), runs(low=2, high=2)],
        conf=conf(WITHOUT_ENQUEUE),
    ),
    "preempt: group is pending": Case(
        [job("low", 4, least=1, priority="low"), runs(low=4), job("high", 30, least=30, priority="high"),
         runs(low=4, high=0), phases(high="Pending")],
    ),
    "preempt: same queue": Case(
        [job("j1", 2, priority="low", queue="q1", labels=PREEMPTABLE), runs(j1=2),
         job("j2", 2, priority="low", queue="q2", labels=PREEMPTABLE), runs(j2=2),
         job("j3", 4, least=2, priority="high", queue="q1", labels=PREEMPTABLE), runs(j1=0, j2=2, j3=2)],
        conf=conf("allocate, backfill, preempt"), queues={"q1": {}, "q2": {}},
    ),
    "preempt: too little": Case(
        [job("j1", priority="low", queue="q1", labels=PREEMPTABLE), runs(j1=1),
         job("j2", 2, priority="low", queue="q2", labels=PREEMPTABLE), runs(j2=2),
         job("j3", 4, priority="high", queue="q1", labels=PREEMPTABLE), runs(j1=1, j2=2, j3=0)],
        queues={"q1": {}, "q2": {}},
    ),
    "preempt: two preemptors": Case(
        [job("low", 4, least=1, priority="low", labels=PREEMPTABLE), runs(low=4),
         job("middle", 2, priority="middle", labels=PREEMPTABLE), runs(low=2, middle=2),
         job("high", 4, priority="high", labels=PREEMPTABLE), runs(low=0, middle=0, high=4)],
        conf=conf(WITHOUT_ENQUEUE),
    ),
    "preempt: gated": Case(
        [job("low", 4, least=1, priority="low", labels=PREEMPTABLE), runs(low=4),
         job("high", 2, priority="high", labels=PREEMPTABLE, **GATED), runs(low=4, high=0),
         ungate("high"), runs(low=2, high=2)],
        conf=conf(WITHOUT_ENQUEUE),
    ),
    "preempt: anti-affinity": Case(
        [job("blocker", 3, least=1, priority="middle", labels={**PREEMPTABLE, "app": "blocker"},
             affinity=terms("podAntiAffinity", "blocker")), runs(blocker=3),
         job("bystander", 3, least=1, priority="low", labels={**PREEMPTABLE, "app": "bystander"},
             affinity=terms("podAffinity", "blocker") | terms("podAntiAffinity", "bystander")), runs(bystander=3),
         job("high", 2, "3", priority="high", labels=PREEMPTABLE, affinity=terms("podAntiAffinity", "blocker")),
         runs(high=2, blocker=1, bystander=3)],
        nodes=3, cores="4",
        conf=conf(WITHOUT_ENQUEUE, more="configurations:\n"
                  "- {name: preempt, arguments: {enableTopologyAwarePreemption: true}}"),
    ),
}  # fmt: skip


def claim(name: str, queue: str, cpu: str = "1", priority: str = "", **more: Any) -> Any:
    """A job of one pod that may be evicted."""
    return job(name, cpu=cpu, queue=queue, priority=priority, labels=PREEMPTABLE, **more)


def elastic(name: str, queue: str, pods: int, priority: str = "low") -> Any:
    return job(name, pods, least=1, queue=queue, priority=priority, labels=PREEMPTABLE)


RECLAIM: Final = {
    "reclaim 1": Case(
        [claim("j1", "default"), claim("j2", "q2"), runs(j1=1, j2=1), claim("j3", "q3"), runs(j1=1, j2=1, j3=1)],
        queues={"q2": {}, "q3": {}},
    ),
    "reclaim 3": Case(
        [claim("j1", "default"), claim("j2", "q2"), claim("j3", "default"), runs(j1=1, j2=1, j3=1),
         job("j4", 5, queue="q3"), runs(j1=1, j2=1, j3=1, j4=0), phases(j4="Pending")],
        nodes=3, queues={"q2": {}, "q3": {}},
    ),
    "reclaim 4": Case(
        [claim("j1", "default"), claim("j2", "q2"), claim("j3", "default"), runs(j1=1, j2=1, j3=1),
         claim("j4", "missing", priority="high"), runs(j1=1, j2=1, j3=1, j4=0)],
        nodes=3, queues={"q2": {}},
    ),
    "reclaim 6": Case(
        [claim("j1", "default"), claim("j2", "q2"), claim("j3", "q3"), runs(j1=1, j2=1, j3=1),
         claim("j4", "q3", "500m"), runs(j1=1, j2=1, j3=1, j4=0), phases(j4="Inqueue")],
        nodes=3, queues={"q2": {}, "q3": {}},
    ),
    "reclaim 7": Case(
        [elastic("j1", "default", 2), elastic("j2", "q2", 2), runs(j1=2, j2=2),
         claim("j3", "q3", affinity=on_node("elsewhere")), runs(j1=2, j2=2, j3=0)],
        queues={"q2": {}, "q3": {}},
    ),
    "reclaim 8": Case(
        [claim("j1", "default"), claim("j2", "q2"), runs(j1=1, j2=1), job("j4", cpu="4", queue="q3"),
         runs(j1=1, j2=1, j4=0)],
        nodes=3, queues={"q2": {}, "q3": {}},
    ),
    "reclaim 9": Case(
        [elastic("j1", "q1", 2), elastic("j2", "q2", 2), runs(j1=2, j2=2),
         claim("j3", "q3", priority="high"), runs(j1=2, j2=2, j3=0)],
        queues={"q1": {"reclaimable": False}, "q2": {"reclaimable": False}, "q3": {}},
    ),
    "reclaim 10": Case(
        [elastic("j1", "default", 3), runs(j1=3), elastic("j2", "q2", 3), runs(j1=3, j2=3),
         claim("j3", "q3", priority="high"), runs(j3=1), claim("j4", "q4", priority="high"),
         runs(j1=2, j2=2, j3=1, j4=1)],
        nodes=6, queues={"q2": {}, "q3": {}, "q4": {}},
    ),
    "reclaim 11": Case(
        [elastic("j1", "q1", 6), runs(j1=6), elastic("j2", "q2", 6), runs(j1=6, j2=6),
         claim("j3", "q3", "2", "high"), runs(j3=1), claim("j4", "q4", "2", "high"), runs(j3=1, j4=1),
         claim("j5", "q4", priority="high"), claim("j6", "q4", priority="high"),
         runs(j1=3, j2=3, j3=1, j4=1, j5=1, j6=1)],
        nodes=6, cores="2", conf=CAPACITY,
        queues={name: {"deserved": {"cpu": cpu}} for name, cpu in (("q1", "1"), ("q2", "1"), ("q3", "2"), ("q4", "4"))},
    ),
    "reclaim 12": Case(
        [claim("j1", "q2", "2", "low"), claim("j2", "q11", "2", "low"), runs(j1=1, j2=1),
         claim("j3", "q12", priority="low"), claim("j4", "q11", priority="low"), runs(j1=1, j2=1, j3=1, j4=1)],
        cores="2", conf=conf(queues="{name: capacity, enableHierarchy: true}"),
        queues={"q1": {"parent": "root", "deserved": {"cpu": "4"}}, "q2": {"parent": "root", "deserved": {"cpu": "4"}},
                "q11": {"parent": "q1", "deserved": {"cpu": "2"}}, "q12": {"parent": "q1", "deserved": {"cpu": "2"}}},
    ),
    "reclaim half": Case(
        [elastic("j1", "q1", 6), runs(j1=6), job("j2", 3, queue="q2", priority="high"),
         runs(j1=3, j2=3), job("j3", 8, queue="q1"), runs(j1=3, j2=3, j3=0)],
        nodes=6, conf=conf(WITHOUT_ENQUEUE), queues={"q1": {}, "q2": {}},
    ),
}  # fmt: skip
CASES: Final = ALLOCATE | PREDICATES | PREEMPT | RECLAIM


@pytest.mark.parametrize("name", CASES)
def test_schedulingaction(name: str) -> None:
    play(CASES[name])
