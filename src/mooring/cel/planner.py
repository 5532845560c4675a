"""The planner: turns a checked syntax tree into a program of closures. Constants are folded."""

import functools
from collections.abc import Callable, Mapping
from typing import Final

from mooring.api.patterns import PatternIssue, compile_pattern
from mooring.cel import cost, interpreter
from mooring.cel.checker import Checked
from mooring.cel.environment import Environment, Overload
from mooring.cel.interpreter import Frame, Interrupted, Run, loop_variable
from mooring.cel.lookups import (
    KEY_CLASSES,
    AnyAttribute,
    Attribute,
    Conditional,
    ConstantPlan,
    LookupPlan,
    Plan,
    Qualifier,
    StepPlan,
)
from mooring.cel.syntax import Call, Comprehension, Ident, ListNode, Literal, MapNode, Node, Select, StructNode
from mooring.cel.values import (
    MISSING,
    CelError,
    CostLimitExceeded,
    Map,
    Value,
    Work,
    WorkLimitExceeded,
    go_type,
    lookup_keys,
)

_CONVERSIONS: Final = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)
_PATTERN_FUNCTIONS: Final = frozenset({"matches", "find", "findAll"})


class ProgramIssue(Exception):
    """An expression that cannot become a program, for example because a constant conversion fails."""


class _Scope:
    """The variables of a loop while planning."""

    __slots__ = ("accu", "first", "second")

    def __init__(self, accu: str, first: str, second: str) -> None:
        self.accu = accu
        self.first = first
        self.second = second


class Program:
    """An expression that can be evaluated."""

    __slots__ = ("_evaluate", "limit")

    def __init__(self, environment: Environment, checked: Checked, limit: int) -> None:
        """Plan the evaluation. Raises ProgramIssue."""
        self._evaluate = _Planner(environment, checked).plan(checked.root).build()
        self.limit = limit

    def evaluate(self, variables: Mapping[str, Value], *, deadline: float | None = None) -> tuple[Value, int]:
        """Return the value, which can be an error, and the cost.

        `deadline` is a time of time.thread_time(). Raises CostLimitExceeded, Interrupted and values.InternalError.
        """
        run = Run(self.limit, deadline)
        Work.done = 0
        try:
            value = self._evaluate(Frame(None, run, variables, None))
        except (WorkLimitExceeded, RecursionError, MemoryError):
            raise Interrupted from None
        if run.exceeded():
            raise CostLimitExceeded
        return value, run.cost


class _Planner:
    """Plans one expression."""

    def __init__(self, environment: Environment, checked: Checked) -> None:
        self._environment = environment
        self._types = checked.types
        self._overloads = checked.overloads
        self._names = checked.names
        self._scopes: list[_Scope] = []

    def plan(self, node: Node) -> Plan:
        """Plan the evaluation of a node."""
        match node:
            case Literal():
                return ConstantPlan(node.value)
            case Ident():
                return self._variable(node.id)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListNode():
                return self._list(node)
            case MapNode():
                return self._map(node)
            case Comprehension():
                return self._loop(node)
            case StructNode():
                values = [self.plan(entry.value) for entry in node.entries]
                return StepPlan(lambda: interpreter.new_struct(node.type_name, [value.build() for value in values]))

    # Variables and fields

    def _variable(self, number: int) -> Plan:
        name = self._names[number]
        if self._types[number].kind == "type":
            value = self._environment.type_values.get(name)
            if value is None:  # cel-go takes every name of this type for the name of a type
                raise ProgramIssue(f"reference to undefined type: {name}")
            return ConstantPlan(value)
        for hops, scope in enumerate(reversed(self._scopes)):
            if name in (scope.accu, scope.first, scope.second):
                which = "accu" if name == scope.accu else "first" if name == scope.first else "second"
                return LookupPlan(Attribute(functools.partial(loop_variable, hops, which)))

        def read(frame: Frame) -> Value:
            value = frame.variables.get(name, MISSING)
            return CelError(f"no such attribute(s): {name}") if value is MISSING else value

        return LookupPlan(Attribute(lambda: read))

    def _attribute(self, plan: Plan) -> AnyAttribute:
        """Return the attribute of a plan, or a new one on its result."""
        if isinstance(plan, LookupPlan) and not plan.test_only:
            return plan.attribute
        return Attribute(plan.build)

    def _select(self, node: Select) -> Plan:
        if node.id in self._names:
            return self._variable(node.id)
        attribute = self._attribute(self.plan(node.operand))
        attribute.add(Qualifier(node.field, None, optional=False, test_only=node.test_only))
        return LookupPlan(attribute, test_only=node.test_only)

    def _indexed(self, node: Call, *, optional: bool) -> Plan:
        attribute = self._attribute(self.plan(node.args[0]))
        index = self.plan(node.args[1])
        if isinstance(index, ConstantPlan):
            if index.value.__class__ not in KEY_CLASSES:
                raise ProgramIssue(f"invalid qualifier type: {go_type(index.value)}")
            qualifier = Qualifier(index.value, None, optional=optional, test_only=False)
        elif isinstance(index, LookupPlan):
            qualifier = Qualifier(None, index.attribute.resolver, optional=optional, test_only=False)
        else:
            qualifier = Qualifier(None, index.build, optional=optional, test_only=False)
        attribute.add(qualifier)
        return LookupPlan(attribute)

    # Calls

    def _call(self, node: Call) -> Plan:
        name = self._names.get(node.id, node.function)
        if name in {"_[_]", "_[?_]", "_?._"}:
            return self._indexed(node, optional=name != "_[_]")
        nodes = node.args if node.target is None else [node.target, *node.args]
        args = [self.plan(each) for each in nodes]
        match name:
            case "_&&_":
                return StepPlan(lambda: interpreter.logical([arg.build() for arg in args], decisive=False))
            case "_||_":
                return StepPlan(lambda: interpreter.logical([arg.build() for arg in args], decisive=True))
            case "_?_:_":
                return LookupPlan(Conditional(args[0], self._attribute(args[1]), self._attribute(args[2])))
            case "_==_":
                return StepPlan(lambda: interpreter.equality(args[0].build(), args[1].build()))
            case "_!=_":
                return StepPlan(lambda: interpreter.inequality(args[0].build(), args[1].build()))
            case "or" | "orValue" if len(args) == 2:
                fallback = functools.partial(
                    interpreter.fallback,
                    unwrap=name == "orValue",
                    strict=self._environment.cel_go >= cost.NEWER_CEL_GO,
                )
                return StepPlan(lambda: fallback(args[0].build(), args[1].build()))
        return self._function(node, name, args)

    def _function(self, node: Call, name: str, args: list[Plan]) -> Plan:
        overloads = self._overloads[node.id]
        overload = overloads[0] if len(overloads) == 1 else None
        number = overload.id if overload else ""
        call_cost = cost.call_cost(name, number, self._environment.cel_go)
        call, variadic = self._implementation(name, overload)
        if number == "in_list" and isinstance(args[1], ConstantPlan):
            values = args[1].value
            if not values:
                return ConstantPlan(value=False)
            if (keys := lookup_keys(values)) is not None:
                return StepPlan(lambda: interpreter.membership(args[0].build(), keys))
        if name in _CONVERSIONS and len(args) == 1 and isinstance(args[0], ConstantPlan):
            result = call(args[0].value)
            if isinstance(result, CelError):
                raise ProgramIssue(result.message)
            return ConstantPlan(result)
        if name in _PATTERN_FUNCTIONS and len(args) > 1 and isinstance(args[1], ConstantPlan):
            pattern = args[1].value
            if isinstance(pattern, str):
                try:
                    compile_pattern(pattern)
                except PatternIssue as issue:
                    raise ProgramIssue(str(issue)) from None
                call, variadic = interpreter.on_text(call), True
        if variadic or len(args) not in {1, 2}:
            return StepPlan(lambda: interpreter.variadic(call, [arg.build() for arg in args], call_cost))
        if len(args) == 1:
            return StepPlan(
                lambda: interpreter.unary(
                    call, args[0].build(), call_cost, strict=not (overload and overload.nonstrict)
                )
            )
        return StepPlan(lambda: interpreter.binary(call, args[0].build(), args[1].build(), call_cost))

    def _implementation(self, name: str, overload: Overload | None) -> tuple[Callable[..., Value], bool]:
        """Return the implementation of a call, and whether it stops at the first argument that is an error."""
        function = self._environment.functions[name]
        if function.call is not None:
            return (
                function.call if function.kinds is None else interpreter.with_kinds(name, function.call, function.kinds)
            ), False
        if overload is None and len(function.overloads) == 1:
            overload = function.overloads[0]
        if overload is not None:
            call = overload.call
            if call is None:
                raise ProgramIssue(f"no such overload: {name}")
            return (interpreter.guarded(name, overload, call) if function.guarded else call), overload.variadic
        return interpreter.dispatching(name, function.overloads, guarded=function.guarded), True

    # Aggregates

    def _list(self, node: ListNode) -> Plan:
        elements = [self.plan(element) for element in node.elements]
        if all(isinstance(element, ConstantPlan) for element in elements) and not node.optional:
            return ConstantPlan([element.value for element in elements if isinstance(element, ConstantPlan)])
        return StepPlan(lambda: interpreter.new_list([element.build() for element in elements], node.optional))

    def _map(self, node: MapNode) -> Plan:
        entries = [(self.plan(entry.key), self.plan(entry.value), entry.optional) for entry in node.entries]
        if all(isinstance(part, ConstantPlan) for key, value, _ in entries for part in (key, value)):
            result = Map()
            for key, value, _ in entries:
                if isinstance(key, ConstantPlan) and isinstance(value, ConstantPlan):
                    result[key.value] = value.value
            return ConstantPlan(result)
        return StepPlan(
            lambda: interpreter.new_map([(key.build(), value.build(), optional) for key, value, optional in entries])
        )

    def _loop(self, node: Comprehension) -> Plan:
        accu, over = self.plan(node.accu_init), self.plan(node.iter_range)
        self._scopes.append(_Scope(node.accu_var, node.iter_var, node.iter_var2))
        condition, step = self.plan(node.condition), self.plan(node.step)
        self._scopes[-1] = _Scope(node.accu_var, "", "")
        result = self.plan(node.result)
        self._scopes.pop()
        pairs = bool(node.iter_var2)
        return StepPlan(
            lambda: interpreter.fold(
                over.build(), accu.build(), condition.build(), step.build(), result.build(), pairs=pairs
            )
        )
