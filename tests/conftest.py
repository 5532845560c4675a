from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from mooring import unexpected_errors
from mooring.logs import reset_logs

# A slow machine is no fault of the example that runs on it.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


@pytest.fixture(autouse=True)
def _logs_of_its_own() -> Iterator[None]:
    """Logs are configured for the whole process: what one test (or the command it runs) sets is not for the next."""
    unexpected_errors._reports._seen.clear()
    yield
    reset_logs()
