"""magic: a plugin for batch sessions. It draws pods to nodes that carry the label `magic`."""


class Magic:
    def on_session_open(self, session):
        session.add_node_order(lambda task, node: 1000.0 if "magic" in node.labels else 0.0)

    def on_session_close(self, session):
        pass
