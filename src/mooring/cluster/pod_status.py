"""Pod statuses, as a kubelet writes them."""

from typing import Final

from mooring.apiserver.documents import Document
from mooring.apiserver.pod_defaults import qos_class

_OWN: Final = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")


def running_status(pod: Document, now: str, *, host: str, address: str) -> Document:
    """Return the status of a pod whose containers run."""
    status = pod.get("status") or {}
    fresh: Document = {
        **status,
        "observedGeneration": pod["metadata"].get("generation", 1),
        "phase": "Running",
        "conditions": _conditions(pod, now, ready=_gates_open(pod)),
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": status.get("startTime") or now,
        "qosClass": status.get("qosClass") or qos_class(pod["spec"]),
    }
    if not host:
        del fresh["hostIP"], fresh["hostIPs"]
    if "containerStatuses" not in status:
        fresh["containerStatuses"] = [_running(each, now) for each in pod["spec"]["containers"]]
        started = [
            _running(each, now) if each.get("restartPolicy") == "Always" else _completed(each, now)
            for each in pod["spec"].get("initContainers", ())
        ]
        if started:
            fresh["initContainerStatuses"] = started
    known = {each["name"]: each for each in status.get("ephemeralContainerStatuses", ())}
    if debugging := pod["spec"].get("ephemeralContainers"):
        fresh["ephemeralContainerStatuses"] = [
            known.get(each["name"]) or {**_running(each, now), "ready": False} for each in debugging
        ]
    return fresh


def ended_status(pod: Document, now: str, code: int) -> Document:
    """Return the status of a pod whose containers have terminated."""
    status = pod["status"]
    reason = "" if code else "PodCompleted"
    return {
        **status,
        "phase": "Failed" if code else "Succeeded",
        "conditions": _conditions(pod, now, ready=False, reason=reason or "PodFailed"),
        "containerStatuses": [
            {
                **each,
                "ready": False,
                "started": False,
                "state": {"terminated": _terminated(each, now, code)},
            }
            for each in status.get("containerStatuses", ())
        ],
    }


def restarted_status(pod: Document, now: str, code: int) -> Document:
    """Return the status of a pod whose containers failed and were restarted."""
    status = pod["status"]
    return {
        **status,
        "containerStatuses": [
            {
                **each,
                "restartCount": each.get("restartCount", 0) + 1,
                "lastState": {"terminated": _terminated(each, now, code)},
                "state": {"running": {"startedAt": now}},
            }
            for each in status.get("containerStatuses", ())
        ],
    }


def _gates_open(pod: Document) -> bool:
    """Return whether the conditions of all readiness gates are true."""
    gates = [each["conditionType"] for each in pod["spec"].get("readinessGates", ())]
    conditions = {each["type"]: each["status"] for each in (pod.get("status") or {}).get("conditions", ())}
    return all(conditions.get(each) == "True" for each in gates)


def _conditions(pod: Document, now: str, *, ready: bool, reason: str = "") -> list[Document]:
    before = {each["type"]: each for each in (pod.get("status") or {}).get("conditions", ())}
    fresh: list[Document] = []
    for kind in _OWN:
        # Readiness gates affect `Ready` only; terminated containers affect the others too.
        holds = ready if kind == "Ready" else not reason if kind in {"ContainersReady", _OWN[0]} else True
        each: Document = {
            "type": kind,
            "observedGeneration": pod["metadata"].get("generation", 1),
            "status": "True" if holds else "False",
            "lastProbeTime": None,
            "lastTransitionTime": now,
        }
        if not holds and reason and kind != _OWN[0]:
            each["reason"] = reason
        elif not holds and kind == "Ready":
            each.update(
                reason="ReadinessGatesNotReady", message="corresponding condition of pod readiness gate is not true"
            )
        old = before.get(kind)
        if old is not None and old["status"] == each["status"]:
            each["lastTransitionTime"] = old["lastTransitionTime"]
        fresh.append(each)
    return [*fresh, *(each for kind, each in before.items() if kind not in _OWN)]


def _running(container: Document, now: str) -> Document:
    return {
        "name": container["name"],
        "state": {"running": {"startedAt": now}},
        "lastState": {},
        "ready": True,
        "restartCount": 0,
        "image": container.get("image", ""),
        "imageID": "",
        "containerID": f"mooring://{container['name']}",
        "started": True,
    }


def _completed(container: Document, now: str) -> Document:
    ended = {**_running(container, now), "ready": True, "started": False}
    ended["state"] = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}}
    return ended


def _terminated(status: Document, now: str, code: int) -> Document:
    started = (status.get("state") or {}).get("running", {}).get("startedAt", now)
    return {
        "exitCode": code,
        "reason": "Error" if code else "Completed",
        "startedAt": started,
        "finishedAt": now,
        "containerID": status.get("containerID", ""),
    }
