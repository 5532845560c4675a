"""Selectors: one evaluation for each distinct content."""

from __future__ import annotations

import itertools
from unittest import mock

import pytest

from mooring.plugins.dynamic_resources import device_expressions
from mooring.plugins.dynamic_resources.selectors import SelectorError, Selectors
from mooring.releases import V1_36, V1_37
from tests.plugins.device_world import gpu_slice, pools


def test_equal_devices_are_evaluated_once() -> None:
    (pool,) = pools(
        gpu_slice(devices=[*({"name": f"d{n}"} for n in range(8)), {"name": "x", "attributes": {"a": {"int": 1}}}])
    )
    selector = Selectors(V1_36).of('device.driver == "gpu.example.com"')
    with mock.patch.object(device_expressions, "cel_device", side_effect=device_expressions.cel_device) as converted:
        assert all(selector.matches(content) for content in pool.contents)
    assert converted.call_count == 2


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("device.nope", "CEL compile error: compilation failed"),
        ('device.attributes["a"].b == 1', "CEL runtime error: no such key: b"),
    ],
)
def test_errors(expression: str, text: str) -> None:
    (pool,) = pools(gpu_slice())
    for _ in range(2):
        with pytest.raises(SelectorError, match=text):
            Selectors(V1_36).of(expression).matches(pool.contents[0])


def test_a_busy_machine_interrupts_no_evaluation() -> None:
    (pool,) = pools(gpu_slice())
    selector = Selectors(V1_36).of("lists.range(20000).all(x, x >= 0)")
    with mock.patch("time.monotonic", side_effect=itertools.count(0.0, 100.0)):
        assert selector.matches(pool.contents[0])


def test_an_evaluation_ends_by_its_cost_before_its_time() -> None:
    (pool,) = pools(gpu_slice())
    numbers = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
    expression = "int('1'.find('[0-9]*')) < 100"
    for level in range(7):
        expression = f"{numbers}.all(x{level}, {expression})"
    with pytest.raises(SelectorError, match="CEL runtime error: operation cancelled: actual cost limit exceeded"):
        Selectors(V1_36).of(expression).matches(pool.contents[0])


def test_a_list_attribute_fails_every_selector() -> None:
    (pool,) = pools(gpu_slice(devices=[{"name": "d", "attributes": {"a": {"strings": ["x"]}}}]))
    with pytest.raises(SelectorError, match="attribute a: unsupported attribute value"):
        Selectors(V1_36).of("true").matches(pool.contents[0])


def test_release_1_37_reads_lists_and_advises_on_missing_keys() -> None:
    (pool,) = pools(gpu_slice(devices=[{"name": "d", "attributes": {"a": {"strings": ["x"]}}}]))
    selector = Selectors(V1_37).of('device.attributes["gpu.example.com"].a.exists(each, each == "x")')
    assert selector.matches(pool.contents[0])
    with pytest.raises(SelectorError, match=r"no such key: b\. consider using CEL optional chaining") as raised:
        Selectors(V1_37).of('device.attributes["a"].b == 1').matches(pool.contents[0])
    assert raised.value.names_device
