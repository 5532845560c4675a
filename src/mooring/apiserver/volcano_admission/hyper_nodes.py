"""Validation of HyperNodes (topology.volcano.sh) beyond their schema."""

from mooring.api.hyper_nodes import HyperNode
from mooring.api.patterns import PatternIssue, compile_pattern
from mooring.apiserver.field_errors import invalid


def hyper_node_errors(hyper_node: HyperNode) -> list[str]:
    """Return the errors of a new or changed HyperNode."""
    members = hyper_node.spec.members
    if not members:
        return [str(invalid("spec.members", [], "member must have at least one member"))]
    found = []
    for member in members:
        expression = member.selector.regex_match
        if expression is not None and expression.pattern:
            try:
                compile_pattern(expression.pattern)
            except PatternIssue as error:
                detail = f"member regexMatch pattern is invalid: {error}"
                found.append(str(invalid("spec.members.selector.regexMatch.pattern", expression.pattern, detail)))
    return found
