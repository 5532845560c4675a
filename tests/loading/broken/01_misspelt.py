from mooring.framework import Plugin


class Misspelt(Plugin):
    def filer(self, state, pod, node):
        return None

    def score(self, state, pod, node):
        return 1
