"""Affinity terms: the namespaces that they cover."""

from __future__ import annotations

import pytest

from mooring.api.label_selectors import compile_selector
from mooring.columns.terms import PodTerm, SelectorIndex, affinity_terms
from mooring.testing import make_pod, selector

NOT_RED = compile_selector(selector({}, ("team", "NotIn", "red")))
RED = compile_selector(selector({"team": "red"}))
NAMESPACES = {"red": {"team": "red"}, "blue": {"team": "blue"}}


@pytest.mark.parametrize(
    ("chooser", "namespace", "incoming", "existing"),
    [
        (RED, "red", True, True),
        (RED, "blue", False, False),
        (RED, "unknown", False, False),
        (NOT_RED, "blue", True, True),
        (NOT_RED, "red", True, False),  # kube-scheduler also asks an incoming pod's selector about no labels at all
        (NOT_RED, "unknown", True, True),
        (compile_selector(selector()), "unknown", True, True),
        (compile_selector(None), "red", False, False),
        (RED, "listed", True, True),
    ],
)
def test_which_namespaces_a_term_covers(chooser, namespace, incoming, existing):
    term = PodTerm(frozenset({"listed"}), compile_selector(selector()), chooser)
    assert term.covers_namespace(namespace, NAMESPACES, must_exist=True) is incoming
    assert term.covers_namespace(namespace, NAMESPACES, must_exist=False) is existing


def test_an_index_finds_selectors_by_one_label_pair() -> None:
    index: SelectorIndex[str] = SelectorIndex()
    web, any_tier = compile_selector(selector({"app": "web"})), compile_selector(selector({}, ("tier", "Exists")))
    items = {"web": web, "tier": any_tier}
    for name, each in items.items():
        index.add(each, name)
    assert sorted(index.candidates({"app": "web"})) == ["tier", "web"]
    assert index.candidates({"app": "db"}) == ["tier"]
    index.remove(any_tier, "tier")
    assert index.candidates({"app": "db"}) == []


def test_terms_are_compiled_with_weights() -> None:
    pod = make_pod("p").pod_affinity("zone", {"app": "web"}).preferred_pod_anti_affinity(7, "host", {"app": "web"})
    terms = affinity_terms(pod.obj())
    assert [(term.topology_key, term.weight) for term in terms.required] == [("zone", 0)]
    assert [(term.topology_key, term.weight) for term in terms.preferred] == [("host", -7)]
    assert terms.required[0].pods.namespaces == {"default"}
    assert affinity_terms(make_pod("p").obj()).is_empty
