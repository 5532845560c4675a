"""The chart's files: made from the code as it is now, and in agreement. Rendering it is tested in tests/e2e."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import yaml

from mooring import __version__
from mooring.live.reload.reloader import _RELOADABLE

CHART: Final = Path(__file__).parents[2] / "charts" / "mooring"


def test_what_is_made_from_the_code_is_current() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/chart.py", "--check"],
        cwd=CHART.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"run python scripts/chart.py: {done.stdout}{done.stderr}"


def test_its_version_is_the_packages() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_the_schema_knows_every_value_and_no_other() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(schema["properties"]) - {"global"} == set(values)
    for name, value in values.items():
        known = schema["properties"][name].get("properties")
        if known is not None:
            assert set(known) == set(value), name


def test_what_is_reloaded_is_what_the_scheduler_reloads() -> None:
    """Changes of other fields must make new pods. `tieBreak` is in another document of the file."""
    text = (CHART / "templates" / "_config.tpl").read_text()
    (names,) = re.findall(r"omit \$said (.*?) \|", text)
    reloaded = {re.sub("_(.)", lambda found: found[1].upper(), name) for name in _RELOADABLE - {"version", "tie_break"}}
    assert set(names.replace('"', "").split()) == reloaded | {"apiVersion"}
