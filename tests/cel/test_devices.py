"""Selectors of devices."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from mooring.cel.attribute_values import AttributeValue, Version
from mooring.cel.devices import (
    CelDevice,
    CompileError,
    DeviceProgram,
    EvaluationError,
    EvaluationInterrupted,
    compile_selector,
)
from mooring.releases import V1_36, V1_37, Release

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
        ('semver("é", true).major() == 1', 'Invalid character(s) found in major number "0é"'),
        ('1 / (device.attributes["gpu.example.com"].index - 1) == 0', "division by zero"),
        ("lists.range(1000000).size() > 0", "operation cancelled: actual cost limit exceeded"),
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


# Recorded answers

RECORDED = Path(__file__).parent


def recorded_device(device: dict[str, Any]) -> CelDevice:
    attributes: dict[str, AttributeValue] = {}
    for name, value in device["attributes"].items():
        ((kind, content),) = value.items()
        attributes[name] = Version(content) if kind == "version" else content
    capacity = {name: value["value"] for name, value in device["capacity"].items()}
    return CelDevice(device["driver"], attributes, capacity, device.get("allowMultipleAllocations"))


def answer(program: DeviceProgram, device: CelDevice) -> list[object]:
    """The result or the message, and the cost (None where upstream has none)."""
    try:
        return [*program.matches_with_cost(device)]
    except EvaluationError as error:
        return [str(error), None]


@pytest.mark.parametrize("release", [V1_36, V1_37], ids=lambda release: release.version)
def test_expressions_have_the_results_messages_and_costs_of_kube_scheduler(release: Release) -> None:
    """Each line was answered by kube-scheduler's own package for device selectors, release 1.36.4 or 1.37.1."""
    recorded = RECORDED / f"kube-scheduler-{release.version}.jsonl.gz"
    lines = [json.loads(line) for line in gzip.decompress(recorded.read_bytes()).splitlines()]
    devices = [recorded_device(device) for device in lines[0]["devices"]]
    different = []
    for line in lines[1:]:
        expression = line["expression"]
        try:
            program = compile_selector(expression, list_attributes=release.selectors_read_lists, cel_go=release.cel_go)
            answers = [answer(program, device) for device in devices]
        except CompileError:
            if line.get("compiles", True):
                different.append((expression, "does not compile"))
            continue
        expected = [[result, cost if isinstance(result, bool) else None] for result, cost in line.get("results", [])]
        if answers != expected:
            different.append((expression, answers, expected))
    assert len(lines) > 500
    assert different == []


# Hostile expressions


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 5_000 + "true" + ")" * 5_000,
        "[" * 5_000,
        "!(" * 400 + "true" + ")" * 400,
        "+".join(["1"] * 1_000) + " > 0",
        "dyn(device)" + ".a" * 1_000 + " == 1",
        "true ? true : " * 1_000 + "true",
        "[1].all(x, " * 300 + "true" + ")" * 300,
        '"' + "a" * 100_001 + '" == ""',
        '"""' * 30_001,
    ],
)
def test_nesting_and_length_are_limited(expression: str) -> None:
    with pytest.raises(CompileError):
        compile_selector(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "cel.bind(a, lists.range(400000), cel.bind(b, a + a, cel.bind(c, b + b, cel.bind(d, c + c, d + d == d))))",
        "cel.bind(r, lists.range(900000), [r, r, r, r, r, r, r, r].flatten().size() > 0)",
        "cel.bind(s, lists.range(9000).map(x, 'a').join(), s.replace('', s).size() > 0)",
        "lists.range(9223372036854775807).size() > 0",
    ],
)
def test_an_expensive_evaluation_ends_with_an_error(expression: str) -> None:
    with pytest.raises(EvaluationError):
        compile_selector(expression).matches(GPU)


def test_a_loop_ends_at_the_deadline() -> None:
    program = compile_selector("lists.range(100000).all(x, x >= 0)")
    with pytest.raises(EvaluationInterrupted):
        program.matches(GPU, deadline=0.0)


# List attributes


def test_list_attributes_need_their_feature_gate() -> None:
    device = CelDevice("gpu.example.com", {"models": ("a100", "h100"), "versions": (Version("1.0.0"),)}, {})
    expression = 'device.attributes["gpu.example.com"].models.includes("h100")'
    assert compile_selector(expression, list_attributes=True).matches(device)
    with pytest.raises(EvaluationError, match="attribute models: unsupported attribute value"):
        compile_selector(expression).matches(device)
