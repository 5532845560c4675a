from mooring.framework import Plugin


class Raises(Plugin):
    def filter(self, state, pod, node):
        return self._zone(node)

    def _zone(self, node):
        return node.labels["no-such-label"]
