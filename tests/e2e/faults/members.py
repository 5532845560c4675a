"""Several schedulers of one active-active group, which race for the last room of a cluster while some of them fail."""

from __future__ import annotations

import contextlib
import re
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Final

from mooring.columns.node_share import owner_of
from mooring.kube.membership import GROUP, VIEW
from tests.e2e.controlplane import Process, free_port
from tests.e2e.endpoints import ask
from tests.e2e.faults.proxy import FaultProxy
from tests.e2e.faults.trial import Trial
from tests.e2e.mooring_process import MOORING, mooring_command

_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
#: The part of its lease duration that a member's last renewal is valid for at least.
_VALID: Final = 0.65
_JOINED: Final = re.compile(r'"Joined the active-active group".*member="([^"]+)"')
_CONFLICTS: Final = "mooring_active_active_conflicts_total"
_SAMPLE: Final = re.compile(r"^(mooring_active_active_\w+(?:\{[^}]*\})?) (\S+)$", re.MULTILINE)


class Members:
    """The members of a group, which see changes with a delay. A context manager, for a trial."""

    def __init__(self, trial: Trial, proxy: FaultProxy, *, qps: int, lease_duration: float) -> None:
        self._trial = trial
        self._proxy = proxy
        self._qps = qps
        self._duration = lease_duration
        self._ports: dict[str, int] = {}
        self.processes: dict[str, Process] = {}
        plane = trial.cluster.plane
        roles = subprocess.run(
            [MOORING, "rbac", "--active-active", "--user", "system:kube-scheduler"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        plane.kubectl("apply", "-f", "-", stdin=roles)

    def start(self, name: str) -> Process:
        """Start a member."""
        plane = self._trial.cluster.plane
        connection = {"kubeconfig": str(self._proxy.kubeconfig()), "qps": self._qps, "burst": self._qps}
        file = plane.scheduler_config({"clientConnection": connection}, name=name)
        flags = (
            "--config",
            str(file),
            "--active-active",
            f"--active-active-lease-duration={self._duration * 1000:.0f}ms",
        )
        self._ports[name] = free_port()
        process = plane.run(name, mooring_command(plane, *flags, port=self._ports[name]), wait=False)
        self._trial.add_scheduler(process)
        self.processes[name] = process
        return process

    def wait_joined(self, count: int, timeout: float = 120.0) -> None:
        """Wait until so many members know each other."""

        def look() -> bool:
            views = self.views()
            return len(views) == count and all(view == set(views) for view in views.values())

        self._trial.cluster.api.wait_for(f"{count} members", look, timeout)

    def views(self) -> dict[str, set[str]]:
        """The members by the names of their leases, with the members that each of them has published."""
        found: dict[str, set[str]] = {}
        for lease in self._trial.cluster.api.items(f"{_LEASES}?labelSelector={GROUP}"):
            view = lease["metadata"].get("annotations", {}).get(VIEW, "")
            found[lease["metadata"]["name"]] = set(filter(None, view.split(",")))
        return found

    def lease_of(self, name: str) -> str:
        """The name of a member's newest lease."""
        return str(_JOINED.findall(self.processes[name].log.read_text())[-1])

    def takeover(self, name: str, stop: Callable[[Process], object], timeout: float = 120.0) -> float:
        """Stop a member. Return the seconds until another one binds a pod of a controller that belonged to it."""
        lease, history = self.lease_of(name), self._trial.history
        view = self.views()[lease]
        stop(self.processes[name])
        begun = time.monotonic()
        # Before, binds arrive that the member had sent: the lease expires after several renewals.
        earliest = begun + _VALID * self._duration
        while time.monotonic() < begun + timeout:
            later = [
                at
                for uid, at in list(history.bound_at.items())
                if at > earliest and owner_of(history.controllers[uid], view) == lease
            ]
            if later:
                return min(later) - begun
            time.sleep(0.01)
        raise AssertionError(f"no pod of {name} was bound within {timeout:g} s")

    def metrics(self) -> dict[str, float]:
        """The sums of the group's metrics over all members that answer."""
        found: dict[str, float] = {}
        token = self._trial.cluster.plane.users["admin"].token
        for name, process in self.processes.items():
            if process.alive:
                text = ask(self._ports[name], "/metrics", token=token).text
                for metric, value in _SAMPLE.findall(text):
                    found[metric] = found.get(metric, 0.0) + float(value)
        return found


def add_owned_pods(trial: Trial, count: int, owners: int, *, rate: float) -> None:
    """Create pods of several controllers, so many per second."""
    begun = time.monotonic()
    with contextlib.closing(trial.cluster.plane.api_as("admin")) as api:
        for number in range(count):
            time.sleep(max(0.0, begun + number / rate - time.monotonic()))
            owner = number % owners
            reference = {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": f"owner-{owner}",
                "uid": f"00000000-0000-0000-0000-{owner:012d}",
                "controller": True,
            }
            trial.cluster.add_pod(f"pod-{number}", metadata={"ownerReferences": [reference]}, api=api)


def race(
    trial: Trial,
    *,
    watch_delay: float,
    qps: int,
    rate: float,
    owners: int,
    lease_duration: float,
    tell: Callable[[str], None],
) -> dict[str, float]:
    """Fill a cluster to the last pod with three members, kill one, and pause another. Return what was measured.

    ``rate`` pods are created per second. If that is below what the members can bind, the time of a takeover does not
    contain the time that a pod waits behind others.
    """
    with FaultProxy(trial.cluster.plane, watch_delay=watch_delay) as proxy:
        members = Members(trial, proxy, qps=qps, lease_duration=lease_duration)
        names = [f"{trial.cluster.namespace}-member-{number}" for number in range(3)]
        for name in names:
            members.start(name)
        members.wait_joined(3)
        arguments = (trial, trial.count, owners)
        creation = threading.Thread(target=add_owned_pods, args=arguments, kwargs={"rate": rate})
        creation.start()
        trial.history.wait_bound(trial.count // 10)
        killed = members.takeover(names[0], Process.kill)
        tell(f"kill -9: the first bind of its pods after {killed:.2f} s, {trial.history.bound} of {trial.count} bound")
        members.start(f"{names[0]}-again")
        paused = members.takeover(names[1], Process.pause)
        tell(f"SIGSTOP: the first bind of its pods after {paused:.2f} s, {trial.history.bound} of {trial.count} bound")
        trial.history.wait_bound(min(trial.count, trial.history.bound + 30))
        members.processes[names[1]].resume()
        members.wait_joined(3)
        creation.join()
        trial.wait_all_bound()
        found = members.metrics()
        expelled = found.get('mooring_active_active_conflicts_total{reason="expelled"}', 0.0)
        conflicts = sum(value for name, value in found.items() if name.startswith(_CONFLICTS)) - expelled
        tell(f"{conflicts:g} conflicts with {trial.count} pods, {expelled:g} placements of the paused member undone")
        tell(str(found))
        trial.check(*(process for process in members.processes.values() if process.alive))
        return {"killed": killed, "paused": paused, "conflicts": conflicts, "pods": float(trial.count)}
