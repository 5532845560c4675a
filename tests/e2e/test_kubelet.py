"""What plays the pods: their command runs wherever the checkout and its environment lie."""

from __future__ import annotations

import json
import os
import site
import subprocess
import sys
import venv
from pathlib import Path

from mooring import __version__
from tests.e2e.kubelet import SANDBOX, SOURCE, UNSHARE, image_programs


def test_the_command_runs_though_a_volume_hides_its_environment(tmp_path: Path) -> None:
    """As in a checkout below /tmp, where the chart mounts an empty folder."""
    environment = tmp_path / "environment"
    venv.create(environment, symlinks=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "all.pth").write_text("".join(f"/.host{each}\n" for each in site.getsitepackages()))
    (tmp_path / "root").mkdir()
    (tmp_path / "empty").mkdir()
    top = Path(*tmp_path.parts[:2])
    spec = {
        "root": str(tmp_path / "root"),
        "mounts": [{"from": str(tmp_path / "empty"), "to": str(top), "readOnly": False}],
        "command": ["mooring", "run", "--version"],
        "env": {
            "PATH": f"/.host{image_programs(tmp_path, environment / 'bin' / 'python')}:/usr/bin:/bin",
            "PYTHONPATH": f"/.host{SOURCE}",
        },
    }
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    done = subprocess.run(
        [*UNSHARE, sys.executable, str(SANDBOX), str(tmp_path / "spec.json")],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),
        timeout=60,
    )
    assert __version__ in done.stdout, done.stdout + done.stderr
