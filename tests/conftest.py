from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from mooring import unexpected_errors
from mooring.logs import reset_logs

# A slow machine is no fault of the example that runs on it. The examples are the same in every run, so that a change
# is not refused for what it did not change; `pytest --hypothesis-profile=explore` draws new ones.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("any machine", parent=settings.get_profile("explore"), derandomize=True)
settings.load_profile("any machine")
# Compiled tests are kept for the next run, also on machines that write no bytecode by default.
sys.dont_write_bytecode = False
# A shell without job control starts background commands with SIGINT ignored, and programs that tests interrupt
# would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the modules and the thousands of tests out of garbage collections: they are there until the end."""
    gc.disable()
    collected = yield
    gc.collect()
    gc.freeze()
    gc.enable()
    return collected


@pytest.fixture(autouse=True)
def _logs_of_its_own() -> Iterator[None]:
    """Logs are configured for the whole process: what one test (or the command it runs) sets is not for the next."""
    unexpected_errors._reports._seen.clear()
    yield
    reset_logs()
