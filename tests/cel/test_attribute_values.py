"""Which values of expressions are values of attributes; every kind is compared with upstream in tests/golden."""

from __future__ import annotations

import pytest

from mooring.cel.attribute_values import AttributeValue, Version
from mooring.cel.devices import CelDevice, CompileError, EvaluationError, compile_derived

DEVICE = CelDevice("d.example.com", {"numa": 1, "name": "a-b", "version": Version("1.2.3")}, {})


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("device.attributes['d.example.com'].numa + 1", 2),
        ("device.attributes['d.example.com'].name.split('-')", ("a", "b")),
        ("device.attributes['d.example.com'].version", Version("1.2.3")),
        ("[semver('1.0.0')]", (Version("1.0.0"),)),
        ("device.allowMultipleAllocations", False),
        ("[]", ()),
        ("dyn(type(1))", "int"),
        ("dyn(optional.of(3))", 3),
    ],
)
def test_values(expression: str, value: AttributeValue) -> None:
    found = compile_derived(expression, list_attributes=True).attribute(DEVICE)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("dyn(1.5)", "unsupported CEL return type: float64"),
        ("[dyn(1), dyn('a')]", "expected list element at index 1 to be int, got string"),
        ("dyn([null])", "unsupported list element type: structpb.NullValue"),
        ("device.attributes['d.example.com'].nope", "no such key: nope"),
    ],
)
def test_values_that_no_attribute_has(expression: str, message: str) -> None:
    with pytest.raises(EvaluationError, match=f"^{message}"):
        compile_derived(expression, list_attributes=True).attribute(DEVICE)


@pytest.mark.parametrize(("expression", "kind"), [("1.5", "double"), ("[[1]]", r"list\(list\(int\)\)")])
def test_types_that_no_attribute_has(expression: str, kind: str) -> None:
    with pytest.raises(CompileError, match=rf"^must evaluate to a primitive scalar .*, not {kind}$"):
        compile_derived(expression, list_attributes=True)
