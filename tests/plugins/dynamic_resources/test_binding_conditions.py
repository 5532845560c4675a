"""Binding conditions: ready, waiting, failed, timed out."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.plugins.dynamic_resources.binding_conditions import DeviceBindingError, is_ready, is_timed_out
from tests.plugins.device_world import DRIVER, allocated, claim

STATUS = allocated("gpu-0", bindingConditions=["ready"], bindingFailureConditions=["broken"])


def made(*conditions: tuple[str, str], devices: bool = True) -> Any:
    listed = [{"type": kind, "status": status, "reason": "R", "message": "M"} for kind, status in conditions]
    entry = {"driver": DRIVER, "pool": "n0", "device": "gpu-0", "conditions": listed}
    return claim(status={**STATUS, "devices": [entry] if devices else []})


@pytest.mark.parametrize(
    ("tried", "ready"),
    [
        (claim(status=allocated("gpu-0")), True),
        (made(devices=False), False),
        (made(), False),
        (made(("ready", "False")), False),
        (made(("ready", "True")), True),
        (claim(), False),
    ],
)
def test_ready(tried: Any, ready: bool) -> None:
    assert is_ready(tried) is ready


def test_failed() -> None:
    with pytest.raises(DeviceBindingError, match='device binding failed: claim=c, reason=R, message="M"'):
        is_ready(made(("ready", "True"), ("broken", "True")))


@pytest.mark.parametrize(("now", "expected"), [(1_700_000_000.0, False), (1_700_000_601.0, True)])
def test_timeout(now: float, expected: bool) -> None:
    status = {"allocation": {**STATUS["allocation"], "allocationTimestamp": "2023-11-14T22:13:20Z"}}
    assert is_timed_out(claim(status=status), now, 600.0) is expected
    assert not is_timed_out(claim(status=STATUS), now, 600.0)
