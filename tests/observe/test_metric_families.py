"""prometheus_client is imported when metrics are read first."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mooring.observe import metric_families

_PROGRAM = """
import sys
import mooring.cli.run, mooring.live
from mooring.observe.scheduler_metrics import SchedulerMetrics

metrics = SchedulerMetrics()
metrics.add(lambda registry: print("registry"))
print("prometheus_client" in sys.modules)
metrics.pod_attempts.observe(1)
print(b"scheduler_pod_scheduling_attempts_count 1.0" in metrics.render()[0])
print(b"process_cpu_seconds_total" in metrics.render()[0])
"""


def test_the_library_is_imported_when_metrics_are_read() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", "registry", "True", "True"]


def test_other_names_are_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Summary'"):
        _ = metric_families.Summary
