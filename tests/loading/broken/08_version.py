from mooring.framework import Plugin


class FromTheFuture(Plugin):
    requires = "mooring>=99,<100"

    def score(self, state, pod, node):
        return 1
