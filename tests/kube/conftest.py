"""What the client's tests share."""

from collections.abc import AsyncIterator

import pytest

from tests.kube.server import Api


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with Api() as server:
        yield server


@pytest.fixture
async def tls_api() -> AsyncIterator[Api]:
    async with Api(tls=True) as server:
        yield server
