from mooring.framework import Plugin


class Arguments(Plugin):
    class Args:
        reverse = False
        factor: int = 3

    def score(self, state, pod, node):
        return self.args.factor
