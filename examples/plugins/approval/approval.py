from typing import Any

from mooring.framework import ActionType, ClusterEvent, Hint, Plugin, Pod


class ApprovalArgs:
    #: The annotation that approves a pod. Its value says who approved it.
    annotation: str = "example.com/approved"
    #: Only pods in these namespaces need an approval; without namespaces, all pods.
    namespaces: list[str] = []


class Approval(Plugin[ApprovalArgs]):
    """Holds pods back until somebody approves them with an annotation."""

    def pre_enqueue(self, pod: Pod) -> str | None:
        if self.args.namespaces and pod.namespace not in self.args.namespaces:
            return None
        if pod.annotations.get(self.args.annotation):
            return None
        command = f"kubectl annotate pod {pod.name} --namespace {pod.namespace} {self.args.annotation}=NAME"
        return f"the pod waits for approval: {command}"

    def events_to_register(self) -> list[ClusterEvent]:
        # A change of the pod itself is the only event that can approve it.
        return [ClusterEvent("Pod", ActionType.UPDATE, self.is_approved)]

    def is_approved(self, pod: Pod, old: Any, new: Any) -> Hint:
        changed = isinstance(new, Pod) and new.uid == pod.uid
        return Hint.QUEUE if changed and new.annotations.get(self.args.annotation) else Hint.SKIP
