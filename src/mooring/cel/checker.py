"""The type checker: resolves names and overloads, and refuses expressions whose types cannot fit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mooring.cel import types
from mooring.cel.environment import Environment, Function, Overload
from mooring.cel.syntax import (
    Call,
    Comprehension,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Node,
    Select,
    StructNode,
    children,
    qualified_name,
)
from mooring.cel.types import Substitutions, Type
from mooring.cel.values import type_of


class TypeIssue(Exception):
    """An expression whose types do not fit: the message and the number of the node."""

    def __init__(self, message: str, node: int) -> None:
        super().__init__(message)
        self.message = message
        self.node = node


@dataclass(slots=True)
class Checked:
    """A syntax tree with the types of its nodes and the overloads of its calls."""

    root: Node
    types: dict[int, Type]
    overloads: dict[int, list[Overload]]
    #: The names of nodes that turned out to be (qualified) names.
    names: dict[int, str]

    def output(self) -> Type:
        """Return the type of the expression."""
        return self.types[self.root.id]


class Checker:
    """Checks one expression."""

    def __init__(self, environment: Environment) -> None:
        self._environment: Final = environment
        self._types: dict[int, Type] = {}
        self._overloads: dict[int, list[Overload]] = {}
        self._names: dict[int, str] = {}
        self._substitutions: Substitutions = {}
        self._variables = 0
        self._scopes: list[dict[str, Type]] = []

    def check(self, root: Node) -> Checked:
        """Check an expression. Raises TypeIssue."""
        self._check(root)
        final = {
            number: types.substitute(self._substitutions, of, free_is_dyn=True) for number, of in self._types.items()
        }
        return Checked(root, final, self._overloads, self._names)

    def _check(self, node: Node) -> Type:
        found = self._type(node)
        self._types[node.id] = found
        return found

    def _type(self, node: Node) -> Type:
        match node:
            case Literal():
                return type_of(node.value)
            case Ident():
                return self._ident(node)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListNode():
                return self._list(node)
            case MapNode():
                return self._map(node)
            case StructNode():
                return self._struct(node)
            case Comprehension():
                return self._comprehension(node)

    # Names

    def _lookup(self, name: str) -> Type | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return self._environment.ident(name)

    def _ident(self, node: Ident) -> Type:
        found = self._lookup(node.name)
        if found is None:
            raise TypeIssue(f"undeclared reference to '{node.name}' (in container '')", node.id)
        self._names[node.id] = node.name.removeprefix(".")
        return found

    def _select(self, node: Select) -> Type:
        name = None if node.test_only else qualified_name(node)
        if name is not None and (found := self._lookup(name)) is not None:
            self._names[node.id] = name.removeprefix(".")
            return found
        result = self._field(node.id, node.operand, node.field, optional=False)
        return types.BOOL if node.test_only else types.substitute(self._substitutions, result)

    def _field(self, number: int, operand: Node, field: str, *, optional: bool) -> Type:
        of, was_optional = types.unwrap_optional(types.substitute(self._substitutions, self._check(operand)))
        if of.kind == "map":
            result = of.parameters[1]
        elif of.kind == "struct":
            fields = self._environment.structs.get(of.name)
            if fields is None:
                raise TypeIssue(f"unexpected failed resolution of '{of.name}'", number)
            if field not in fields:
                raise TypeIssue(f"undefined field '{field}'", number)
            result = fields[field]
        elif of.kind == "param":
            self._assignable(types.DYN, of)
            result = types.DYN
        elif types.is_dyn_or_error(of):
            result = types.DYN
        else:
            raise TypeIssue(f"type '{of}' does not support field selection", number)
        return types.optional_of(result) if optional or was_optional else result

    # Calls

    def _call(self, node: Call) -> Type:
        if node.function == "_?._":
            field = node.args[1]
            name = field.value if isinstance(field, Literal) else ""
            self._types[field.id] = types.STRING
            result = self._field(node.id, node.args[0], str(name), optional=True)
            return types.substitute(self._substitutions, result)
        for arg in node.args:
            self._check(arg)
        if node.target is None:
            function = self._environment.function(node.function)
            if function is None:
                raise TypeIssue(f"undeclared reference to '{node.function}' (in container '')", node.id)
            self._names[node.id] = function.name
            return self._resolve(node, function, None)
        prefix = qualified_name(node.target)
        if prefix is not None and (function := self._environment.function(f"{prefix}.{node.function}")) is not None:
            self._names[node.id] = function.name
            node.target = None
            node.function = function.name
            return self._resolve(node, function, None)
        self._check(node.target)
        function = self._environment.function(node.function)
        if function is None:
            raise TypeIssue(f"undeclared reference to '{node.function}' (in container '')", node.id)
        self._names[node.id] = function.name
        return self._resolve(node, function, node.target)

    def _resolve(self, node: Call, function: Function, target: Node | None) -> Type:
        nodes = node.args if target is None else [target, *node.args]
        args = [self._types[each.id] for each in nodes]
        if function.name in {"_&&_", "_||_"}:
            for each, of in zip(nodes, args, strict=True):
                if not self._assignable(of, types.BOOL):
                    shown_type = types.substitute(self._substitutions, of, free_is_dyn=True)
                    raise TypeIssue(f"expected type 'bool' but found '{shown_type}'", each.id)
            self._overloads[node.id] = function.overloads[:1]
            return types.BOOL
        result: Type | None = None
        matching: list[Overload] = []
        for overload in function.overloads:
            if overload.member != (target is not None) or len(overload.args) != len(args):
                continue
            fresh = self._fresh(overload)
            found = types.assignable_all(
                self._substitutions, args, [types.substitute(fresh, each) for each in overload.args]
            )
            if found is None:
                continue
            self._substitutions = found
            matching.append(overload)
            of = types.substitute(self._substitutions, types.substitute(fresh, overload.result))
            if result is None:
                result = of
            elif not types.is_dyn(result) and of != result:
                result = types.DYN
        if result is None:
            shown = [str(types.substitute(self._substitutions, of, free_is_dyn=True)) for of in args]
            call = f"{shown[0]}.({', '.join(shown[1:])})" if target is not None else f"({', '.join(shown)})"
            raise TypeIssue(f"found no matching overload for '{function.name}' applied to '{call}'", node.id)
        self._overloads[node.id] = matching
        return result

    def _fresh(self, overload: Overload) -> Substitutions:
        """Return new type variables for the type parameters of a signature."""
        fresh: Substitutions = {}
        stack = [overload.result, *overload.args]
        while stack:
            of = stack.pop()
            if of.kind == "param" and of not in fresh:
                fresh[of] = self._new_variable()
            stack.extend(of.parameters)
        return fresh

    def _new_variable(self) -> Type:
        self._variables += 1
        return types.parameter(f"_var{self._variables}")

    # Aggregates

    def _list(self, node: ListNode) -> Type:
        of: Type | None = None
        for index, element in enumerate(node.elements):
            each = self._check(element)
            if index in node.optional:
                each = self._optional_value(element, each)
            of = self._join(of, each)
        return types.list_of(of or self._new_variable())

    def _map(self, node: MapNode) -> Type:
        key: Type | None = None
        value: Type | None = None
        for entry in node.entries:
            key = self._join(key, self._check(entry.key))
            each = self._check(entry.value)
            if entry.optional:
                each = self._optional_value(entry.value, each)
            value = self._join(value, each)
        return types.map_of(key or self._new_variable(), value or self._new_variable())

    def _optional_value(self, node: Node, of: Type) -> Type:
        inner, optional = types.unwrap_optional(of)
        if not optional and not types.is_dyn(inner):
            raise TypeIssue(f"expected type 'optional_type({inner})' but found '{inner}'", node.id)
        return inner

    def _struct(self, node: StructNode) -> Type:
        fields = self._environment.structs.get(node.type_name.removeprefix("."))
        if fields is None:
            raise TypeIssue(f"undeclared reference to '{node.type_name}' (in container '')", node.id)
        for entry in node.entries:
            of = self._check(entry.value)
            if entry.optional:
                of = self._optional_value(entry.value, of)
            name = entry.key.value if isinstance(entry.key, Literal) else ""
            self._types[entry.key.id] = types.STRING
            if name not in fields:
                raise TypeIssue(f"undefined field '{name}'", entry.key.id)
            if not self._assignable(fields[name], of):
                raise TypeIssue(
                    f"expected type of field '{name}' is '{fields[name]}' but provided type is '{of}'", node.id
                )
        return types.struct(node.type_name.removeprefix("."))

    def _join(self, previous: Type | None, current: Type) -> Type:
        if previous is None:
            return current
        # `validate` refuses elements of different types, unless they are arguments of `format`.
        return types.most_general(previous, current) if self._assignable(previous, current) else types.DYN

    def _assignable(self, one: Type, other: Type) -> bool:
        found = types.assignable(self._substitutions, one, other)
        if found is None:
            return False
        self._substitutions = found
        return True

    def _comprehension(self, node: Comprehension) -> Type:
        over = types.substitute(self._substitutions, self._check(node.iter_range))
        accu = self._check(node.accu_init)
        over = types.substitute(self._substitutions, over)
        second = types.DYN
        if over.kind == "list":
            first = over.parameters[0]
            if node.iter_var2:
                first, second = types.INT, first
        elif over.kind == "map":
            first, second = over.parameters
        elif over.kind in {"dyn", "error", "param"}:
            self._assignable(types.DYN, over)
            first = types.DYN
        else:
            message = f"expression of type '{over}' cannot be range of a comprehension (must be list, map, or dynamic)"
            raise TypeIssue(message, node.iter_range.id)
        self._scopes.append({node.accu_var: accu})
        loop = {node.iter_var: first}
        if node.iter_var2:
            loop[node.iter_var2] = second
        self._scopes.append(loop)
        self._expect(node.condition, types.BOOL, self._check(node.condition))
        self._expect(node.step, accu, self._check(node.step))
        self._scopes.pop()
        result = self._check(node.result)
        self._scopes.pop()
        return types.substitute(self._substitutions, result)

    def _expect(self, node: Node, expected: Type, found: Type) -> None:
        if not self._assignable(expected, found):
            shown = [types.substitute(self._substitutions, of, free_is_dyn=True) for of in (expected, found)]
            raise TypeIssue(f"expected type '{shown[0]}' but found '{shown[1]}'", node.id)


#: Examines a call whose argument is a literal: returns a message if it is invalid.
LiteralCheck = Callable[[object], bool]


def validate(checked: Checked, literals: Mapping[str, LiteralCheck], exempt: Sequence[str]) -> None:
    """Check literals in calls, and that lists and maps have elements of one type. Raises TypeIssue."""
    stack: list[tuple[Node, bool]] = [(checked.root, False)]
    while stack:
        node, exempted = stack.pop()
        if isinstance(node, Call):
            exempted = exempted or node.function in exempt
            valid = literals.get(node.function)
            argument = node.args[0] if node.args else None
            if valid is not None and isinstance(argument, Literal) and not valid(argument.value):
                raise TypeIssue(f"invalid {node.function} argument", argument.id)
        elif isinstance(node, ListNode) and not exempted:
            _same_types(checked, node.elements, [index in node.optional for index in range(len(node.elements))])
        elif isinstance(node, MapNode) and not exempted:
            _same_types(checked, [entry.key for entry in node.entries], [False] * len(node.entries))
            _same_types(checked, [entry.value for entry in node.entries], [entry.optional for entry in node.entries])
        stack.extend((child, exempted) for child in children(node))


def _same_types(checked: Checked, nodes: list[Node], optional: list[bool]) -> None:
    expected: Type | None = None
    for node, is_optional in zip(nodes, optional, strict=True):
        of = checked.types[node.id]
        if is_optional and of.parameters:
            of = of.parameters[0]
        if expected is None:
            expected = of
        elif not types.equivalent(expected, of):
            raise TypeIssue(f"expected type '{expected}' but found '{of}'", node.id)
