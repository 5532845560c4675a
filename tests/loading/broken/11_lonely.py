from mooring.framework import Plugin, depends_on


class Lonely(Plugin):
    def normalize_scores(self, state, pod, scores):
        return scores

    @depends_on("template")
    def filter(self, state, pod, node):
        return None
