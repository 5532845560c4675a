"""Harnesses that run a profile plugin or a batch session on a small cluster, and checks of the results.

>>> result = run_plugin(NodeName, make_pod("p").node("a").obj(), nodes=[make_node("a").obj(), make_node("b").obj()])
>>> result.rejected
{'b': ("node(s) didn't match the requested node name",)}
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.codec import to_dict
from mooring.api.core import Namespace
from mooring.api.meta import KubeObject, ObjectMeta
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.volcano import PodGroup, PodGroupSpec, Queue, QueueSpec
from mooring.batch.evaluate import evaluate
from mooring.batch.plugins import PLUGINS
from mooring.columns.node_info import NodeInfo, PodInfo, WhatIfNode
from mooring.columns.nodes import Nodes, WhatIfNodes
from mooring.columns.table import NodeTable
from mooring.framework.handle import Handle
from mooring.framework.plugin import Plugin
from mooring.framework.score_range import are_fractions, scaled_score, scaled_scores
from mooring.framework.state import CycleState
from mooring.framework.status import SUCCESS, Code, Status
from mooring.framework.verdicts import Verdicts
from mooring.framework.what_if import Victims
from mooring.releases import NEWEST, Release
from mooring.scheduler.answers import as_score, as_status, check_columns, checked_scores, pre_filter_answer

#: The form of filter and score to run: in columns, node by node, or any (columns first).
Form = Literal["any", "columns", "per_node"]


class PluginRun(msgspec.Struct, frozen=True):
    """The results of a plugin for a pod; results for nodes are by node name."""

    #: The status of PreFilter.
    pre_filter: Status
    #: The nodes that PreFilter returned; None if it did not restrict the nodes.
    pre_filter_nodes: frozenset[str] | None
    #: Success where the plugin has no Filter or skipped it; empty if PreFilter rejected the pod.
    filter: dict[str, Status]
    #: The status of PreScore.
    pre_score: Status
    #: Scores of the feasible nodes before NormalizeScore; empty if the plugin has no Score or PreScore skipped it.
    raw_scores: dict[str, int]
    #: Scores after NormalizeScore.
    scores: dict[str, int]
    #: The cycle state at the end.
    state: CycleState

    @property
    def feasible(self) -> list[str]:
        """The feasible nodes."""
        return [name for name, status in self.filter.items() if status.is_success]

    @property
    def rejected(self) -> dict[str, tuple[str, ...]]:
        """The reasons of the rejected nodes."""
        return {name: status.reasons for name, status in self.filter.items() if not status.is_success}


class PluginHarness:
    """A plugin with a small cluster of nodes, pods and objects."""

    def __init__(
        self,
        plugin: type[Plugin],
        *,
        args: Any = None,
        nodes: Iterable[Node] = (),
        pods: Iterable[Pod] = (),
        objects: Iterable[KubeObject] = (),
        clock: Callable[[], float] = lambda: 1_800_000_000.0,
        seed: int = 0,
        release: Release = NEWEST,
    ) -> None:
        #: The nodes and the pods on them.
        self.table = NodeTable(release)
        #: The plugin's handle.
        self.handle = Handle(table=self.table, clock=clock, rng=random.Random(seed))
        self.add(*objects, *nodes, *pods)
        #: The plugin, to call its methods directly.
        self.plugin: Any = plugin(args, self.handle)

    def add(self, *items: KubeObject) -> None:
        """Add objects to the cluster: nodes, pods (bound or nominated) and other kinds."""
        for item in items:
            if isinstance(item, Node):
                self.table.add_node(item)
            elif isinstance(item, Pod):
                self._add_pod(item)
            else:
                if isinstance(item, Namespace):
                    self.table.set_namespace(item.name, item.labels)
                self.handle.objects.put(item)

    def _add_pod(self, pod: Pod) -> None:
        self.handle.objects.put(pod)
        if pod.node_name:
            self.table.add_pod(pod)
        elif pod.status.nominated_node_name:
            info = PodInfo(pod, self.handle.template(pod))
            self.handle.nominator.add(info, pod.status.nominated_node_name)

    def info(self, node: str) -> NodeInfo:
        """Return a node by name."""
        return self.table.nodes[self.table.row_of[node]]

    def nodes(self, names: Iterable[str] | None = None) -> Nodes:
        """Return all nodes, or the named nodes in the given order."""
        if names is None:
            return Nodes(self.table)
        return Nodes(self.table, np.array([self.table.row_of[name] for name in names], dtype=np.intp))

    # A whole cycle

    def run(self, pod: Pod, *, form: Form = "any", names: Iterable[str] | None = None) -> PluginRun:
        """Run PreFilter, Filter, PreScore, Score and NormalizeScore for a pod, on all nodes or on the named ones."""
        state = CycleState()
        nodes = self.nodes(names)
        pre_filter, narrowed = self.pre_filter(state, pod)
        verdicts: dict[str, Status] = {}
        if pre_filter.is_success or pre_filter.code is Code.SKIP:
            skip = pre_filter.code is Code.SKIP
            verdicts = dict.fromkeys(nodes.names, SUCCESS) if skip else self.filter(state, pod, nodes, form=form)
        feasible = [name for name, status in verdicts.items() if status.is_success]
        pre_score, raw, scores = (
            self.score(state, pod, self.nodes(feasible), form=form) if feasible else (SUCCESS, {}, {})
        )
        return PluginRun(pre_filter, narrowed, verdicts, pre_score, raw, scores, state)

    def pre_filter(self, state: CycleState, pod: Pod) -> tuple[Status, frozenset[str] | None]:
        """Run PreFilter; return its status, and the nodes to which it restricts the pod (None: no restriction)."""
        if not hasattr(self.plugin, "pre_filter"):
            return SUCCESS, None
        answer = self.plugin.pre_filter(state, pod, Nodes(self.table))
        status, narrowed = pre_filter_answer(answer)
        if status.code is Code.SKIP:
            state.skip_filter.add(self.plugin.name)
        return status, narrowed.node_names if narrowed is not None else None

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes, *, form: Form = "any") -> dict[str, Status]:
        """Run Filter; return a status by node name."""
        if form != "per_node" and hasattr(self.plugin, "filter_nodes"):
            found = statuses(self.plugin.filter_nodes(state, pod, nodes), len(nodes))
        elif hasattr(self.plugin, "filter"):
            found = [as_status(self.plugin.filter(state, pod, node)) for node in nodes]
        else:
            found = [SUCCESS] * len(nodes)
        return dict(zip(nodes.names, found, strict=True))

    def score(
        self, state: CycleState, pod: Pod, nodes: Nodes, *, form: Form = "any"
    ) -> tuple[Status, dict[str, int], dict[str, int]]:
        """Run PreScore and Score; return a status, and scores by node name before and after NormalizeScore."""
        plugin = self.plugin
        status = as_status(plugin.pre_score(state, pod, nodes) if hasattr(plugin, "pre_score") else None)
        if not status.is_success:
            return status, {}, {}
        if form != "per_node" and hasattr(plugin, "score_nodes"):
            call = plugin.score_nodes
            answer = (call if plugin.score_range is None else scaled_scores(call, plugin.score_range))(
                state, pod, nodes
            )
            raw = spread_out(answer, len(nodes))
        elif hasattr(plugin, "score"):
            call = plugin.score if plugin.score_range is None else scaled_score(plugin.score, plugin.score_range)
            answer = [call(state, pod, node) for node in nodes]
            raw = np.array([as_score(score) for score in answer], dtype=np.int64)
        else:
            return status, {}, {}
        if are_fractions(answer):
            text = f"{plugin.name}: all scores are between 0 and 1, and only their whole part counts; "
            warnings.warn(f"{text}declare score_range = (0.0, 1.0) in the class", stacklevel=2)
        final = raw
        if hasattr(plugin, "normalize_scores"):
            final = spread_out(plugin.normalize_scores(state, pod, raw.copy()), len(nodes))
        names = nodes.names
        return status, dict(zip(names, raw.tolist(), strict=True)), dict(zip(names, final.tolist(), strict=True))

    # Hypothetical pods

    def filter_what_if(
        self,
        state: CycleState,
        pod: Pod,
        node: str,
        *,
        without: Iterable[str] = (),
        back: Iterable[str] = (),
        with_pods: Iterable[Pod] = (),
    ) -> Status:
        """Run Filter for one node as if some pods (by uid) were removed and others added back, on a clone.

        Pods in ``back`` are added back after all of ``without`` are removed, as preemption does when it reprieves pods.
        """
        trial = state.clone()
        changed = WhatIfNode(self.info(node))
        for uid in without:
            info = self.table.pods[uid]
            changed.remove_pod(info)
            if hasattr(self.plugin, "remove_pod"):
                self.plugin.remove_pod(trial, pod, info, changed)
        added = [self.table.pods[uid] for uid in back]
        added += [PodInfo(extra, self.handle.template(extra)) for extra in with_pods]
        for info in added:
            changed.add_pod(info)
            if hasattr(self.plugin, "add_pod"):
                self.plugin.add_pod(trial, pod, info, changed)
        if hasattr(self.plugin, "filter_nodes"):
            return statuses(self.plugin.filter_nodes(trial, pod, WhatIfNodes(changed)), 1)[0]
        return as_status(self.plugin.filter(trial, pod, changed))


def run_plugin(
    plugin: type[Plugin],
    pod: Pod,
    *,
    nodes: Iterable[Node] = (),
    pods: Iterable[Pod] = (),
    objects: Iterable[KubeObject] = (),
    args: Any = None,
    form: Form = "any",
) -> PluginRun:
    """Run a plugin once on a new harness."""
    return PluginHarness(plugin, args=args, nodes=nodes, pods=pods, objects=objects).run(pod, form=form)


def statuses(verdicts: Verdicts | None, count: int) -> list[Status]:
    """Return a status for each node from the result of ``filter_nodes``."""
    if verdicts is None:
        return [SUCCESS] * count
    check_columns(verdicts, count)
    return [verdicts.status(code) if code else SUCCESS for code in verdicts.codes.tolist()]


def spread_out(answer: object, count: int) -> npt.NDArray[np.int64]:
    """Return a score for each node from the result of ``score_nodes``."""
    scores = checked_scores(answer, count)
    return np.full(count, scores, dtype=np.int64) if isinstance(scores, int) else scores


_MISSING = "-"


def check_run(
    run: PluginRun,
    *,
    fits: Iterable[str] | None = None,
    rejected: Mapping[str, str | Sequence[str]] | None = None,
    scores: Mapping[str, int] | None = None,
) -> None:
    """Raise AssertionError, with a table of the differences, unless the results are as expected.

    ``fits`` are the feasible nodes, ``rejected`` the other nodes with their reason or reasons, ``scores`` the scores of
    the feasible nodes. An argument that is not given is not compared.
    """
    tables = []
    if fits is not None or rejected is not None:
        wanted = dict.fromkeys(fits or (), "fits")
        wanted |= {name: _reasons(reason) for name, reason in (rejected or {}).items()}
        actual = {name: verdict_text(status) for name, status in run.filter.items()}
        if fits is None:
            actual = {name: text for name, text in actual.items() if text != "fits" or name in wanted}
        elif rejected is None:
            actual = {name: text for name, text in actual.items() if text == "fits" or name in wanted}
        if not run.pre_filter.is_success and not run.filter:
            actual = dict.fromkeys(wanted, f"PreFilter: {verdict_text(run.pre_filter)}")
        tables += compare("verdicts", wanted, actual)
    if scores is not None:
        texts = ({name: str(score) for name, score in each.items()} for each in (scores, run.scores))
        tables += compare("scores", *texts)
    if tables:
        raise AssertionError("\n".join(tables))


def verdict_text(status: Status) -> str:
    """Return a verdict as one line: fits, or the reasons, with the code unless it is Unschedulable."""
    if status.is_success:
        return "fits"
    reasons = ", ".join(status.reasons)
    return reasons if status.code.title == "Unschedulable" else f"{status.code.title}: {reasons}"


def compare(title: str, wanted: Mapping[str, str], actual: Mapping[str, str]) -> list[str]:
    """Return the lines of a table of the nodes where two mappings differ; empty if they are equal."""
    names = [name for name in dict.fromkeys((*wanted, *actual)) if wanted.get(name) != actual.get(name)]
    if not names:
        return []
    rows = [("node", "expected", "got")]
    rows += [(name, wanted.get(name, _MISSING), actual.get(name, _MISSING)) for name in names]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    same = len({*wanted, *actual}) - len(names)
    lines = [f"{title} differ on {len(names)} of {len(names) + same} nodes:"]
    lines += [f"  {name:<{widths[0]}}  {want:<{widths[1]}}  {got}" for name, want, got in rows]
    return lines


def _reasons(reason: str | Sequence[str]) -> str:
    return reason if isinstance(reason, str) else ", ".join(reason)


def make_victims(harness: PluginHarness, victims: Mapping[str, Sequence[str]]) -> Victims:
    """Return the victims (uids by node name) as preemption passes them to ``what_if``."""
    width = max((len(uids) for uids in victims.values()), default=0)
    index = np.full((len(victims), width), -1, dtype=np.int64)
    for candidate, uids in enumerate(victims.values()):
        for place, uid in enumerate(uids):
            index[candidate, place] = harness.table.pods[uid].index
    return Victims(harness.nodes(victims), index)


def check_what_if(
    harness: PluginHarness, pod: Pod, victims: Mapping[str, Sequence[str]], *, trials: int = 6, seed: int = 0
) -> None:
    """Compare ``what_if`` with filtering node by node, as kube-scheduler does, for random sets of removed victims.

    For each set, all victims are removed on a clone of the state, those that stay are added back, and Filter runs.
    """
    state = CycleState()
    verdict, _ = harness.pre_filter(state, pod)
    if verdict.code is Code.SKIP or not verdict.is_success:
        return
    given = make_victims(harness, victims)
    model = harness.plugin.what_if(state, pod, given)
    rng = np.random.default_rng(random.Random(seed).randrange(2**32))
    shape = given.index.shape
    gone_sets = [np.zeros(shape, dtype=np.bool_), np.ones(shape, dtype=np.bool_)]
    gone_sets += [rng.random(shape) < 0.5 for _ in range(trials)]
    for gone in gone_sets:
        removed = gone & given.present
        values = model.values - (model.effects * removed).sum(axis=2)
        answered = statuses(model.verdicts(values), len(victims))
        expected = _one_by_one(harness, state, pod, victims, removed)
        if answered != expected:
            raise AssertionError(f"what_if says {answered}, one by one it is {expected}; gone: {removed.tolist()}")


def _one_by_one(
    harness: PluginHarness,
    state: CycleState,
    pod: Pod,
    victims: Mapping[str, Sequence[str]],
    removed: npt.NDArray[np.bool_],
) -> list[Status]:
    return [
        harness.filter_what_if(
            state,
            pod,
            node,
            without=uids,
            back=[uid for place, uid in enumerate(uids) if not removed[candidate, place]],
        )
        for candidate, (node, uids) in enumerate(victims.items())
    ]


_GROUP = "scheduling.k8s.io/group-name"


def run_session(
    conf: str,
    *,
    pods: Iterable[Pod],
    nodes: Iterable[Node],
    objects: Iterable[KubeObject] = (),
    plugins: Mapping[str, type[Any]] | None = None,
) -> dict[str, str]:
    """Run a batch session and return the nodes of the bound pods by ``namespace/name``.

    ``plugins`` are user plugins by name. A queue ``default``, and a PodGroup with minMember 1 for each group that a pod
    names (annotation ``scheduling.k8s.io/group-name``), are added unless they are among the objects.
    """
    pods, given = list(map(_with_phase, pods)), list(objects)
    there = {(type(each), each.namespace, each.name) for each in given}
    made: list[KubeObject] = []
    if (Queue, "", "default") not in there:
        made.append(Queue(metadata=ObjectMeta(name="default"), spec=QueueSpec(weight=1)))
    for namespace, name in dict.fromkeys((pod.namespace, pod.annotations.get(_GROUP, "")) for pod in pods):
        if name and (PodGroup, namespace, name) not in there:
            metadata = ObjectMeta(name=name, namespace=namespace)
            made.append(PodGroup(metadata=metadata, spec=PodGroupSpec(min_member=1, queue="default")))
    raw = [_document(each) for each in (*nodes, *given, *made, *pods)]
    answer = evaluate({"conf": conf, "objects": raw}, plugins={**PLUGINS, **(plugins or {})})
    bound: dict[str, str] = answer["bound"]
    return bound


def _with_phase(pod: Pod) -> Pod:
    """Set the phase, as the API server does; sessions need it."""
    if pod.status.phase:
        return pod
    status = msgspec.structs.replace(pod.status, phase="Running" if pod.node_name else "Pending")
    return msgspec.structs.replace(pod, status=status)


def _document(item: KubeObject) -> dict[str, Any]:
    written = to_dict(item)
    if "kind" not in written:
        kind = type(item).__name__
        version = "scheduling.volcano.sh/v1beta1" if kind in ("Queue", "PodGroup") else "v1"
        written = {"apiVersion": version, "kind": kind, **written}
    return written
