"""Examples of the method of each extension point with a test. ``NAME`` stands for the plugin's name."""

from __future__ import annotations

from typing import Final, NamedTuple


class Example(NamedTuple):
    """The example for one extension point."""

    #: The name of the point in a configuration.
    point: str
    method: str
    test: str
    #: Names to import from mooring.framework in addition to Plugin, and lines for the top of the module.
    imports: tuple[str, ...] = ()
    constants: str = ""
    test_imports: tuple[str, ...] = ()
    #: Lines for the method `setup`.
    setup: str = ""


#: Both forms of filter, and both forms of score, have the same test.
_REJECTING: Final = """
def test_infeasible_nodes_are_rejected():
    result = run_plugin(NAME, make_pod("p").obj(), nodes=NODES, objects=OBJECTS)
    check_run(result, fits=["good", "plain"], rejected={"bad": "the node does not accept the pod"})
"""
_SCORING: Final = """
def test_labeled_nodes_score_best():
    result = run_plugin(NAME, make_pod("p").obj(), nodes=NODES, objects=OBJECTS)
    check_run(result, scores=SCORES)
"""

#: In the order in which they run, by method name.
EXAMPLES: Final[dict[str, Example]] = {
    "pre_enqueue": Example(
        "preEnqueue",
        """
    def pre_enqueue(self, pod):
        # A string is the reason why the pod is gated; the method is called again when the pod changes.
        return "the pod is on hold" if pod.labels.get(self.args.label) == "hold" else None
""",
        """
def test_pods_on_hold_are_gated():
    plugin = PluginHarness(NAME).plugin
    assert plugin.pre_enqueue(make_pod("held").label({LABEL: "hold"}).obj()) == "the pod is on hold"
    assert plugin.pre_enqueue(make_pod("free").obj()) is None
""",
        test_imports=("PluginHarness", "make_pod"),
    ),
    "queue_sort": Example(
        "queueSort",
        """
    def less(self, a, b):
        # Whether a is popped before b. All profiles of a scheduler must have the same QueueSort plugin.
        return (-a.pod.priority, a.timestamp) < (-b.pod.priority, b.timestamp)
""",
        """
def test_pods_are_ordered_by_priority_then_by_time():
    plugin = PluginHarness(NAME).plugin
    old, new = (SimpleNamespace(pod=make_pod("p").obj(), timestamp=time) for time in (1.0, 2.0))
    urgent = SimpleNamespace(pod=make_pod("u").priority(10).obj(), timestamp=3.0)
    assert plugin.less(old, new)
    assert plugin.less(urgent, old)
    assert not plugin.less(new, old)
""",
        test_imports=("PluginHarness", "make_pod", "SimpleNamespace"),
    ),
    "pre_filter": Example(
        "preFilter",
        """
    def pre_filter(self, state, pod, nodes):
        # Called once per attempt, before Filter. Return a string to reject the pod on all nodes.
        state.write(ANSWER, pod.labels.get(self.args.label, ""))
""",
        """
def test_pre_filter_writes_to_the_cycle_state():
    result = run_plugin(NAME, make_pod("p").label({LABEL: "hello"}).obj(), nodes=NODES)
    assert result.pre_filter.is_success
    assert result.state.read(MODULE.ANSWER) == "hello"
""",
        imports=("StateKey",),
        constants='#: The result of pre_filter, for other methods of the same attempt.\nANSWER = StateKey("NAME")\n',
        test_imports=("make_pod", "run_plugin"),
    ),
    "filter": Example(
        "filter",
        """
    def filter(self, state, pod, node):
        # Return None if the node is feasible, or the reason why it is not.
        VERDICT
""",
        _REJECTING,
        test_imports=("check_run", "make_pod", "run_plugin"),
    ),
    "filter_nodes": Example(
        "filter",
        """
    def filter_nodes(self, state, pod, nodes):
        # All nodes in one call: return None if all are feasible, or Verdicts with one entry per node.
        VERDICTS
""",
        _REJECTING,
        imports=("Status", "Verdicts"),
        test_imports=("check_run", "make_pod", "run_plugin"),
    ),
    "post_filter": Example(
        "postFilter",
        """
    def post_filter(self, state, pod, statuses):
        # No node is feasible. Make room for the pod and nominate a node, or return why that is not possible.
        return PostFilterResult(), Status.unschedulable("preemption is not possible")
""",
        """
def test_no_node_is_nominated():
    result, status = PluginHarness(NAME).plugin.post_filter(None, make_pod("p").obj(), None)
    assert result.nominated_node is None
    assert status.reasons == ("preemption is not possible",)
""",
        imports=("PostFilterResult", "Status"),
        test_imports=("PluginHarness", "make_pod"),
    ),
    "pre_score": Example(
        "preScore",
        """
    def pre_score(self, state, pod, nodes):
        # Called once per attempt with the feasible nodes, before they are scored.
        state.write(CANDIDATES, len(nodes))
""",
        """
def test_pre_score_counts_the_feasible_nodes():
    result = run_plugin(NAME, make_pod("p").obj(), nodes=NODES[:1], objects=OBJECTS)
    assert result.state.read(MODULE.CANDIDATES) == 1
""",
        imports=("StateKey",),
        constants="#: The number of feasible nodes, for the other methods of the same attempt.\n"
        'CANDIDATES = StateKey("NAME/candidates")\n',
        test_imports=("make_pod", "run_plugin"),
    ),
    "score": Example(
        "score",
        """
    def score(self, state, pod, node):
        # Return 0 to 100; higher is better. The weight in the configuration multiplies the score.
        SCORE
""",
        _SCORING,
        test_imports=("check_run", "make_pod", "run_plugin"),
    ),
    "score_nodes": Example(
        "score",
        """
    def score_nodes(self, state, pod, nodes):
        # All nodes in one call: return an array with a score for each node, 0 to 100.
        SCORES_OF_ALL
""",
        _SCORING,
        test_imports=("check_run", "make_pod", "run_plugin"),
    ),
    "reserve": Example(
        "reserve",
        """
    def reserve(self, state, pod, node_name):
        # The node is chosen: reserve resources that no other pod may use.
        self.reserved[pod.key] = node_name

    def unreserve(self, state, pod, node_name):
        # Undo reserve. This must not fail, and may be called more than once.
        self.reserved.pop(pod.key, None)
""",
        """
def test_unreserve_undoes_reserve():
    plugin, pod = PluginHarness(NAME).plugin, make_pod("p").obj()
    plugin.reserve(None, pod, "good")
    assert plugin.reserved == {"default/p": "good"}
    plugin.unreserve(None, pod, "good")
    plugin.unreserve(None, pod, "good")
    assert plugin.reserved == {}
""",
        test_imports=("PluginHarness", "make_pod"),
        setup="        self.reserved = {}\n",
    ),
    "permit": Example(
        "permit",
        """
    def permit(self, state, pod, node_name):
        # Return None to bind the pod, a reason to reject it, or PermitWait to delay it.
        return PermitWait(30, allow_after=1) if pod.labels.get(self.args.label) == "wait" else None
""",
        """
def test_labeled_pods_wait_one_second():
    plugin = PluginHarness(NAME).plugin
    waiting = make_pod("waiting").label({LABEL: "wait"}).obj()
    assert plugin.permit(None, waiting, "good") == PermitWait(30, allow_after=1)
    assert plugin.permit(None, make_pod("p").obj(), "good") is None
""",
        imports=("PermitWait",),
        test_imports=("PluginHarness", "make_pod", "PermitWait"),
    ),
    "pre_bind": Example(
        "preBind",
        """
    async def pre_bind(self, state, pod, node_name):
        # Prepare the node before the pod is bound. Return a reason to reject the pod.
        self.prepared = pod.key
""",
        """
def test_pre_bind_prepares_the_pod():
    plugin = PluginHarness(NAME).plugin
    assert asyncio.run(plugin.pre_bind(None, make_pod("p").obj(), "good")) is None
    assert plugin.prepared == "default/p"
""",
        test_imports=("PluginHarness", "make_pod", "asyncio"),
    ),
    "bind": Example(
        "bind",
        """
    async def bind(self, state, pod, node_name):
        # Bind the pod (``await self.handle.binder.bind(pod, node_name)``), or skip to the next plugin.
        return Status(Code.SKIP)
""",
        """
def test_binding_is_skipped():
    assert asyncio.run(PluginHarness(NAME).plugin.bind(None, make_pod("p").obj(), "good")).code is Code.SKIP
""",
        imports=("Code", "Status"),
        test_imports=("PluginHarness", "make_pod", "asyncio", "Code"),
    ),
    "post_bind": Example(
        "postBind",
        """
    async def post_bind(self, state, pod, node_name):
        # The pod is bound: clean up, count, notify.
        self.bound += 1
""",
        """
def test_bound_pods_are_counted():
    plugin = PluginHarness(NAME).plugin
    asyncio.run(plugin.post_bind(None, make_pod("p").obj(), "good"))
    assert plugin.bound == 1
""",
        test_imports=("PluginHarness", "make_pod", "asyncio"),
        setup="        self.bound = 0\n",
    ),
}
