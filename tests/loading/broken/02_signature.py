from mooring.framework import Plugin


class Signature(Plugin):
    def filter(self, pod, node):
        return None

    async def score(self, state, pod, node):
        return 1
