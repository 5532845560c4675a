"""One of the two sides: a control plane with a scheduler, on which scenarios are played and looked at."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tests.e2e.controlplane import Api, ApiFailure, ControlPlane, Object
from tests.e2e.differential.scenarios import Scenario, priority_classes
from tests.e2e.differential.steps import Step

_UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
#: What a scenario leaves cluster-wide.
_LEFT: Final = ("/api/v1/nodes", "/api/v1/persistentvolumes", "/apis/storage.k8s.io/v1/storageclasses")


@dataclass(frozen=True)
class PodView:
    """What a user sees of a pod, as far as it is the scheduler's work."""

    node: str
    #: Status, reason and message of the condition PodScheduled.
    scheduled: tuple[str, str, str]
    nominated: str
    terminating: bool
    #: Reason and message of the condition DisruptionTarget.
    disrupted: tuple[str, str]

    @property
    def decided(self) -> bool:
        """Whether a scheduler has said something about the pod."""
        return bool(self.node or self.scheduled[0])


class Side:
    """Plays scenarios on a control plane whose scheduler runs."""

    def __init__(self, name: str, plane: ControlPlane) -> None:
        self.name = name
        self.plane = plane
        self.api: Api = plane.api
        self._running: set[str] = set()
        for step in priority_classes():
            self.apply(step)

    def begin(self, scenario: Scenario) -> None:
        """Make the cluster of a scenario."""
        self._running = set()
        for step in scenario.setup:
            self.apply(step)
        self.play_kubelet(scenario)

    def apply(self, step: Step) -> None:
        """Make one change; what it is about may be gone by now."""
        try:
            if step.action == "create":
                self.api.create(step.path, step.body)
            elif step.action == "patch":
                self.api.patch(step.path, step.body)
            else:
                self.api.delete(step.path)
        except ApiFailure as failure:
            there = step.action == "create" and failure.status == 409 and step.path == "/api/v1/namespaces"
            if not there and (failure.status != 404 or step.action == "create"):
                raise

    def play_kubelet(self, scenario: Scenario) -> None:
        """Let newly bound pods run, each with a start time of its own that is the same on both sides."""
        pods = self._pods(scenario)
        order = {step.pod: number for number, step in enumerate((*scenario.setup, *scenario.steps)) if step.pod}
        for pod in pods:
            name = pod["metadata"]["name"]
            if pod["spec"].get("nodeName") and name not in self._running:
                number = order[name]
                started = f"2026-01-01T{number // 60:02}:{number % 60:02}:00Z"
                path = f"/api/v1/namespaces/{scenario.namespace}/pods/{name}/status"
                self.apply(Step("patch", path, {"status": {"phase": "Running", "startTime": started}}))
                self._running.add(name)

    def finish_terminating(self, scenario: Scenario) -> bool:
        """Remove what is being deleted, as kubelets do in the end; whether there was anything."""
        gone = [pod for pod in self._pods(scenario) if pod["metadata"].get("deletionTimestamp")]
        for pod in gone:
            self.api.delete(f"/api/v1/namespaces/{scenario.namespace}/pods/{pod['metadata']['name']}")
        return bool(gone)

    def look(self, scenario: Scenario) -> tuple[str, dict[str, PodView]]:
        """The version of the pods, and the pods."""
        pods = self._pods(scenario)
        version = " ".join(pod["metadata"]["resourceVersion"] for pod in pods)
        return version, {pod["metadata"]["name"]: _view(pod) for pod in pods}

    def events(self, scenario: Scenario) -> set[tuple[str, ...]]:
        """What was told to users: whom it is about, kind of event, by whom, and the words, with names for uids.

        Of the failures of a pod only the first counts: how often it is tried again is a matter of moments.
        """
        found = self.api.items(f"/apis/events.k8s.io/v1/namespaces/{scenario.namespace}/events")
        names = {event["regarding"]["uid"]: event["regarding"]["name"] for event in found}
        told: dict[tuple[str, ...], tuple[str, ...]] = {}
        for event in sorted(found, key=lambda event: event["eventTime"]):
            who = event["regarding"]["name"], event["reason"]
            key = who if event["reason"] == "FailedScheduling" else (*who, event["note"])
            note = _UID.sub(lambda match: f"<{names.get(match[0], '?')}>", event["note"])
            told.setdefault(key, (*who, event["type"], event["action"], event["reportingController"], note))
        return set(told.values())

    def end(self, scenario: Scenario) -> None:
        """Remove everything that the next scenario must not find."""
        namespace = f"/api/v1/namespaces/{scenario.namespace}"
        self.api.delete(f"{namespace}/pods")
        self.api.delete(f"/apis/events.k8s.io/v1/namespaces/{scenario.namespace}/events")
        self.api.delete(f"/apis/policy/v1/namespaces/{scenario.namespace}/poddisruptionbudgets")
        for collection in (f"{namespace}/persistentvolumeclaims", *_LEFT):
            for each in self.api.items(collection):
                path = f"{collection}/{each['metadata']['name']}"
                if each["metadata"].get("finalizers"):
                    self.apply(Step("patch", path, {"metadata": {"finalizers": None}}))
                self.api.delete(path)

    def _pods(self, scenario: Scenario) -> list[Object]:
        return self.api.items(f"/api/v1/namespaces/{scenario.namespace}/pods")


def _view(pod: Object) -> PodView:
    status = pod.get("status", {})
    conditions = {each["type"]: each for each in status.get("conditions", ())}
    scheduled, disrupted = conditions.get("PodScheduled", {}), conditions.get("DisruptionTarget", {})
    return PodView(
        node=pod["spec"].get("nodeName", ""),
        scheduled=(scheduled.get("status", ""), scheduled.get("reason", ""), scheduled.get("message", "")),
        nominated=status.get("nominatedNodeName", ""),
        terminating="deletionTimestamp" in pod["metadata"],
        disrupted=(disrupted.get("reason", ""), disrupted.get("message", "")),
    )
