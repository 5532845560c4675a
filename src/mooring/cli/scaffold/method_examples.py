"""Example methods for each extension point, with tests. ``NAME`` is replaced by the plugin's name."""

from __future__ import annotations

from typing import Final, NamedTuple


class Example(NamedTuple):
    """The example for one extension point."""

    #: The name of the point in a configuration.
    point: str
    method: str
    test: str
    #: Lines for the top of the module.
    constants: str = ""
    #: Lines for the method `setup`.
    setup: str = ""


#: Both forms of filter, and both forms of score, have the same test.
_REJECTING: Final = """
def test_infeasible_nodes_are_rejected() -> None:
    result = run_plugin(NAME, make_pod("p").obj(), nodes=NODES, objects=OBJECTS)
    check_run(result, fits=["good", "plain"], rejected={"bad": "the node does not accept the pod"})
"""
_SCORING: Final = """
def test_labeled_nodes_score_best() -> None:
    result = run_plugin(NAME, make_pod("p").obj(), nodes=NODES, objects=OBJECTS)
    check_run(result, scores=SCORES)
"""

#: The examples by method name, in the order in which the methods run.
EXAMPLES: Final[dict[str, Example]] = {
    "pre_enqueue": Example(
        "preEnqueue",
        """
    def pre_enqueue(self, pod: Pod) -> str | None:
        # A string is the reason why the pod is gated; the method is called again when the pod changes.
        return "the pod is on hold" if pod.labels.get(self.args.label) == "hold" else None
""",
        """
def test_pods_on_hold_are_gated() -> None:
    plugin = PluginHarness(NAME).plugin
    assert plugin.pre_enqueue(make_pod("held").label({LABEL: "hold"}).obj()) == "the pod is on hold"
    assert plugin.pre_enqueue(make_pod("free").obj()) is None
""",
    ),
    "queue_sort": Example(
        "queueSort",
        """
    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        # Whether a is popped before b. All profiles of a scheduler must have the same QueueSort plugin.
        return (-a.pod.priority, a.timestamp) < (-b.pod.priority, b.timestamp)
""",
        """
def test_pods_are_ordered_by_priority_then_by_time() -> None:
    plugin: Any = PluginHarness(NAME).plugin
    old, new = (SimpleNamespace(pod=make_pod("p").obj(), timestamp=time) for time in (1.0, 2.0))
    urgent = SimpleNamespace(pod=make_pod("u").priority(10).obj(), timestamp=3.0)
    assert plugin.less(old, new)
    assert plugin.less(urgent, old)
    assert not plugin.less(new, old)
""",
    ),
    "pre_filter": Example(
        "preFilter",
        """
    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> str | None:
        # Called once per attempt, before Filter. Return a string to reject the pod on all nodes.
        state.write(ANSWER, pod.labels.get(self.args.label, ""))
        return None
""",
        """
def test_pre_filter_writes_to_the_cycle_state() -> None:
    result = run_plugin(NAME, make_pod("p").label({LABEL: "hello"}).obj(), nodes=NODES)
    assert result.pre_filter.is_success
    assert result.state.read(MODULE.ANSWER) == "hello"
""",
        constants="#: The result of pre_filter, for other methods of the same attempt.\n"
        'ANSWER: StateKey[str] = StateKey("NAME")\n',
    ),
    "filter": Example(
        "filter",
        """
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> str | None:
        # Return None if the node is feasible, or the reason why it is not.
        VERDICT
""",
        _REJECTING,
    ),
    "filter_nodes": Example(
        "filter",
        """
    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts | None:
        # All nodes in one call: return None if all are feasible, or Verdicts with one entry per node.
        VERDICTS
""",
        _REJECTING,
    ),
    "post_filter": Example(
        "postFilter",
        """
    def post_filter(self, state: CycleState, pod: Pod, statuses: NodeStatuses) -> tuple[PostFilterResult, Status]:
        # No node is feasible. Make room for the pod and nominate a node, or return why that is not possible.
        return PostFilterResult(), Status.unschedulable("preemption is not possible")
""",
        """
def test_no_node_is_nominated() -> None:
    plugin: Any = PluginHarness(NAME).plugin
    result, status = plugin.post_filter(CycleState(), make_pod("p").obj(), None)
    assert result.nominated_node is None
    assert status.reasons == ("preemption is not possible",)
""",
    ),
    "pre_score": Example(
        "preScore",
        """
    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> None:
        # Called once per attempt with the feasible nodes, before they are scored.
        state.write(CANDIDATES, len(nodes))
""",
        """
def test_pre_score_counts_the_feasible_nodes() -> None:
    result = run_plugin(NAME, make_pod("p").obj(), nodes=NODES[:1], objects=OBJECTS)
    assert result.state.read(MODULE.CANDIDATES) == 1
""",
        constants="#: The number of feasible nodes, for the other methods of the same attempt.\n"
        'CANDIDATES: StateKey[int] = StateKey("NAME/candidates")\n',
    ),
    "score": Example(
        "score",
        """
    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        # Return 0 to 100; higher is better. The weight in the configuration multiplies the score.
        SCORE
""",
        _SCORING,
    ),
    "score_nodes": Example(
        "score",
        """
    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> npt.NDArray[np.int64]:
        # All nodes in one call: return an array with a score for each node, 0 to 100.
        SCORES_OF_ALL
""",
        _SCORING,
    ),
    "reserve": Example(
        "reserve",
        """
    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        # The node is chosen: reserve resources that no other pod may use.
        self.reserved[pod.key] = node_name

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        # Undo reserve. This must not fail, and may be called more than once.
        self.reserved.pop(pod.key, None)
""",
        """
def test_unreserve_undoes_reserve() -> None:
    plugin: Any = PluginHarness(NAME).plugin
    state, pod = CycleState(), make_pod("p").obj()
    plugin.reserve(state, pod, "good")
    assert plugin.reserved == {"default/p": "good"}
    plugin.unreserve(state, pod, "good")
    plugin.unreserve(state, pod, "good")
    assert plugin.reserved == {}
""",
        setup="        self.reserved: dict[str, str] = {}\n",
    ),
    "permit": Example(
        "permit",
        """
    def permit(self, state: CycleState, pod: Pod, node_name: str) -> PermitWait | None:
        # Return None to bind the pod, a reason to reject it, or PermitWait to delay it.
        return PermitWait(30, allow_after=1) if pod.labels.get(self.args.label) == "wait" else None
""",
        """
def test_labeled_pods_wait_one_second() -> None:
    plugin = PluginHarness(NAME).plugin
    waiting = make_pod("waiting").label({LABEL: "wait"}).obj()
    assert plugin.permit(CycleState(), waiting, "good") == PermitWait(30, allow_after=1)
    assert plugin.permit(CycleState(), make_pod("p").obj(), "good") is None
""",
    ),
    "pre_bind": Example(
        "preBind",
        """
    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> str | None:
        # Prepare the node before the pod is bound. Return a reason to reject the pod.
        self.prepared = pod.key
        return None
""",
        """
def test_pre_bind_prepares_the_pod() -> None:
    plugin: Any = PluginHarness(NAME).plugin
    assert asyncio.run(plugin.pre_bind(CycleState(), make_pod("p").obj(), "good")) is None
    assert plugin.prepared == "default/p"
""",
    ),
    "bind": Example(
        "bind",
        """
    def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        # Bind the pod (``return self.handle.binder.bind(Binding.of(pod, node_name))``), or skip to the next plugin.
        return Status(Code.SKIP)
""",
        """
def test_binding_is_skipped() -> None:
    plugin: Any = PluginHarness(NAME).plugin
    assert plugin.bind(CycleState(), make_pod("p").obj(), "good").code is Code.SKIP
""",
    ),
    "post_bind": Example(
        "postBind",
        """
    async def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        # The pod is bound: clean up, count, notify.
        self.bound += 1
""",
        """
def test_bound_pods_are_counted() -> None:
    plugin: Any = PluginHarness(NAME).plugin
    asyncio.run(plugin.post_bind(CycleState(), make_pod("p").obj(), "good"))
    assert plugin.bound == 1
""",
        setup="        self.bound = 0\n",
    ),
}
