"""drain: an action for batch sessions; it empties nodes with the label `drain`, as far as their pods may be evicted."""


class Drain:
    def execute(self, session):
        statement = session.statement()
        for node in session.node_list:
            if "drain" in node.labels:
                for task in list(node.tasks.values()):
                    if task.status == "Running" and task.preemptable:
                        statement.evict(task, "drain")
        statement.commit()
