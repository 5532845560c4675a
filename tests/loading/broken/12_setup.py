from mooring.framework import Plugin


class Setup(Plugin):
    def setup(self):
        self.limit = int("many")

    def permit(self, state, pod, node_name):
        return None
