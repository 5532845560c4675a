from mooring.framework import Plugin


class NodeNumber(Plugin):
    """Prefers the node whose name ends in the same digit as the pod's."""

    class Args:
        reverse: bool = False

    def score(self, state, pod, node):
        match = pod.name[-1] == node.name[-1]
        return 10 if match != self.args.reverse else 0
