import numpy as np
from mooring.framework import Plugin


class Nonsense(Plugin):
    def filter(self, state, pod, node):
        return True

    def score_nodes(self, state, pod, nodes):
        return np.full(len(nodes), np.nan)
