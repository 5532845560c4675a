"""Registers callbacks under wrong names."""


class Fair:
    def on_session_open(self, ssn):
        ssn.add_queue_oder(lambda left, right: 0)
        ssn.AddJobOrderFn(lambda left, right: 0)
        if ssn.jobs:
            ssn.add_everything(self.score)
        self.register(ssn)

    def register(self, session):
        session.ad_node_order(self.score)
        session.job_ready(None)

    def score(self, task, node):
        return 0.0
