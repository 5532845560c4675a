"""Quantities, selectors and pod requests answer as Kubernetes' own libraries do (see upstream/README.md)."""

import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.api.affinity import NodeSelector, PreferredSchedulingTerm
from mooring.api.label_selectors import SelectorError, compile_selector
from mooring.api.meta import LabelSelector
from mooring.api.node_selectors import compile_node_selector, compile_preferred_terms
from mooring.api.pod import Pod
from mooring.api.quantity import QuantityError, format_quantity, parse_quantity
from mooring.api.resources import RequestRules, pod_requests, pod_requests_for_score, pod_requests_nonzero

Case = dict[str, Any]


def read_cases() -> dict[str, list[Case]]:
    cases: dict[str, list[Case]] = defaultdict(list)
    with gzip.open(Path(__file__).parent / "upstream" / "cases.jsonl.gz", "rt") as lines:
        for line in lines:
            case = json.loads(line)
            cases[case["Op"]].append(case)
    return cases


CASES = read_cases()


def quantity(case: Case) -> Case:
    try:
        # Outside JSON, upstream does not strip blanks; ours always comes from JSON and does.
        left, right = (
            parse_quantity(f"!{case[side]}" if case[side] != case[side].strip() else case[side]) for side in "AB"
        )
    except QuantityError:
        try:
            left = parse_quantity(case["A"]) if case["A"] == case["A"].strip() else parse_quantity("!")
        except QuantityError:
            return {"err": True}
        return {"v": left.scaled(0), "m": left.scaled(-3)}
    total = left.plus(right)
    return {
        "v": left.scaled(0),
        "m": left.scaled(-3),
        "gt": left.exceeds(right),
        "sv": total.scaled(0),
        "sm": total.scaled(-3),
    }


def printed(case: Case) -> Case:
    amount = int(case["A"])
    return {
        "d": format_quantity(amount),
        "b": format_quantity(amount, binary=True),
        "m": format_quantity(amount, milli=True),
    }


def selected(case: Case) -> Case:
    try:
        selector = compile_selector(msgspec.convert(case["Selector"], LabelSelector | None))
    except SelectorError as error:
        return {"err": str(error)}
    return {"match": selector.matches(case["Labels"]), "empty": selector.is_empty}


def node_matched(case: Case) -> Case:
    matcher = compile_node_selector(msgspec.convert(case["Node"], NodeSelector))
    answer: Case = {"match": matcher.matches(case["Labels"], case["Name"])}
    if not answer["match"] and matcher.error:
        answer["err"] = matcher.error
    return answer


def node_preferred(case: Case) -> Case:
    try:
        terms = compile_preferred_terms(msgspec.convert(case["Pref"], tuple[PreferredSchedulingTerm, ...]))
    except SelectorError as error:
        return {"err": str(error)}
    return {"score": sum(each.weight for each in terms if each.term.matches(case["Labels"], case["Name"]))}


def requested(case: Case) -> Case:
    pod = msgspec.convert(case["Pod"], Pod)
    counts = {"r": pod_requests, "n": pod_requests_nonzero, "s": pod_requests_for_score}
    return {
        f"{name}-{str(status).lower()}-{str(level).lower()}": count(
            pod, use_status=status, rules=RequestRules(pod_level=level)
        )
        for name, count in counts.items()
        for status in (False, True)
        for level in (False, True)
    }


@pytest.mark.parametrize(
    ("operation", "answer"),
    [
        ("q", quantity),
        ("fmt", printed),
        ("sel", selected),
        ("node", node_matched),
        ("pref", node_preferred),
        ("pod", requested),
    ],
)
def test_answers_as_kubernetes_does(operation, answer):
    cases = CASES[operation]
    assert len(cases) > 50
    for case in cases:
        assert answer(case) == case["want"], case
