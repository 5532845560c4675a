"""Lookups: variables, fields and indexes, and the plans of nodes before they become closures.

As in cel-go, a field of a field extends the lookup of its operand. This matters for the cost, for optional fields, and
for tests with `has`.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from mooring.cel.interpreter import Evaluate, Frame
from mooring.cel.values import (
    MAX_INT,
    MISSING,
    NONE,
    CelError,
    Map,
    Opaque,
    Optional,
    Uint,
    Value,
    go_type,
    no_such_overload,
    text_of,
    type_of,
)


class ConstantPlan:
    """A planned constant."""

    def __init__(self, value: Value) -> None:
        self.value = value

    def build(self) -> Evaluate:
        """Return the closure."""
        value = self.value
        return lambda _: value


class StepPlan:
    """A planned call, list, map or loop."""

    def __init__(self, build: Callable[[], Evaluate]) -> None:
        self.build = build


class Qualifier:
    """A field or index: a constant key, or an expression."""

    __slots__ = ("key", "optional", "resolve", "test_only")

    def __init__(
        self, key: Value, resolve: "Callable[[], Evaluate] | None", *, optional: bool, test_only: bool
    ) -> None:
        self.key = key
        self.resolve = resolve
        self.optional = optional
        self.test_only = test_only


class Attribute:
    """A variable or the result of an expression, with fields and indexes that are looked up in it."""

    conditional = False

    def __init__(self, base: Callable[[], Evaluate]) -> None:
        self._base = base
        self._qualifiers: list[Qualifier] = []

    def add(self, qualifier: Qualifier) -> None:
        """Add a field or index."""
        self._qualifiers.append(qualifier)

    def resolver(self) -> Evaluate:
        """Return what looks the value up. Fields and indexes cost 1 each."""
        base = self._base()
        if not self._qualifiers:

            def resolve(frame: Frame) -> Value:
                obj = base(frame)
                return obj if obj.__class__ is not Optional else _unwrapped(obj)

            return resolve
        if all(each.resolve is None and not each.optional and not each.test_only for each in self._qualifiers):
            return _constant_path(base, [each.key for each in self._qualifiers])
        steps = [
            (each.key, None if each.resolve is None else each.resolve(), each.optional, each.test_only)
            for each in self._qualifiers
        ]
        return _general_path(base, steps)


class Conditional:
    """A ternary: fields and indexes are looked up in the branch that is chosen."""

    conditional = True

    def __init__(self, condition: "Plan", truthy: "AnyAttribute", falsy: "AnyAttribute") -> None:
        self._condition = condition
        self._truthy = truthy
        self._falsy = falsy

    def add(self, qualifier: Qualifier) -> None:
        """Add a field or index to both branches."""
        self._truthy.add(qualifier)
        self._falsy.add(qualifier)

    def resolver(self) -> Evaluate:
        """Return what evaluates the condition and one branch."""
        condition, truthy, falsy = self._condition.build(), self._truthy.resolver(), self._falsy.resolver()

        def resolve(frame: Frame) -> Value:
            chosen = condition(frame)
            if chosen is True:
                return truthy(frame)
            if chosen is False:
                return falsy(frame)
            return chosen if chosen.__class__ is CelError else no_such_overload()

        return resolve


AnyAttribute: TypeAlias = Attribute | Conditional


class LookupPlan:
    """A planned attribute."""

    def __init__(self, attribute: AnyAttribute, *, test_only: bool = False) -> None:
        self.attribute = attribute
        self.test_only = test_only

    def build(self) -> Evaluate:
        """Return the closure."""
        resolve = self.attribute.resolver()
        test_only = self.test_only
        fixed = (0 if self.attribute.conditional else 1) - (1 if test_only else 0)

        def evaluate(frame: Frame) -> Value:
            value = resolve(frame)
            frame.run.cost += fixed
            if test_only and value.__class__ is Optional:
                return value.present
            return value

        return evaluate


Plan: TypeAlias = ConstantPlan | StepPlan | LookupPlan


def _unwrapped(value: Optional) -> Value:
    """Return an optional value after a lookup: what it contains loses what only the library knows about it."""
    if not value.present:
        return value
    inner = value.value
    if isinstance(inner, Opaque):
        return Optional(CelError(f"unsupported conversion to ref.Val: ({inner.native_type}){inner}"))
    return Optional(inner.plain()) if isinstance(inner, Map) else value


def _constant_path(base: Evaluate, keys: list[Value]) -> Evaluate:
    def resolve(frame: Frame) -> Value:
        obj = base(frame)
        cls = obj.__class__
        if cls is CelError:
            return obj
        if cls is Optional:
            return _apply(frame, obj, [(key, None, False, False) for key in keys])
        run = frame.run
        for key in keys:
            run.cost += 1
            if isinstance(obj, Map):
                found = obj.find(key)
                if found is MISSING:
                    return CelError(f"no such key: {text_of(key)}")
                obj = found
            else:
                obj = _qualify(obj, key)
                if obj.__class__ is CelError:
                    return obj
        return obj

    return resolve


_Step: TypeAlias = tuple[Value, Evaluate | None, bool, bool]


def _general_path(base: Evaluate, steps: list[_Step]) -> Evaluate:
    def resolve(frame: Frame) -> Value:
        obj = base(frame)
        return obj if obj.__class__ is CelError else _apply(frame, obj, steps)

    return resolve


def _apply(frame: Frame, obj: Value, steps: list[_Step]) -> Value:
    """Look up fields and indexes one after the other."""
    is_optional = obj.__class__ is Optional
    if is_optional:
        if not obj.present:
            return obj
        obj = obj.value
        if isinstance(obj, Map):
            obj = obj.plain()
        elif isinstance(obj, Opaque):
            return CelError(f"unsupported conversion to ref.Val: ({obj.native_type}){obj}")
    for constant, resolve, optional, test_only in steps:
        is_optional = is_optional or optional
        key = constant
        if resolve is not None:
            key = resolve(frame)
            if key.__class__ is CelError:
                if not is_optional:
                    frame.run.cost += 1
                return key
            if key.__class__ not in KEY_CLASSES:
                if not is_optional:
                    frame.run.cost += 1
                return CelError(f"invalid qualifier type: {go_type(key)}")
        if is_optional or test_only:
            found = _qualify_if_present(obj, key)
            if found.__class__ is CelError:
                if not is_optional or test_only:
                    frame.run.cost += 1
                return found
            if test_only:
                if is_optional and found is MISSING:
                    return NONE
                frame.run.cost += 1
                obj = True if is_optional else found is not MISSING
                continue
            if found is MISSING:
                return NONE
            frame.run.cost += 1
            obj = found
        else:
            frame.run.cost += 1
            obj = _qualify(obj, key)
            if obj.__class__ is CelError:
                return obj
    return Optional(obj) if is_optional else obj


KEY_CLASSES: Final = frozenset({str, int, Uint, bool, float})


def _index(obj: list[Value], key: Value) -> Value:
    """Return an element, MISSING, or an error if the key is no index."""
    cls = key.__class__
    if cls is float or cls is Uint:
        if key != key or key in {float("inf"), float("-inf")} or key != int(key) or not -MAX_INT <= key <= MAX_INT:  # noqa: PLR0124
            return CelError(f"unsupported index value {text_of(key)} in list")
        index = int(key)
    elif cls is int:
        index = key
    else:
        return CelError(f"unsupported index type '{type_of(key)}' in list")
    return obj[index] if 0 <= index < len(obj) else MISSING


def _qualify(obj: Value, key: Value) -> Value:
    """Return a field or element, or an error."""
    found = _qualify_if_present(obj, key)
    if found is MISSING:
        kind = "index out of bounds" if isinstance(obj, list) else "no such key"
        return CelError(f"{kind}: {text_of(key)}")
    return found


def _qualify_if_present(obj: Value, key: Value) -> Value:
    """Return a field or element, MISSING, or an error."""
    if isinstance(obj, Map):
        return obj.find(key)
    if isinstance(obj, list):
        return _index(obj, key)
    return MISSING
