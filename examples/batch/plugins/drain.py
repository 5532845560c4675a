"""drain: a session action that evicts preemptable pods from nodes with the label `drain`."""

from mooring.batch import Session


class Drain:
    def execute(self, session: Session) -> None:
        statement = session.statement()
        for node in session.node_list:
            if "drain" in node.labels:
                for task in list(node.tasks.values()):
                    if task.status == "Running" and task.preemptable:
                        statement.evict(task, "drain")
        statement.commit()
