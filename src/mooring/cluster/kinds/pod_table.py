"""The table row of a pod."""

from typing import Any

from mooring.apiserver.documents import Document, condition
from mooring.cluster.table_printer import NONE, age, since


def pod_row(document: Document, now: float) -> list[Any]:
    """Return the cells of a pod."""
    spec, status = document["spec"], document.get("status", {})
    state = _State(document)
    restarts = str(state.restarts)
    if state.restarts and state.last_restart:
        restarts = f"{state.restarts} ({since(state.last_restart, now)} ago)"
    addresses = status.get("podIPs") or [{}]
    return [
        document["metadata"]["name"],
        f"{state.ready}/{state.total}",
        state.reason,
        restarts,
        age(document, now),
        addresses[0].get("ip") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _readiness_gates(document),
    ]


def _readiness_gates(document: Document) -> str:
    gates = document["spec"].get("readinessGates")
    if not gates:
        return NONE
    conditions = {each["type"]: each["status"] for each in document.get("status", {}).get("conditions", ())}
    return f"{sum(conditions.get(each['conditionType']) == 'True' for each in gates)}/{len(gates)}"


class _State:
    """The state of a pod in the status column of `kubectl get pods`."""

    def __init__(self, document: Document) -> None:
        spec, status = document["spec"], document.get("status", {})
        self.phase = status.get("phase", "")
        self.reason = status.get("reason") or self.phase
        scheduled = condition(document, "PodScheduled")
        if scheduled and scheduled.get("reason") == "SchedulingGated":
            self.reason = "SchedulingGated"
        self.ready = self.restarts = 0
        self.last_restart = ""
        self.sidecars = {
            each["name"] for each in spec.get("initContainers", ()) if each.get("restartPolicy") == "Always"
        }
        self.total = len(spec.get("containers", ())) + len(self.sidecars)
        initializing = self._init_containers(spec, status)
        initialized = condition(document, "Initialized")
        if not initializing or (initialized and initialized["status"] == "True"):
            self._containers(document, status)
        if document["metadata"].get("deletionTimestamp"):
            if status.get("reason") == "NodeLost":
                self.reason = "Unknown"
            elif self.phase not in {"Succeeded", "Failed"}:
                self.reason = "Terminating"

    def _init_containers(self, spec: Document, status: Document) -> bool:
        """Evaluate the init containers, and return whether they are still running."""
        for index, each in enumerate(status.get("initContainerStatuses", ())):
            self._count(each)
            state = each.get("state", {})
            terminated = state.get("terminated")
            if terminated is not None and not terminated.get("exitCode"):
                continue
            if each["name"] in self.sidecars and each.get("started"):
                self.ready += bool(each.get("ready"))
                continue
            waiting = state.get("waiting", {}).get("reason")
            if terminated is not None:
                self.reason = "Init:" + _ended(terminated)
            elif waiting and waiting != "PodInitializing":
                self.reason = f"Init:{waiting}"
            else:
                self.reason = f"Init:{index}/{len(spec.get('initContainers', ()))}"
            return True
        return False

    def _containers(self, document: Document, status: Document) -> None:
        self.restarts, self.last_restart = 0, ""
        for each in status.get("initContainerStatuses", ()):
            if each["name"] in self.sidecars:
                self._count(each)
        running, error = False, ""
        for each in reversed(status.get("containerStatuses", ())):
            self._count(each)
            state = each.get("state", {})
            terminated = state.get("terminated")
            if state.get("waiting", {}).get("reason"):
                self.reason = state["waiting"]["reason"]
            elif terminated is not None:
                self.reason = _ended(terminated)
                error = self.reason if terminated.get("exitCode") else error
            elif each.get("ready") and "running" in state:
                running = True
                self.ready += 1
        if self.reason == "Completed":
            ready = condition(document, "Ready")
            if running and ready and ready["status"] == "True":
                self.reason = "Running"
            elif error:
                self.reason = error
            elif running:
                self.reason = "NotReady"

    def _count(self, status: Document) -> None:
        self.restarts += status.get("restartCount", 0)
        finished = status.get("lastState", {}).get("terminated", {}).get("finishedAt", "")
        self.last_restart = max(self.last_restart, finished)


def _ended(terminated: Document) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"
