"""For each extension point: an example of its method, and a test of that. ``NAME`` stands for the plugin's name."""

from __future__ import annotations

from typing import Final, NamedTuple


class Example(NamedTuple):
    """One point."""

    #: As the configuration calls it.
    point: str
    method: str
    test: str
    #: What both need beside Plugin: names of mooring.framework, and lines at the top of the module.
    imports: tuple[str, ...] = ()
    constants: str = ""
    test_imports: tuple[str, ...] = ()
    #: Lines that `setup` needs.
    setup: str = ""


#: The two forms of filter and of score answer alike.
_REFUSING: Final = """
def test_nodes_that_refuse_are_left_out():
    result = run_plugin(NAME, make_pod("p").obj(), nodes=NODES, objects=OBJECTS)
    check_run(result, fits=["good", "plain"], rejected={"bad": "the node does not want the pod"})
"""
_SCORING: Final = """
def test_nodes_that_ask_for_it_score_best():
    result = run_plugin(NAME, make_pod("p").obj(), nodes=NODES, objects=OBJECTS)
    check_run(result, scores=SCORES)
"""

#: In running order, by the name that people give: that of the method.
EXAMPLES: Final[dict[str, Example]] = {
    "pre_enqueue": Example(
        "preEnqueue",
        """
    def pre_enqueue(self, pod):
        # A text holds the pod back, and is the reason; it is asked again when the pod changes.
        return "the pod is on hold" if pod.labels.get(self.args.label) == "hold" else None
""",
        """
def test_pods_on_hold_are_not_tried():
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
        # Whether a goes before b. All profiles of a scheduler must have the same QueueSort plugin.
        return (-a.pod.priority, a.timestamp) < (-b.pod.priority, b.timestamp)
""",
        """
def test_important_pods_go_first_then_those_that_came_first():
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
        # Once per attempt, before the nodes are looked at; a text turns the pod down altogether.
        state.write(ANSWER, pod.labels.get(self.args.label, ""))
""",
        """
def test_what_is_worked_out_once_is_kept_for_the_attempt():
    result = run_plugin(NAME, make_pod("p").label({LABEL: "hello"}).obj(), nodes=NODES)
    assert result.pre_filter.is_success
    assert result.state.read(MODULE.ANSWER) == "hello"
""",
        imports=("StateKey",),
        constants='#: What pre_filter found, for the other methods of the same attempt.\nANSWER = StateKey("NAME")\n',
        test_imports=("make_pod", "run_plugin"),
    ),
    "filter": Example(
        "filter",
        """
    def filter(self, state, pod, node):
        # None: the node will do. A text: it will not, and that is the reason people read.
        VERDICT
""",
        _REFUSING,
        test_imports=("check_run", "make_pod", "run_plugin"),
    ),
    "filter_nodes": Example(
        "filter",
        """
    def filter_nodes(self, state, pod, nodes):
        # All nodes at once: None if all will do, else Verdicts, one a node.
        VERDICTS
""",
        _REFUSING,
        imports=("Status", "Verdicts"),
        test_imports=("check_run", "make_pod", "run_plugin"),
    ),
    "post_filter": Example(
        "postFilter",
        """
    def post_filter(self, state, pod, statuses):
        # No node will do. Make room for the pod and name the node, or say that nothing can be done.
        return PostFilterResult(), Status.unschedulable("no room can be made")
""",
        """
def test_no_room_is_made():
    result, status = PluginHarness(NAME).plugin.post_filter(None, make_pod("p").obj(), None)
    assert result.nominated_node is None
    assert status.reasons == ("no room can be made",)
""",
        imports=("PostFilterResult", "Status"),
        test_imports=("PluginHarness", "make_pod"),
    ),
    "pre_score": Example(
        "preScore",
        """
    def pre_score(self, state, pod, nodes):
        # Once per attempt, for the nodes that will do, before they are scored.
        state.write(CANDIDATES, len(nodes))
""",
        """
def test_the_candidates_are_counted_before_they_are_scored():
    result = run_plugin(NAME, make_pod("p").obj(), nodes=NODES[:1], objects=OBJECTS)
    assert result.state.read(MODULE.CANDIDATES) == 1
""",
        imports=("StateKey",),
        constants="#: How many nodes are scored, for the other methods of the same attempt.\n"
        'CANDIDATES = StateKey("NAME/candidates")\n',
        test_imports=("make_pod", "run_plugin"),
    ),
    "score": Example(
        "score",
        """
    def score(self, state, pod, node):
        # 0 to 100, the more the better; the weight in the configuration multiplies it.
        SCORE
""",
        _SCORING,
        test_imports=("check_run", "make_pod", "run_plugin"),
    ),
    "score_nodes": Example(
        "score",
        """
    def score_nodes(self, state, pod, nodes):
        # All nodes at once: an array with a score for each, 0 to 100.
        SCORES_OF_ALL
""",
        _SCORING,
        test_imports=("check_run", "make_pod", "run_plugin"),
    ),
    "reserve": Example(
        "reserve",
        """
    def reserve(self, state, pod, node_name):
        # The node is chosen: claim there what nobody else may claim meanwhile.
        self.claimed[pod.key] = node_name

    def unreserve(self, state, pod, node_name):
        # It came to nothing after all; must not fail, and may be called more than once.
        self.claimed.pop(pod.key, None)
""",
        """
def test_claims_are_taken_back():
    plugin, pod = PluginHarness(NAME).plugin, make_pod("p").obj()
    plugin.reserve(None, pod, "good")
    assert plugin.claimed == {"default/p": "good"}
    plugin.unreserve(None, pod, "good")
    plugin.unreserve(None, pod, "good")
    assert plugin.claimed == {}
""",
        test_imports=("PluginHarness", "make_pod"),
        setup="        self.claimed = {}\n",
    ),
    "permit": Example(
        "permit",
        """
    def permit(self, state, pod, node_name):
        # The last word before binding: None, a reason not to, or PermitWait to hold the pod back for a while.
        return PermitWait(30, allow_after=1) if pod.labels.get(self.args.label) == "wait" else None
""",
        """
def test_pods_that_ask_for_it_wait_a_second():
    plugin = PluginHarness(NAME).plugin
    patient = make_pod("patient").label({LABEL: "wait"}).obj()
    assert plugin.permit(None, patient, "good") == PermitWait(30, allow_after=1)
    assert plugin.permit(None, make_pod("p").obj(), "good") is None
""",
        imports=("PermitWait",),
        test_imports=("PluginHarness", "make_pod", "PermitWait"),
    ),
    "pre_bind": Example(
        "preBind",
        """
    async def pre_bind(self, state, pod, node_name):
        # What has to be done before the pod is bound; it may await. A reason keeps the pod from being bound.
        self.prepared = pod.key
""",
        """
def test_a_pod_is_prepared_before_it_is_bound():
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
        # Bind the pod yourself (``await self.handle.binder.bind(pod, node_name)``), or leave it to the next plugin.
        return Status(Code.SKIP)
""",
        """
def test_binding_is_left_to_the_next_plugin():
    assert asyncio.run(PluginHarness(NAME).plugin.bind(None, make_pod("p").obj(), "good")).code is Code.SKIP
""",
        imports=("Code", "Status"),
        test_imports=("PluginHarness", "make_pod", "asyncio", "Code"),
    ),
    "post_bind": Example(
        "postBind",
        """
    async def post_bind(self, state, pod, node_name):
        # The pod is bound; tidy up, count, tell somebody.
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
