"""Selectors of devices."""

import pytest

from mooring.cel.devices import CelDevice, CompileError, EvaluationError, Version, compile_selector

GPU = CelDevice(
    driver="gpu.example.com",
    attributes={
        "model": "a100",
        "index": 1,
        "firmware": Version("1.2.3"),
        "healthy": True,
        "nic.example.com/speed": 100,
    },
    capacity={"memory": "40Gi"},
)


@pytest.mark.parametrize(
    ("expression", "cost"),
    [
        ('device.driver == "gpu.example.com"', 4),
        ('device.attributes["gpu.example.com"].model == "a100"', 5),
        ('device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("20Gi"))', 6),
        ('device.attributes["gpu.example.com"].firmware.isLessThan(semver("2.0.0"))', 6),
        ('device.attributes["nic.example.com"].speed >= 100', 5),
        ("device.allowMultipleAllocations == false", 3),
        ('!has(device.attributes["absent.example.com"].x)', 4),
        ("[1, 2, 3].all(x, x > 0)", 16),
    ],
)
def test_a_device_matches_at_a_cost(expression: str, cost: int) -> None:
    assert compile_selector(expression).matches_with_cost(GPU) == (True, cost)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ('device.attributes["gpu.example.com"].memory == 1', "no such key: memory"),
        ('device.attributes["absent.example.com"].x', "no such key: x"),
        ('device.attributes["gpu.example.com"].model > 5', "no such overload"),
        (
            'quantity("1x").isInteger()',
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        ('semver("x.y").major() == 1', "No Major.Minor.Patch elements found"),
        ('1 / (device.attributes["gpu.example.com"].index - 1) == 0', "division by zero"),
        ("lists.range(1000).all(x, lists.range(1000).all(y, true))", "operation cancelled: actual cost limit exceeded"),
    ],
)
def test_an_evaluation_fails_with_the_message_of_upstream(expression: str, message: str) -> None:
    with pytest.raises(EvaluationError) as raised:
        compile_selector(expression).matches(GPU)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    "expression", ["device.nope", "x == 1", "device.driver", "1 +", '"a" == 1', "noSuchFunction(device)"]
)
def test_an_expression_does_not_compile(expression: str) -> None:
    with pytest.raises(CompileError):
        compile_selector(expression)
