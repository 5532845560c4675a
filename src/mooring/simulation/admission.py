"""Admission of the pods in manifests: defaults and admission plugins, as in the API server.

Pods that come from a cluster were admitted there. Only missing fields are added to them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from mooring.api.codec import to_dict
from mooring.api.pod import Pod
from mooring.api.policy import PriorityClass
from mooring.api.yaml_nodes import Step
from mooring.apiserver import admission
from mooring.apiserver.admission import SYSTEM_PRIORITY_CLASSES, add_tolerations, assign_priority, merge_label_keys
from mooring.apiserver.pod_defaults import set_pod_defaults
from mooring.simulation.sources import InputError

_REMEDIES: Final = {
    "priorityClassName": "add the PriorityClass to the manifests, or use one of {classes}",
    "priority": "name a PriorityClass in spec.priorityClassName and leave spec.priority out",
    "preemptionPolicy": "name a PriorityClass that has this policy and leave spec.preemptionPolicy out",
}


class AdmissionError(InputError):
    """A rejection of a pod by admission: the field, the problem and the remedy."""

    def __init__(self, steps: tuple[Step, ...], problem: str, remedy: str = "") -> None:
        super().__init__(problem)
        self.steps = steps
        self.problem = problem
        self.remedy = remedy


class Admission:
    """Admission of pods to a cluster with some priority classes."""

    def __init__(self, classes: Iterable[PriorityClass] = ()) -> None:
        system = ({"metadata": {"name": name}, "value": value} for name, value in SYSTEM_PRIORITY_CLASSES.items())
        found = {each["metadata"]["name"]: each for each in (*system, *map(to_dict, classes))}
        self._classes: dict[str, dict[str, Any]] = found

    def admit(self, pod: Pod) -> Pod:
        """Return the pod as the API server would store it. Raises AdmissionError."""
        document = to_dict(pod)
        self.complete(document)
        return msgspec.convert(document, Pod)

    def complete(self, pod: dict[str, Any]) -> None:
        """Set defaults and run admission on the document of a pod, in place. Raises AdmissionError."""
        metadata, spec = pod.setdefault("metadata", {}), pod.setdefault("spec", {})
        if not spec.get("containers"):
            raise AdmissionError(("spec", "containers"), "is required", "give the pod at least one container")
        metadata.setdefault("namespace", "default")
        set_pod_defaults(pod)
        name = spec.get("priorityClassName")
        if metadata.get("uid"):
            self._complete_priority(spec)
        else:
            merge_label_keys(pod)
            if name and name not in self._classes and "priority" in spec:
                self._complete_priority(spec)  # copied from a cluster, without the class
            else:
                self._assign_priority(spec)
        add_tolerations(spec)

    def _complete_priority(self, spec: dict[str, Any]) -> None:
        """Keep the pod's priority: its class may have had another value when the pod was created."""
        given: dict[str, Any] = {key: spec.pop(key) for key in ("priority", "preemptionPolicy") if key in spec}
        if spec.get("priorityClassName") and spec["priorityClassName"] not in self._classes and "priority" in given:
            given.setdefault("preemptionPolicy", "PreemptLowerPriority")
        else:
            self._assign_priority(spec)
        spec.update(given)

    def _assign_priority(self, spec: dict[str, Any]) -> None:
        try:
            assign_priority(spec, self._classes.values())
        except admission.AdmissionError as error:
            steps = tuple(error.field.split("."))
            remedy = _REMEDIES[steps[-1]].format(classes=", ".join(sorted(self._classes)))
            raise AdmissionError(steps, str(error), remedy) from None
