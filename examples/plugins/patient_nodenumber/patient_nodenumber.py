from mooring.framework import CycleState, NodeInfo, PermitWait, Plugin, Pod


class PatientNodeNumber(Plugin):
    """Prefers the node with the pod's digit, and delays binding: a pod on node-3 is bound after three seconds."""

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 10 if pod.name[-1] == node.name[-1] else 0

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> PermitWait | None:
        digit = node_name[-1]
        return PermitWait(10, allow_after=int(digit)) if digit.isdecimal() else None
