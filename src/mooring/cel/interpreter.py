"""The steps of an evaluation: each returns a closure that evaluates one node and counts its cost.

The result, the error and the cost equal those of cel-go: `&&` and `||` absorb errors, and a variable of `cel.bind` is
evaluated at its first use.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from mooring.cel import cost
from mooring.cel.environment import Overload
from mooring.cel.values import (
    CelError,
    CostLimitExceeded,
    Map,
    MutableList,
    MutableMap,
    Optional,
    Value,
    equal,
    go_type,
    is_member,
    matches_type,
    no_such_overload,
    text_of,
    type_of,
)
from mooring.checkpoints import checkpoint

#: Loops without cost run at most this often.
_MAX_ITERATIONS: Final = 1_000_000
#: Iterations between two checks of the deadline.
_CHECK_FREQUENCY: Final = 100
_RECEIVERS: Final = frozenset({"string", "duration", "timestamp"})


class Interrupted(Exception):
    """An evaluation that did not end before its deadline, or does more work than any useful expression."""


class Run:
    """The state of one evaluation."""

    __slots__ = ("cost", "deadline", "iterations", "limit")

    def __init__(self, limit: int, deadline: float | None) -> None:
        self.cost = 0
        self.limit = limit
        self.deadline = deadline
        self.iterations = 0

    def exceeded(self) -> bool:
        """Return whether the cost exceeds the limit. Upstream's cost is unsigned: below zero it is huge."""
        return not 0 <= self.cost <= self.limit

    def step(self) -> None:
        """Count one iteration of a loop."""
        self.iterations += 1
        if self.exceeded():
            raise CostLimitExceeded
        if self.iterations % _CHECK_FREQUENCY == 0:
            checkpoint()
            if self.iterations > _MAX_ITERATIONS:
                raise Interrupted
            if self.deadline is not None and time.thread_time() > self.deadline:
                raise Interrupted


class Frame:
    """The variables of a loop, or those of the expression."""

    __slots__ = ("accu", "accu_init", "first", "initialized", "mutable", "parent", "run", "second", "variables")

    def __init__(
        self, parent: "Frame | None", run: Run, variables: Mapping[str, Value], accu_init: "Evaluate | None"
    ) -> None:
        self.parent = parent
        self.run = run
        self.variables = variables
        self.accu_init = accu_init
        self.initialized = False
        self.mutable = False
        self.accu: Value = None
        self.first: Value = None
        self.second: Value = None

    def accumulator(self) -> Value:
        """Return the accumulator; its initial value is evaluated at the first use."""
        if not self.initialized:
            self.initialized = True
            assert self.accu_init is not None
            assert self.parent is not None
            value = self.accu_init(self.parent)
            if isinstance(value, list) and not value:
                value, self.mutable = MutableList(), True
            elif isinstance(value, Map) and not len(value):
                value, self.mutable = MutableMap(), True
            self.accu = value
        return self.accu


Evaluate: TypeAlias = Callable[[Frame], Value]


def loop_variable(hops: int, which: str) -> Evaluate:
    """Read a variable of the loop that is `hops` loops further out."""

    def at(frame: Frame) -> Frame:
        for _ in range(hops):
            assert frame.parent is not None
            frame = frame.parent
        return frame

    if which == "accu":
        return lambda frame: at(frame).accumulator()
    if which == "first":
        return (lambda frame: frame.first) if hops == 0 else (lambda frame: at(frame).first)
    return (lambda frame: frame.second) if hops == 0 else (lambda frame: at(frame).second)


def logical(terms: list[Evaluate], *, decisive: bool) -> Evaluate:
    """Evaluate `&&` or `||`; `decisive` is the value that ends it."""

    def evaluate(frame: Frame) -> Value:
        error: CelError | None = None
        for term in terms:
            value = term(frame)
            if value is decisive:
                return decisive
            if value.__class__ is not bool and error is None:
                error = value if value.__class__ is CelError else no_such_overload()
        return (not decisive) if error is None else error

    return evaluate


def equality(left: Evaluate, right: Evaluate) -> Evaluate:
    """Evaluate `==`."""
    equality_cost = cost.equality_cost

    def evaluate(frame: Frame) -> Value:
        one, other = left(frame), right(frame)
        frame.run.cost += equality_cost(one, other)
        if one.__class__ is CelError:
            return one
        return other if other.__class__ is CelError else equal(one, other)

    return evaluate


def inequality(left: Evaluate, right: Evaluate) -> Evaluate:
    """Evaluate `!=`."""
    inequality_cost = cost.inequality_cost

    def evaluate(frame: Frame) -> Value:
        one, other = left(frame), right(frame)
        frame.run.cost += inequality_cost(one, other)
        if one.__class__ is CelError:
            return one
        return other if other.__class__ is CelError else equal(one, other) is not True

    return evaluate


def fallback(left: Evaluate, right: Evaluate, *, unwrap: bool, strict: bool) -> Evaluate:
    """Evaluate `or` or, with `unwrap`, `orValue`. With `strict`, values that are not optional are errors."""

    def evaluate(frame: Frame) -> Value:
        value = left(frame)
        if value.__class__ is not Optional:
            return no_such_overload() if strict and value.__class__ is not CelError else value
        if value.present:
            return value.value if unwrap else value
        return right(frame)

    return evaluate


def membership(arg: Evaluate, keys: Any) -> Evaluate:
    """Evaluate `in` with a constant list. It has no cost."""

    def evaluate(frame: Frame) -> Value:
        value = arg(frame)
        return value if value.__class__ is CelError else is_member(keys, value)

    return evaluate


def unary(call: Callable[..., Value], arg: Evaluate, call_cost: cost.CallCost, *, strict: bool) -> Evaluate:
    """Call a function with one argument."""

    def evaluate(frame: Frame) -> Value:
        value = arg(frame)
        result = value if strict and value.__class__ is CelError else call(value)
        frame.run.cost += call_cost if call_cost.__class__ is int else call_cost((value,), result)  # type: ignore[operator]
        return result

    return evaluate


def binary(call: Callable[..., Value], left: Evaluate, right: Evaluate, call_cost: cost.CallCost) -> Evaluate:
    """Call a function with two arguments. Both are evaluated, even if the first is an error."""

    def evaluate(frame: Frame) -> Value:
        one, other = left(frame), right(frame)
        if one.__class__ is CelError:
            result = one
        elif other.__class__ is CelError:
            result = other
        else:
            result = call(one, other)
        frame.run.cost += call_cost if call_cost.__class__ is int else call_cost((one, other), result)  # type: ignore[operator]
        return result

    return evaluate


def variadic(call: Callable[..., Value], args: list[Evaluate], call_cost: cost.CallCost) -> Evaluate:
    """Call a function. The first argument that is an error ends the evaluation: without a cost, if others follow."""

    def evaluate(frame: Frame) -> Value:
        values = []
        error: CelError | None = None
        for arg in args:
            value = arg(frame)
            values.append(value)
            if value.__class__ is CelError:
                error = value
                break
        result = call(*values) if error is None else error
        if len(values) == len(args):
            frame.run.cost += call_cost if call_cost.__class__ is int else call_cost(values, result)  # type: ignore[operator]
        return result

    return evaluate


def with_kinds(name: str, call: Callable[..., Value], kinds: frozenset[str]) -> Callable[..., Value]:
    """Check the kind of the first argument before a call."""

    def checked(first: Value, *rest: Value) -> Value:
        kind = type_of(first).kind
        if kind in kinds:
            return call(first, *rest)
        return no_such_overload() if kind in _RECEIVERS else CelError(f"no such overload: {name}")

    return checked


def on_text(call: Callable[..., Value]) -> Callable[..., Value]:
    """Return the implementation for a constant pattern: it only examines the text."""
    return lambda text, *rest: call(text, *rest) if text.__class__ is str else no_such_overload()


def _wrong_arguments(name: str, args: tuple[Value, ...]) -> CelError:
    for arg in args:
        if arg.__class__ is CelError:
            return arg
    return CelError(f"no such overload: {name}({', '.join(type_of(arg).name for arg in args)})")


def guarded(name: str, overload: Overload, call: Callable[..., Value]) -> Callable[..., Value]:
    """Check the types of the arguments before a call."""
    expected = overload.args
    nonstrict = overload.nonstrict

    def guarded(*args: Value) -> Value:
        for of, arg in zip(expected, args, strict=True):
            if arg.__class__ is CelError:
                if not nonstrict:
                    return arg
            elif not matches_type(of, arg):
                return _wrong_arguments(name, args)
        return call(*args)

    return guarded


def dispatching(name: str, overloads: list[Overload], *, guarded: bool) -> Callable[..., Value]:
    """Choose the overload by the types of the arguments."""

    def dispatch(*args: Value) -> Value:
        for overload in overloads:
            if overload.call is None or len(overload.args) != len(args):
                continue
            if not guarded or all(matches_type(of, arg) for of, arg in zip(overload.args, args, strict=True)):
                return overload.call(*args)
        return _wrong_arguments(name, args)

    return dispatch


def new_list(elements: list[Evaluate], optional: frozenset[int]) -> Evaluate:
    """Evaluate a list literal."""

    def evaluate(frame: Frame) -> Value:
        result: list[Value] = []
        error: CelError | None = None
        for index, element in enumerate(elements):
            value = element(frame)
            if value.__class__ is CelError:
                error = value
                break
            if index in optional:
                if value.__class__ is not Optional:
                    text = text_of(value)
                    error = CelError(f"cannot initialize optional list element from non-optional value {text}")
                    break
                if not value.present:
                    continue
                value = value.value
            result.append(value)
        frame.run.cost += cost.NEW_LIST
        return result if error is None else error

    return evaluate


def new_map(entries: list[tuple[Evaluate, Evaluate, bool]]) -> Evaluate:
    """Evaluate a map literal."""

    def build(frame: Frame) -> Value:
        result = Map()
        for key_of, value_of, optional in entries:
            key = key_of(frame)
            if key.__class__ is CelError:
                return key
            value = value_of(frame)
            if value.__class__ is CelError:
                return value
            if optional:
                if value.__class__ is not Optional:
                    texts = f"'{text_of(key)}' from non-optional value {text_of(value)}"
                    return CelError(f"cannot initialize optional entry {texts}")
                if not value.present:
                    result.remove(key)
                    continue
                value = value.value
            result[key] = value
        return result

    def evaluate(frame: Frame) -> Value:
        result = build(frame)
        frame.run.cost += cost.NEW_MAP
        return result

    return evaluate


def new_struct(name: str, fields: list[Evaluate]) -> Evaluate:
    """Evaluate a struct literal. No declared type can be created."""

    def evaluate(frame: Frame) -> Value:
        error = CelError(f"unknown type '{name}'")
        for field in fields:
            value = field(frame)
            if value.__class__ is CelError:
                error = value
                break
        frame.run.cost += cost.NEW_STRUCT
        return error

    return evaluate


def fold(
    over: Evaluate, accu: Evaluate, condition: Evaluate, step: Evaluate, result: Evaluate, *, pairs: bool
) -> Evaluate:
    """Evaluate a loop; with `pairs`, it has two variables."""

    def evaluate(frame: Frame) -> Value:
        loop = Frame(frame, frame.run, frame.variables, accu)
        values = over(frame)
        if values.__class__ is CelError:
            return values
        if isinstance(values, list):
            entries: Any = enumerate(values) if pairs else ((value, None) for value in values)
        elif isinstance(values, Map):
            entries = values.items()
        elif pairs:
            return CelError(f"unsupported comprehension range type: {go_type(values)}")
        else:
            return CelError(f"got '{go_type(values)}', expected iterable type")
        run = frame.run
        for loop.first, loop.second in entries:
            if condition(loop) is False:
                break
            loop.accu = step(loop)
            loop.initialized = True
            run.step()
        value = result(loop)
        if loop.mutable:
            if value.__class__ is MutableList:
                return list(value)
            if value.__class__ is MutableMap:
                return value.frozen()
        return value

    return evaluate
