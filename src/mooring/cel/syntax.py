"""The syntax tree of expressions. Every node has a number that is unique in its tree."""

from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(slots=True, eq=False)
class Literal:
    """A constant: null, bool, int, Uint, float, str or bytes."""

    id: int
    value: Any
    depth: int = 0


@dataclass(slots=True, eq=False)
class Ident:
    """A name."""

    id: int
    name: str
    depth: int = 0


@dataclass(slots=True, eq=False)
class Select:
    """A field of an operand, or with `test_only` whether it exists."""

    id: int
    operand: "Node"
    field: str
    test_only: bool = False
    depth: int = 0


@dataclass(slots=True, eq=False)
class Call:
    """A call of a function or, with a target, of a method. Operators are functions with names such as `_+_`."""

    id: int
    function: str
    target: "Node | None"
    args: "list[Node]"
    depth: int = 0


@dataclass(slots=True, eq=False)
class ListNode:
    """A list literal; `optional` has the indexes of elements with a question mark."""

    id: int
    elements: "list[Node]"
    optional: frozenset[int] = frozenset()
    depth: int = 0


@dataclass(slots=True, eq=False)
class Entry:
    """An entry of a map literal, or a field of a struct literal (then the key is a literal)."""

    key: "Node"
    value: "Node"
    optional: bool = False


@dataclass(slots=True, eq=False)
class MapNode:
    """A map literal."""

    id: int
    entries: list[Entry]
    depth: int = 0


@dataclass(slots=True, eq=False)
class StructNode:
    """A struct literal."""

    id: int
    type_name: str
    entries: list[Entry]
    depth: int = 0


@dataclass(slots=True, eq=False)
class Comprehension:
    """A loop over a list or map: what macros such as `all` and `map` expand to."""

    id: int
    iter_range: "Node"
    iter_var: str
    iter_var2: str
    accu_var: str
    accu_init: "Node"
    condition: "Node"
    step: "Node"
    result: "Node"
    depth: int = field(default=0)


Node: TypeAlias = Literal | Ident | Select | Call | ListNode | MapNode | StructNode | Comprehension


def children(node: Node) -> list[Node]:
    """Return the nodes directly below a node."""
    match node:
        case Select():
            return [node.operand]
        case Call():
            return node.args if node.target is None else [node.target, *node.args]
        case ListNode():
            return node.elements
        case MapNode() | StructNode():
            return [part for entry in node.entries for part in (entry.key, entry.value)]
        case Comprehension():
            return [node.iter_range, node.accu_init, node.condition, node.step, node.result]
        case _:
            return []


def qualified_name(node: Node) -> str | None:
    """Return the dotted name that an expression such as `a.b.c` spells, or None."""
    parts: list[str] = []
    while isinstance(node, Select) and not node.test_only:
        parts.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    parts.append(node.name)
    return ".".join(reversed(parts))
