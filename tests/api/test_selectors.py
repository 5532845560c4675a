"""Label and node selectors choose what Kubernetes would choose, and say what is wrong in its words."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.affinity import NodeSelector, NodeSelectorTerm, PreferredSchedulingTerm
from mooring.api.label_selectors import (
    EVERYTHING,
    NOTHING,
    Requirement,
    Selector,
    SelectorError,
    compile_selector,
    parse_int,
    requirement,
    selector_from_labels,
)
from mooring.api.meta import LabelSelector
from mooring.api.node_selectors import (
    compile_node_selector,
    compile_node_term,
    compile_preferred_terms,
    required_node_affinity,
)
from mooring.api.pod import Pod


def label_selector(labels=None, *expressions):
    made = [dict(zip(("key", "operator", "values"), each, strict=False)) for each in expressions]
    return msgspec.convert({"matchLabels": labels or {}, "matchExpressions": made}, LabelSelector)


def node_term(*expressions, fields=()):
    make = lambda rows: [dict(zip(("key", "operator", "values"), each, strict=False)) for each in rows]  # noqa: E731
    return msgspec.convert({"matchExpressions": make(expressions), "matchFields": make(fields)}, NodeSelectorTerm)


@pytest.mark.parametrize(
    ("selector", "labels", "chosen"),
    [
        (label_selector({"app": "web"}), {"app": "web", "x": "y"}, True),
        (label_selector({"app": "web"}), {"app": "db"}, False),
        (label_selector({"app": "web"}), {}, False),
        (label_selector({"app": ""}), {}, False),
        (label_selector({"app": ""}), {"app": ""}, True),
        (label_selector({}, ("app", "In", ["a", "b"])), {"app": "b"}, True),
        (label_selector({}, ("app", "In", ["a", "b"])), {"app": "c"}, False),
        (label_selector({}, ("app", "NotIn", ["a"])), {}, True),
        (label_selector({}, ("app", "NotIn", ["a"])), {"app": "a"}, False),
        (label_selector({}, ("app", "Exists")), {"app": ""}, True),
        (label_selector({}, ("app", "Exists")), {}, False),
        (label_selector({}, ("app", "DoesNotExist")), {}, True),
        (label_selector({}, ("app", "DoesNotExist")), {"app": "x"}, False),
        (label_selector({"a": "1"}, ("b", "Exists")), {"a": "1"}, False),
        (label_selector({"a": "1"}, ("b", "Exists")), {"a": "1", "b": "2"}, True),
    ],
)
def test_label_selectors_choose(selector, labels, chosen):
    assert compile_selector(selector).matches(labels) is chosen


def test_absent_takes_nothing_and_empty_takes_everything():
    assert compile_selector(None) is NOTHING
    assert compile_selector(LabelSelector()) is EVERYTHING
    assert selector_from_labels(None) is selector_from_labels({}) is EVERYTHING
    assert (NOTHING.matches({}), NOTHING.matches_nothing, NOTHING.is_empty) == (False, True, False)
    assert (EVERYTHING.matches({}), EVERYTHING.matches_nothing, EVERYTHING.is_empty) == (True, False, True)
    assert NOTHING != EVERYTHING


def test_equal_by_meaning():
    one = compile_selector(label_selector({"a": "1"}, ("b", "In", ["x", "y"])))
    same = compile_selector(label_selector({}, ("b", "In", ["y", "x", "x"]), ("a", "In", ["1"])))
    other = compile_selector(label_selector({"a": "1"}, ("b", "NotIn", ["x", "y"])))
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert one != "a"
    assert len({one, same, other}) == 2
    assert one == selector_from_labels({"a": "1"}).with_requirements(requirement("b", "In", ["x", "y"]))
    assert str(one) == "a in (1),b in (x,y)"


def test_equal_content_is_compiled_once():
    assert compile_selector(label_selector({"a": "1", "b": "2"})) is compile_selector(
        label_selector({"b": "2", "a": "1"})
    )


def test_nothing_cannot_be_narrowed():
    assert NOTHING.with_requirements(Requirement("a", "Exists")) is NOTHING


REQUIREMENTS = st.builds(
    Requirement,
    st.sampled_from("abc"),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    st.frozensets(st.sampled_from("xyz"), min_size=1),
)
LABELS = st.dictionaries(st.sampled_from("abcd"), st.sampled_from("xyz"))


@given(st.lists(REQUIREMENTS, max_size=4), LABELS, st.randoms())
@settings(deadline=None)
def test_order_never_matters(requirements, labels, random):
    shuffled = random.sample(requirements, len(requirements))
    assert Selector(requirements) == Selector(shuffled)
    assert Selector(requirements).matches(labels) == all(each.matches(labels) for each in requirements)


BAD_KEY = (
    "key: Invalid value: \"-a\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is"
    " '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        (label_selector({}, ("a", "Foo")), '"Foo" is not a valid label selector operator'),
        (label_selector({}, ("a", "Gt", ["1"])), '"Gt" is not a valid label selector operator'),
        (
            label_selector({}, ("a", "In")),
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            label_selector({}, ("a", "Exists", ["x"])),
            'values: Invalid value: ["x"]: values set must be empty for exists and does not exist',
        ),
        (
            label_selector({"-a": "x"}),
            BAD_KEY,
        ),
    ],
)
def test_invalid_label_selectors(selector, message):
    with pytest.raises(SelectorError) as caught:
        compile_selector(selector)
    assert str(caught.value) == message


def test_unchecked_labels_never_raise():
    assert selector_from_labels({"not a key": "not a value"}).matches({"not a key": "not a value"})


@pytest.mark.parametrize(
    ("term", "labels", "name", "chosen"),
    [
        (node_term(), {}, "n", False),
        (node_term(("zone", "In", ["a"])), {"zone": "a"}, "n", True),
        (node_term(("zone", "NotIn", ["a"])), {}, "n", True),
        (node_term(("cpus", "Gt", ["4"])), {"cpus": "5"}, "n", True),
        (node_term(("cpus", "Gt", ["4"])), {"cpus": "4"}, "n", False),
        (node_term(("cpus", "Gt", ["4"])), {"cpus": "five"}, "n", False),
        (node_term(("cpus", "Gt", ["4"])), {}, "n", False),
        (node_term(("cpus", "Lt", ["4"])), {"cpus": "-1"}, "n", True),
        (node_term(("zone", "Exists"), ("gpu", "DoesNotExist")), {"zone": "a"}, "n", True),
        (node_term(("zone", "Exists"), ("gpu", "DoesNotExist")), {"zone": "a", "gpu": ""}, "n", False),
        (node_term(fields=[("metadata.name", "In", ["n"])]), {}, "n", True),
        (node_term(fields=[("metadata.name", "In", ["n"])]), {}, "m", False),
        (node_term(fields=[("metadata.name", "NotIn", ["n"])]), {}, "m", True),
        (node_term(fields=[("metadata.name", "In", ["n"])]), {}, "", True),
        (node_term(fields=[("spec.other", "In", [""])]), {}, "n", True),
        (node_term(("zone", "Exists"), fields=[("metadata.name", "In", ["n"])]), {}, "n", False),
        (node_term(("zone", "Bogus")), {"zone": "a"}, "n", False),
    ],
)
def test_node_terms_choose(term, labels, name, chosen):
    assert compile_node_term(term).matches(labels, name) is chosen


def test_one_good_term_is_enough_whatever_the_others():
    bad, good, empty = node_term(("zone", "Bogus")), node_term(("zone", "Exists")), node_term()
    matcher = compile_node_selector(NodeSelector(node_selector_terms=(bad, empty, good)))
    assert [term.is_empty for term in matcher.terms] == [False, True, False]
    assert matcher.matches({"zone": "a"}, "n")
    assert not matcher.matches({}, "n")
    assert matcher.error == (
        'nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: "Bogus": supported values: "In", '
        '"NotIn", "Exists", "DoesNotExist", "Gt", "Lt"'
    )


def test_several_errors_come_in_brackets():
    term = node_term(("zone", "Gt", ["x"]), fields=[("metadata.name", "In", ["a", "b"])])
    assert compile_node_term(term).error == (
        "[matchExpressions[0].values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer, "
        'matchFields[0].values: Invalid value: ["a","b"]: must have one element]'
    )


def test_preferred_terms_leave_out_empty_and_worthless_ones():
    bad, good = node_term(("zone", "Bogus")), node_term(("zone", "Exists"))
    terms = [
        PreferredSchedulingTerm(weight=0, preference=bad),
        PreferredSchedulingTerm(weight=3),
        PreferredSchedulingTerm(weight=5, preference=good),
    ]
    assert [each.weight for each in compile_preferred_terms(terms)] == [5]
    with pytest.raises(SelectorError, match=r"^\[1\]\.matchExpressions\[0\]\.operator: Unsupported value"):
        compile_preferred_terms([terms[2], PreferredSchedulingTerm(weight=1, preference=bad)])


@pytest.mark.parametrize(
    ("spec", "labels", "allowed"),
    [
        ({}, {}, True),
        ({"nodeSelector": {}}, {}, True),
        ({"nodeSelector": {"disk": "ssd"}}, {"disk": "ssd"}, True),
        ({"nodeSelector": {"disk": "ssd"}}, {}, False),
        ({"affinity": {"nodeAffinity": {}}}, {}, True),
        ({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}}, {}, False),
    ],
)
def test_required_node_affinity_of_pods(spec, labels, allowed):
    assert required_node_affinity(msgspec.convert({"spec": spec}, Pod)).matches(labels, "n") is allowed


def test_node_selector_and_affinity_must_both_hold():
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    both = required_node_affinity(msgspec.convert({"spec": {"nodeSelector": {"a": "1"}, "affinity": affinity}}, Pod))
    cases = [({"a": "1"}, False), ({"zone": ""}, False), ({"a": "1", "zone": ""}, True)]
    assert [both.matches(labels, "n") for labels, _ in cases] == [wanted for _, wanted in cases]
    assert not both.is_empty


@pytest.mark.parametrize(
    ("text", "number"),
    [("5", 5), ("+5", 5), ("-5", -5), ("007", 7), ("", None), ("-", None), ("1_0", None), (" 1", None), ("1.0", None),
     ("٣", None), (str(2**63 - 1), 2**63 - 1), (str(2**63), None), (str(-(2**63)), -(2**63))],
)  # fmt: skip
def test_integers_read_as_go_reads_them(text, number):
    assert parse_int(text) == number
