"""A long run with faults of every kind, while pods and gangs are scheduled: nothing may be lost.

In each round pods and gangs arrive on a cluster that has just enough room, requests fail in every way, and the
scheduler is killed once. The round ends when every pod is bound; then everything is checked and deleted.
"""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.e2e.cluster import Cluster
from tests.e2e.controlplane import Process
from tests.e2e.faults.plans import CALLS, Call, Kind, Plan
from tests.e2e.faults.proxy import FaultProxy
from tests.e2e.faults.trial import Trial
from tests.e2e.mooring_process import MOORING, mooring_command

_NODES, _PER_NODE = 10, 20
_GANGS, _SIZE = 8, 10
_CONFIG: Final = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 2}
_CONF: Final = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}, {name: binpack}]
"""
_ANYWHERE: Final[tuple[Kind, ...]] = (
    "429", "500", "503", "unsaid", "unheard", "torn", "garbled", "slow", "late", "portal", "failure", "stranger",
)  # fmt: skip
#: A client waits for half a minute for each of these, so they are rare.
_SILENCE: Final[tuple[Kind, ...]] = ("silent", "mute")
_WRITES: Final[tuple[Call, ...]] = ("bind", "status", "event", "evict")


def all_faults() -> dict[Call, tuple[Kind, ...]]:
    """Every fault for every kind of call for which it makes sense."""
    faults: dict[Call, tuple[Kind, ...]] = dict.fromkeys(CALLS, _ANYWHERE)
    for call in _WRITES:
        faults[call] = (*_ANYWHERE, "409") * 12 + _SILENCE
    for call in ("watch", "page"):
        faults[call] = (*_ANYWHERE, "gone", "gone")
    return faults


class Soak(Trial):
    """The rounds of a long run."""

    def __init__(self, cluster: Cluster, folder: Path, seed: int) -> None:
        super().__init__(cluster, nodes=_NODES, per_node=_PER_NODE)
        self._random = random.Random(seed)
        self._conf = folder / "volcano-scheduler.conf"
        self._conf.write_text(_CONF)
        install = [str(MOORING), "batch", "install", "--kubeconfig", str(cluster.plane.kubeconfig())]
        subprocess.run(install, check=True, capture_output=True)
        self._groups = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{cluster.namespace}/podgroups"
        self.rounds = self.kills = self.pods = 0

    def start_both(self, kubeconfig: Path) -> Process:
        """Start Mooring with a profile for pods and with sessions for gangs."""
        name = f"mooring-{self.cluster.namespace}"
        config = {**_CONFIG, "clientConnection": {"kubeconfig": str(kubeconfig)}}
        file = self.cluster.plane.scheduler_config(config, name=name)
        flags = ("--config", str(file), "--scheduler-conf", str(self._conf), "--schedule-period=200ms")
        process = self.cluster.plane.run(name, mooring_command(self.cluster.plane, *flags), wait=False)
        self._schedulers.append(process)
        return process

    def round(self, mooring: Process) -> None:
        """Let pods and gangs arrive, kill the scheduler once, wait until all are bound, and check."""
        self.rounds += 1
        plain = self.count - _GANGS * _SIZE
        before = self.history.bound
        at = before + self._random.randrange(self.count)
        for number in range(_GANGS):
            self._add_gang(f"r{self.rounds}-gang-{number}")
        self.add_pods(plain, prefix=f"r{self.rounds}-pod")
        self.history.wait_bound(at, timeout=180)
        time.sleep(self._random.random() * 0.05)
        mooring.kill()
        mooring.start(wait=False)
        self.kills += 1
        self.wait_all_bound(timeout=240)
        self.history.wait_bound(before + self.count)
        self.pods += self.count
        bound = Counter(pod["metadata"].get("labels", {}).get("gang", "none") for pod in self.cluster.pods())
        assert bound.pop("none") == plain
        assert set(bound.values()) == {_SIZE}
        assert self.history.changes_of_mind() == {}
        assert self.overcommitted() == {}
        too_much = {node: peak for node, peak in self.history.peaks.items() if peak > _PER_NODE * 100}
        assert too_much == {}, "nodes were overcommitted for a time"

    def clear(self) -> None:
        """Delete the pods and groups of a round."""
        self.cluster.api.delete(f"/api/v1/namespaces/{self.cluster.namespace}/pods")
        self.cluster.api.delete(self._groups)
        self.cluster.api.wait_for("the end of all pods", lambda: not self.cluster.pods() or None, 60)

    def _add_gang(self, name: str) -> None:
        head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name}}
        self.cluster.api.create(self._groups, {**head, "spec": {"minMember": _SIZE, "queue": "default"}})
        metadata = {"annotations": {"scheduling.k8s.io/group-name": name}, "labels": {"gang": name}}
        for number in range(_SIZE):
            self.cluster.add_pod(f"{name}-{number}", metadata=metadata, schedulerName="volcano")


def soak(cluster: Cluster, folder: Path, *, count: int, seed: int = 1, tell: Callable[[str], None] = print) -> Plan:
    """Inject ``count`` faults. Raises AssertionError if a pod is lost, bound twice, or a node is overcommitted."""
    plan = Plan(seed, all_faults(), often=0.3, most=count)
    begun = time.monotonic()
    with FaultProxy(cluster.plane, plan) as proxy, Soak(cluster, folder, seed) as trial:
        mooring = trial.start_both(proxy.kubeconfig("admin"))
        while plan.happened.total() + trial.kills < count:
            if trial.rounds:
                trial.clear()
            trial.round(mooring)
            faults = plan.happened.total() + trial.kills
            tell(f"round {trial.rounds}: {faults} faults, {trial.pods} pods, {time.monotonic() - begun:.0f} s")
        plan.active = False
        cluster.api.wait_for("scheduler", lambda: _works(mooring))
        trial.check(mooring)
        tell(f"{faults} faults ({trial.kills} kills), {trial.pods} pods bound once, none lost, no node overcommitted")
    return plan


def _works(mooring: Process) -> bool:
    """Whether the process that was started last schedules: before, a signal would end it."""
    return '"Scheduling"' in mooring.log.read_text(errors="replace").rpartition("$ ")[2]
