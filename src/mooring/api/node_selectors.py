"""Compiled node selectors of pods and volumes.

Terms are ORed, the requirements of a term are ANDed, and an empty term matches no node. An invalid term matches no node
either. Its problem is stored as `error`, because kube-scheduler reports it only if no other term matches.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from mooring.api.affinity import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PreferredSchedulingTerm
from mooring.api.label_selectors import (
    IN,
    NOT_IN,
    OPERATORS,
    Requirement,
    Selector,
    SelectorError,
    aggregate,
    cache_small,
    quote,
    requirement_errors,
    selector_from_labels,
    to_json,
)
from mooring.api.pod import Pod
from mooring.checkpoints import checkpoint

#: A condition on a node's label, or on `metadata.name` in the `fields` of a term.
NodeRequirement: TypeAlias = Requirement

NODE_NAME_FIELD: Final = "metadata.name"

_FIELD_OPERATORS: Final = (IN, NOT_IN)
#: The maximum number of requirements and values of a node selector that is cached.
_MOST_CACHED: Final = 64


class NodeTerm(NamedTuple):
    """One compiled term. It matches nothing if it is empty or has errors."""

    expressions: tuple[NodeRequirement, ...] = ()
    fields: tuple[NodeRequirement, ...] = ()
    errors: tuple[str, ...] = ()

    @property
    def error(self) -> str | None:
        """The problem of an invalid term."""
        return aggregate(self.errors) if self.errors else None

    @property
    def is_empty(self) -> bool:
        """Whether the term is empty."""
        return not (self.expressions or self.fields or self.errors)

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Return whether a node with these labels and this name matches."""
        if self.errors or self.is_empty:
            return False
        if not all(each.matches(labels) for each in self.expressions):
            return False
        # Upstream ignores fields if the node has no name.
        return not name or all(field_matches(each, name) for each in self.fields)


class NodeMatcher(NamedTuple):
    """A compiled node selector: one of its terms must match."""

    terms: tuple[NodeTerm, ...] = ()

    @property
    def error(self) -> str | None:
        """The problems of invalid terms, for a node that no term matches."""
        errors = [error for term in self.terms for error in term.errors]
        return aggregate(errors) if errors else None

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Return whether a node with these labels and this name matches."""
        return any(term.matches(labels, name) for term in self.terms)


class RequiredNodeAffinity(NamedTuple):
    """The `nodeSelector` and the required node affinity of a pod; None means no restriction."""

    selector: Selector | None = None
    affinity: NodeMatcher | None = None

    @property
    def is_empty(self) -> bool:
        """Whether every node matches."""
        return self.selector is None and self.affinity is None

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Return whether the pod can run on a node with these labels and this name."""
        if self.selector is not None and not self.selector.matches(labels):
            return False
        return self.affinity is None or self.affinity.matches(labels, name)


#: A term without conditions: it matches no node.
_EMPTY = NodeTerm()


class WeightedNodeTerm(NamedTuple):
    """A compiled preferred term with its weight."""

    weight: int
    term: NodeTerm


def field_matches(field: NodeRequirement, name: str) -> bool:
    """Return whether a node meets a `matchFields` condition; an unknown field is empty."""
    actual = name if field.key == NODE_NAME_FIELD else ""
    return (actual in field.values) == (field.operator == IN)


def _size(term: NodeSelectorTerm) -> int:
    if not term.match_expressions and not term.match_fields:
        return 0
    return sum(1 + len(each.values) for each in (*term.match_expressions, *term.match_fields))


@cache_small(lambda selector: sum(1 + _size(term) for term in selector.node_selector_terms) <= _MOST_CACHED)
def compile_node_selector(selector: NodeSelector) -> NodeMatcher:
    """Compile a node selector."""
    return NodeMatcher(
        tuple(
            compile_node_term(term, path=f"nodeSelectorTerms[{index}]")
            for index, term in enumerate(selector.node_selector_terms)
        )
    )


def compile_node_term(term: NodeSelectorTerm, *, path: str = "") -> NodeTerm:
    """Compile one term; `path` is for error messages."""
    if not term.match_expressions and not term.match_fields:
        checkpoint()
        return _EMPTY
    return _compile_term(term, path)


def _is_small(term: NodeSelectorTerm, path: str) -> bool:  # noqa: ARG001  # the parameters are those of _compile_term
    return _size(term) <= _MOST_CACHED


@cache_small(_is_small)
def _compile_term(term: NodeSelectorTerm, path: str) -> NodeTerm:
    prefix = f"{path}." if path else ""
    errors: list[str] = []
    expressions: list[NodeRequirement] = []
    fields: list[NodeRequirement] = []
    checkpoint()
    for index, each in enumerate(term.match_expressions):
        checkpoint()
        errors += _expression_errors(each, f"{prefix}matchExpressions[{index}]")
        expressions.append(_compiled(each))
    for index, each in enumerate(term.match_fields):
        checkpoint()
        errors += _field_errors(each, f"{prefix}matchFields[{index}]")
        fields.append(_compiled(each))
    return NodeTerm(errors=tuple(errors)) if errors else NodeTerm(tuple(expressions), tuple(fields))


def compile_preferred_terms(terms: Iterable[PreferredSchedulingTerm]) -> tuple[WeightedNodeTerm, ...]:
    """Compile preferred terms except empty ones and those of weight 0. Raises SelectorError if one is invalid."""
    compiled = [
        WeightedNodeTerm(each.weight, compile_node_term(each.preference, path=f"[{index}]"))
        for index, each in enumerate(terms)
        if each.weight != 0
    ]
    errors = [error for each in compiled for error in each.term.errors]
    if errors:
        raise SelectorError(aggregate(errors))
    return tuple(each for each in compiled if not each.term.is_empty)


def required_node_affinity(pod: Pod) -> RequiredNodeAffinity:
    """Return the compiled requirements of a pod on its node."""
    affinity = pod.spec.affinity
    required = affinity.node_affinity.required if affinity is not None and affinity.node_affinity is not None else None
    return RequiredNodeAffinity(
        selector_from_labels(pod.spec.node_selector) if pod.spec.node_selector else None,
        compile_node_selector(required) if required is not None else None,
    )


def _compiled(each: NodeSelectorRequirement) -> NodeRequirement:
    return Requirement(each.key, each.operator, frozenset(each.values))


def _expression_errors(each: NodeSelectorRequirement, path: str) -> list[str]:
    if each.operator not in OPERATORS:
        return [_unsupported(each.operator, OPERATORS, path)]
    return requirement_errors(each.key, each.operator, each.values, path=path)


def _field_errors(each: NodeSelectorRequirement, path: str) -> list[str]:
    if each.operator not in _FIELD_OPERATORS:
        return [_unsupported(each.operator, _FIELD_OPERATORS, path)]
    if len(each.values) != 1:
        return [f"{path}.values: Invalid value: {to_json(each.values or None)}: must have one element"]
    return []


def _unsupported(operator: str, supported: tuple[str, ...], path: str) -> str:
    known = ", ".join(map(quote, supported))
    return f"{path}.operator: Unsupported value: {to_json(operator)}: supported values: {known}"
