"""What pods request of shared devices, and amounts in annotations."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.node import Node
from mooring.batch.device_pools import DeviceKind, Request, integer, requests_of
from tests.batch.test_shared_gpus import asking

NAMES = ("volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/percent", "volcano.sh/vgpu-cores")


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"vgpu_number": 2}, [Request(2, 0, 100, 0)]),
        ({"vgpu_memory": 5}, [Request(1, 5, None, 0)]),
        ({"vgpu_number": 1, "vgpu_memory": 5, "vgpu_cores": 7}, [Request(1, 5, None, 7)]),
        ({"vgpu_number": 1, "percent": 30}, [Request(1, 0, 30, 0)]),
        ({"vgpu_number": 1, "percent": 101, "vgpu_memory": 4}, [Request(1, 4, None, 0)]),
        ({"vgpu_cores": 7}, []),
        ({"vgpu_number": "9" * 30, "vgpu_memory": "-5", "vgpu_cores": "10n"}, [Request(2**31 - 1, 0, 100, 1)]),
    ],
)
def test_requests(limits: dict[str, Any], expected: list[Request]) -> None:
    assert requests_of(asking(**limits), *NAMES) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("12", 12), ("-1", 0), ("", 0), ("1e3", 0), ("\u0663", 0), ("9" * 19, 2**31 - 1), ("9" * 5000, 0)],
)
def test_numbers_of_annotations(text: str, expected: int) -> None:
    assert integer(text) == expected


def test_a_kind_is_requested_by_limits() -> None:
    def none(node: Node) -> None: ...

    kind = DeviceKind("k", frozenset(NAMES[:2]), none)
    assert kind.asked_by(asking(vgpu_memory=1))
    assert not kind.asked_by(asking(vgpu_cores=1))
