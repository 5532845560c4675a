"""magic: a session plugin that prefers one node."""

from mooring.batch import Session, SessionNode, SessionPlugin, TaskInfo


class MagicArgs:
    node: str
    weight: float = 100.0


class Magic(SessionPlugin[MagicArgs]):
    def on_session_open(self, session: Session) -> None:
        session.add_node_order(self.score)

    def score(self, task: TaskInfo, node: SessionNode) -> float:
        return 10 * self.args.weight if node.name == self.args.node else 0.0
