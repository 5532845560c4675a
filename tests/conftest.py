from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog

from mooring.observe.logs import configure_logs


@pytest.fixture(autouse=True)
def _logs_of_its_own() -> Iterator[None]:
    """Logs are configured for the whole process: what one test (or the command it runs) sets is not for the next."""
    yield
    if structlog.is_configured():
        configure_logs(0, as_json=False)
        structlog.reset_defaults()
