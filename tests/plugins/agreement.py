"""Property tests of simple plugins: a random cluster that changes, and a plain reference asked node by node."""

from __future__ import annotations

import random
from contextlib import AbstractContextManager, ExitStack
from typing import Any
from unittest.mock import patch

from hypothesis import strategies as st

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.framework import Plugin
from mooring.framework.status import SUCCESS, Code
from mooring.plugins.node_resources import columns as resource_columns
from mooring.testing import PluginHarness, check_what_if
from mooring.testing.harness import Form
from tests.plugins.reference.cluster import Cluster

FORMS: tuple[Form, ...] = ("columns", "per_node")


def squeezed() -> AbstractContextManager[object]:
    """Make what is done for many nodes be done for few, so that small clusters get there."""
    stack = ExitStack()
    stack.enter_context(patch.object(resource_columns, "_FEW_ROWS", 0))
    stack.enter_context(patch.multiple(resource_columns, _FEW_TO_SCORE=0, _SPARSE=1))
    return stack


class Agreement:
    """One cluster, kept as plain objects and in a plugin's table."""

    def __init__(self, plugin: type[Plugin], reference: Any, args: Any = None) -> None:
        self.harness = PluginHarness(plugin, args=args)
        self.cluster = Cluster()
        self.reference = reference
        self.args = args

    def put(self, *items: Node | Pod) -> None:
        for item in items:
            self.harness.add(item)
            if isinstance(item, Node):
                self.cluster.nodes[item.name] = item
            else:
                self.cluster.pods[item.uid] = item

    def remove(self, item: Node | Pod) -> None:
        if isinstance(item, Node):
            self.harness.table.remove_node(item.name)
            del self.cluster.nodes[item.name]
        else:
            self.harness.table.remove_pod(item.uid)
            del self.cluster.pods[item.uid]

    # What is compared

    def check(self, pod: Pod, *, seed: int = 0) -> None:
        """Both forms, on all nodes and on some, say what the reference says of each node."""
        for form in FORMS:
            self._check(pod, form, None)
            self._check(pod, form, self._some(random.Random(seed)))

    def glance(self, pod: Pod, rng: random.Random) -> None:
        """The same in one of the forms: often enough while a cluster changes."""
        self._check(pod, rng.choice(FORMS), rng.choice((None, self._some(rng))))

    def _some(self, rng: random.Random) -> list[str]:
        names = list(self.cluster.nodes)
        return rng.sample(names, rng.randint(0, len(names)))

    def _check(self, pod: Pod, form: Form, names: list[str] | None) -> None:
        harness, cluster, reference = self.harness, self.cluster, self.reference
        chosen = [cluster.nodes[name] for name in (harness.nodes().names if names is None else names)]
        result = harness.run(pod, form=form, names=names)
        if hasattr(reference, "filter"):
            expected = {node.name: reference.filter(cluster, pod, node, self.args) or SUCCESS for node in chosen}
            if result.pre_filter.is_rejected:  # nobody is asked any more: no node would have done
                assert not any(status.is_success for status in expected.values())
                return
            assert result.filter == expected
        feasible = [cluster.nodes[name] for name in result.feasible]
        if not hasattr(reference, "score") or not feasible:
            return
        if result.pre_score.code is Code.SKIP:
            assert not reference.scores(pod, self.args)
            return
        scores = [reference.score(cluster, pod, node, self.args) for node in feasible]
        assert list(result.raw_scores.values()) == scores
        normalize = getattr(reference, "normalize", lambda given: given)
        assert list(result.scores.values()) == normalize(scores)

    def check_what_if(self, pod: Pod, *, seed: int = 0) -> None:
        """Removing pods in thought is the same in bulk and one by one."""
        rng = random.Random(seed)
        victims = {
            node.name: [victim.uid for victim in self.cluster.on(node) if rng.random() < 0.7]
            for node in self.cluster.nodes.values()
            if rng.random() < 0.8
        }
        check_what_if(self.harness, pod, victims, seed=seed)


def events(
    nodes: st.SearchStrategy[Node], pods: st.SearchStrategy[Pod], *, most: int = 12
) -> st.SearchStrategy[list[tuple[str, Any]]]:
    """What happens to a cluster: nodes and pods come, change and go."""
    return st.lists(
        st.one_of(
            st.tuples(st.just("put"), nodes),
            st.tuples(st.just("put"), pods),
            st.tuples(st.just("remove"), st.integers(0, 99)),
        ),
        max_size=most,
    )


def play(agreement: Agreement, what: list[tuple[str, Any]], pod: Pod, seed: int) -> None:
    """Let it happen, glance at it after every step, and look closely in the end."""
    rng = random.Random(seed)
    for action, item in what:
        if action == "put":
            agreement.put(item)
        else:
            everything = [*agreement.cluster.nodes.values(), *agreement.cluster.pods.values()]
            if everything:
                agreement.remove(everything[item % len(everything)])
        agreement.glance(pod, rng)
    agreement.check(pod, seed=seed)
