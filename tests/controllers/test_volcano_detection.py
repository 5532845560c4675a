"""Detection of Volcano's controllers by objects that anyone with access to the namespace can write."""

from __future__ import annotations

from typing import Any, cast

import pytest

from mooring.api.coordination import Lease, LeaseSpec
from mooring.controllers.volcano_detection import VolcanoDetector
from mooring.kube import Client, NotFound


class Server:
    """Returns a lease, and no Deployment."""

    def __init__(self, renewed: str, seconds: int) -> None:
        self.spec = LeaseSpec(holder_identity="someone", renew_time=renewed, lease_duration_seconds=seconds)

    async def get(self, _kind: object, _name: str, **_: Any) -> Lease:
        return Lease(spec=self.spec)

    async def send(self, *_: Any) -> Any:
        raise NotFound(404)


@pytest.mark.parametrize(
    ("renewed", "seconds", "detected"),
    [
        ("2026-01-31T12:00:00Z", 15, True),
        ("2026-01-31T11:00:00Z", 15, False),
        ("0000-02-29T00:00:00Z", 15, False),
        ("2026-01-31T12:00:00Z", -(2**31), False),
        ("yesterday", 2**31 - 1, False),
        ("", 0, False),
    ],
)
async def test_a_lease(renewed: str, seconds: int, detected: bool) -> None:
    detector = VolcanoDetector(cast(Client, Server(renewed, seconds)), clock=lambda: 1769860801.0)
    assert bool(await detector.detect()) == detected
