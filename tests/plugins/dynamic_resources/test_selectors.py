"""Selectors: one evaluation for each distinct content."""

from __future__ import annotations

from unittest import mock

import pytest

from mooring.plugins.dynamic_resources import selectors
from mooring.plugins.dynamic_resources.selectors import SelectorError, Selectors
from tests.plugins.device_world import gpu_slice, pools


def test_equal_devices_are_evaluated_once() -> None:
    (pool,) = pools(
        gpu_slice(devices=[*({"name": f"d{n}"} for n in range(8)), {"name": "x", "attributes": {"a": {"int": 1}}}])
    )
    selector = Selectors().of('device.driver == "gpu.example.com"')
    with mock.patch.object(selectors, "cel_device", side_effect=selectors.cel_device) as converted:
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
            Selectors().of(expression).matches(pool.contents[0])


def test_a_list_attribute_fails_every_selector() -> None:
    (pool,) = pools(gpu_slice(devices=[{"name": "d", "attributes": {"a": {"strings": ["x"]}}}]))
    with pytest.raises(SelectorError, match="attribute a: unsupported attribute value"):
        Selectors().of("true").matches(pool.contents[0])
