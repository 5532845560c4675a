from mooring.framework import Plugin


class Generous(Plugin):
    def score(self, state, pod, node):
        return 1000 if node.name.endswith("1") else 5
