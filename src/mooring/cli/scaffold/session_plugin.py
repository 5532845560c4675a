"""Templates of a session plugin: its module, its test and its configuration."""

from __future__ import annotations

import re
from typing import Final

from mooring.cli.scaffold.pod_plugin import snake

_PLUGIN: Final = '''\
"""NAME: one line about its purpose."""

from mooring.batch import Session, SessionNode, SessionPlugin, TaskInfo


class NAMEArgs:
    label: str = "example.com/KEBAB"


class NAME(SessionPlugin[NAMEArgs]):
    """Describe here what the plugin does, for its users."""

    name = "KEBAB"

    def on_session_open(self, session: Session) -> None:
        # A session is one scheduling run over a snapshot of the cluster. Register the callbacks here.
        session.add_predicate(self.predicate)
        session.add_node_order(self.node_order)

    def on_session_close(self, session: Session) -> None: ...

    def predicate(self, task: TaskInfo, node: SessionNode) -> str | None:
        # Return None if the node is feasible, or the reason why it is not.
        return "the node does not accept the pod" if node.labels.get(self.args.label) == "never" else None

    def node_order(self, task: TaskInfo, node: SessionNode) -> float:
        # A higher score is better.
        return 100 if node.labels.get(self.args.label) == "always" else 0
'''
_TEST: Final = """\
from pathlib import Path

from mooring.api import Node
from mooring.loading import load_session_plugin
from mooring.testing import make_node, make_pod, run_session

HERE = Path(__file__).parent
NAME = load_session_plugin("KEBAB", HERE / "SNAKE.py")
LABEL = "example.com/KEBAB"


def cluster(*labels: str) -> list[Node]:
    nodes = [make_node(f"node-{label}").capacity(cpu="4", memory="8Gi", pods=10) for label in labels]
    return [node.label({LABEL: label}).obj() for node, label in zip(nodes, labels, strict=True)]


def place(*labels: str) -> str | None:
    pod = make_pod("p").req(cpu="1").scheduler("volcano").annotation({"scheduling.k8s.io/group-name": "group"}).obj()
    conf = (HERE / "volcano-scheduler.conf").read_text()
    return run_session(conf, pods=[pod], nodes=cluster(*labels), plugins={"KEBAB": NAME}).get("default/p")


def test_labeled_nodes_are_preferred() -> None:
    assert place("always", "other") == "node-always"
    assert place("other", "always") == "node-always"


def test_infeasible_nodes_are_rejected() -> None:
    assert place("never") is None
"""
_CONF: Final = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: KEBAB
    arguments: {label: example.com/KEBAB}
"""


def session_files(name: str) -> dict[str, str]:
    """Return the contents of the files by name."""
    file = snake(name)

    def named(text: str) -> str:
        text = text.replace("KEBAB", file.replace("_", "-")).replace("SNAKE", file)
        return re.sub(r"\bNAME(?=\b|Args\b)", name, text)

    texts = {f"{file}.py": _PLUGIN, f"test_{file}.py": _TEST, "volcano-scheduler.conf": _CONF}
    return {path: named(text) for path, text in texts.items()}
