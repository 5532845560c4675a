"""Small random clusters, and a check of plans that shares nothing with the planner."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable

import msgspec

from mooring.api.meta import KubeObject
from mooring.api.pod import Pod
from mooring.api.policy import PodDisruptionBudget
from mooring.config import default_config
from mooring.observe.attempt_trace import Evaluation
from mooring.scheduler.engine import Engine
from mooring.scheduler.schedule_pod import schedule_pod
from mooring.simulation.rebalance import Plan
from mooring.testing import make_node, make_pdb, make_pod


def steps_clock(step: float = 1e-4) -> Callable[[], float]:
    """Return a clock that advances with every call, so that a search takes the same course on every machine."""
    ticks = itertools.count()
    return lambda: next(ticks) * step


def random_cluster(seed: int, *, rules: bool) -> list[KubeObject]:
    """Return four nodes with pods, and some pending pods; with ``rules``, also with affinity, taints and budgets."""
    rng = random.Random(seed)
    objects: list[KubeObject] = []
    free = {f"n{number}": 10 for number in range(4)}
    for name in free:
        node = make_node(name).capacity(cpu="10", memory="10Gi", pods=20).label(disk=rng.choice(["ssd", "hdd"]))
        objects.append((node.taint("special") if rules and rng.random() < 0.2 else node).obj())
    for number in range(rng.randint(6, 12)):
        cpu, node_name = rng.randint(1, 5), rng.choice(list(free))
        if free[node_name] >= cpu:
            free[node_name] -= cpu
            objects.append(_pod(rng, f"p{number}", cpu, rules=rules).node(node_name).obj())
    sizes = [rng.randint(4, 9) for _ in range(rng.randint(1, 3))]
    objects += [_pod(rng, f"waiting{number}", cpu, rules=rules).obj() for number, cpu in enumerate(sizes)]
    if rules:
        objects.append(make_pdb("budget", {"app": "a"}, allowed=rng.randint(0, 2)).obj())
    return objects


def _pod(rng: random.Random, name: str, cpu: int, *, rules: bool):  # type: ignore[no-untyped-def]
    made = make_pod(name).req(cpu=str(cpu)).owner("ReplicaSet", name).priority(rng.choice([0, 0, 10]))
    if not rules:
        return made
    made = made.label(app=rng.choice("abc"))
    if rng.random() < 0.2:
        made = made.node_selector(disk="ssd")
    if rng.random() < 0.2:
        made = made.toleration("special", operator="Exists")
    if rng.random() < 0.3:
        made = made.pod_anti_affinity("kubernetes.io/hostname", {"app": rng.choice("abc")})
    return made


def check_plan(objects: Iterable[KubeObject], plan: Plan) -> None:
    """Carry out a plan and decide every placement again with all filters."""
    objects = list(objects)
    pods = {item.key: item for item in objects if isinstance(item, Pod)}
    engine = Engine(default_config(), rng=random.Random(0))
    for item in sorted(objects, key=lambda item: isinstance(item, Pod)):
        engine.cache.put(item)
    for step in range(max((each.step for each in [*plan.moves, *plan.placements]), default=0) + 1):
        moves = [each for each in plan.moves if each.step == step]
        for move in moves:
            assert pods[move.pod].node_name == move.source != move.target
            engine.cache.remove(pods[move.pod])
        targets = [(each.pod, each.target) for each in moves]
        targets += [(each.pod, each.node) for each in plan.placements if each.step == step]
        for key, target in targets:
            pod = _without_node(pods[key])
            evaluation = Evaluation()
            schedule_pod(engine.profiles.first, pod, evaluation)
            feasible = [engine.cache.table.nodes[row].name for row in evaluation.feasible.tolist()]
            assert target in feasible, f"{key} is not accepted by {target}"
            engine.cache.assume(pod, target)
    highest = max((goal.priority for goal in plan.goals if goal.result == "planned"), default=-1)
    assert all(move.priority <= highest for move in plan.moves)
    for budget in objects:
        if isinstance(budget, PodDisruptionBudget):
            assert budget.spec.selector is not None
            labels = budget.spec.selector.match_labels.items()
            moved = [each for each in plan.moves if labels <= pods[each.pod].labels.items()]
            assert len(moved) <= budget.status.disruptions_allowed


def _without_node(pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))
