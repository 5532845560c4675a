from mooring.framework import Plugin


class Unfinished(Plugin):
    def filter(self, state, pod, node)
        return None
