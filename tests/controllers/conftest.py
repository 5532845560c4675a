from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.controllers.jobs.job_world import scheduling
from tests.controllers.world import World, a_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(tmp_path) as found:
        yield found


@pytest.fixture
async def cluster(world: World) -> AsyncIterator[World]:
    """The world, with a scheduler and the controllers."""
    async with scheduling(world):
        yield world
