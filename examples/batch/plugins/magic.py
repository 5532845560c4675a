"""magic: a session plugin that prefers one node."""


class Magic:
    class Args:
        node: str
        weight: float = 100.0

    def on_session_open(self, session):
        session.add_node_order(self.score)

    def score(self, task, node):
        return 10 * self.args.weight if node.name == self.args.node else 0.0

    def on_session_close(self, session):
        pass
