from mooring.framework import CycleState, NodeInfo, Plugin, Pod


class NodeNumberArgs:
    reverse: bool = False


class NodeNumber(Plugin[NodeNumberArgs]):
    """Prefers the node whose name ends in the same digit as the pod's."""

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        match = pod.name[-1] == node.name[-1]
        return 10 if match != self.args.reverse else 0
