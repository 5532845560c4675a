"""A plugin for batch sessions: its file, its test and its configuration."""

from __future__ import annotations

import re
from typing import Final

from mooring.cli.plugin.scaffold.pod import snake

_PLUGIN: Final = '''\
"""NAME: say in a line what it is for."""


class NAME:
    """Say here what it does, for those who configure it."""

    name = "KEBAB"

    class Args:
        label: str = "example.com/KEBAB"

    def on_session_open(self, session):
        # A session is one look at the whole cluster: register here what you have a say in.
        session.add_predicate(self.predicate)
        session.add_node_order(self.node_order)

    def on_session_close(self, session): ...

    def predicate(self, task, node):
        # None: the node will do. A text: it will not, and that is the reason people read.
        return "the node does not want the pod" if node.labels.get(self.args.label) == "never" else None

    def node_order(self, task, node):
        # The more, the better.
        return 100 if node.labels.get(self.args.label) == "always" else 0
'''
_TEST: Final = """\
from pathlib import Path

from mooring.loading import load_session_plugin
from mooring.testing import make_node, make_pod, run_session

HERE = Path(__file__).parent
NAME = load_session_plugin("KEBAB", HERE / "SNAKE.py")
LABEL = "example.com/KEBAB"


def cluster(*labels):
    nodes = [make_node(f"node-{label}").capacity(cpu="4", memory="8Gi", pods=10) for label in labels]
    return [node.label({LABEL: label}).obj() for node, label in zip(nodes, labels, strict=True)]


def place(*labels):
    pod = make_pod("p").req(cpu="1").scheduler("volcano").annotation({"scheduling.k8s.io/group-name": "group"}).obj()
    conf = (HERE / "volcano-scheduler.conf").read_text()
    return run_session(conf, pods=[pod], nodes=cluster(*labels), plugins={"KEBAB": NAME}).get("default/p")


def test_nodes_that_ask_for_it_come_first():
    assert place("always", "whatever") == "node-always"
    assert place("whatever", "always") == "node-always"


def test_nodes_that_refuse_are_left_out():
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
    """The files' texts, by name."""
    file = snake(name)

    def named(text: str) -> str:
        text = text.replace("KEBAB", file.replace("_", "-")).replace("SNAKE", file)
        return re.sub(r"\bNAME\b", name, text)

    texts = {f"{file}.py": _PLUGIN, f"test_{file}.py": _TEST, "volcano-scheduler.conf": _CONF}
    return {path: named(text) for path, text in texts.items()}
