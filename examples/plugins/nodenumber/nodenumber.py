from mooring.framework import PermitWait, Plugin


class NodeNumber(Plugin):
    """Prefers the node whose name ends in the same digit as the pod's."""

    class Args:
        reverse: bool = False

    def score(self, state, pod, node):
        match = pod.name[-1] == node.name[-1]
        return 10 if match != self.args.reverse else 0


class PatientNodeNumber(NodeNumber):
    """Also delays binding: a pod that is placed on node-3 is bound after three seconds."""

    def permit(self, state, pod, node_name):
        digit = node_name[-1]
        return PermitWait(10, allow_after=int(digit)) if digit.isdecimal() else None
