"""`mooring cluster start`: quick up, a kubeconfig of one's own, and one clear sentence when it cannot."""

import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import yaml

from tests.waiting import PATIENCE

START = [sys.executable, "-c", "import sys; from mooring.cli.cluster import cluster; cluster(sys.argv[1:])", "start"]


def _start(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*START, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ}
    )


def test_it_starts_tells_how_to_use_it_and_ends(tmp_path: Path) -> None:
    """The kubeconfig is readable by its owner alone, and SIGTERM is a good end."""
    kubeconfig = tmp_path / "deep" / "kubeconfig"
    process = _start("--port", "0", "--nodes", "2", "--kubeconfig-out", str(kubeconfig))
    assert process.stdout is not None
    lines = [process.stdout.readline().strip() for _ in range(4)]
    assert lines[0].startswith("The embedded cluster is serving https://127.0.0.1:")
    assert lines[1] == f"export KUBECONFIG={kubeconfig}"
    assert stat.S_IMODE(kubeconfig.stat().st_mode) == 0o600
    document = yaml.safe_load(kubeconfig.read_text())
    assert document["clusters"][0]["cluster"]["server"] == lines[0].split()[5].rstrip(";")
    assert len(document["users"][0]["user"]["token"]) > 30
    process.send_signal(signal.SIGTERM)
    rest, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, rest) == (0, "")


def test_a_busy_port_is_one_message(tmp_path: Path) -> None:
    """It names the port and what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = _start("--port", str(port), "--kubeconfig-out", str(tmp_path / "k"))
        output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert output.startswith(f"Error: cannot use port {port}: ")
    assert "Traceback" not in output


def test_a_bad_data_folder_is_one_message(tmp_path: Path) -> None:
    """And nothing is left running."""
    file = tmp_path / "file"
    file.write_text("")
    process = _start("--port", "0", "--data-dir", str(file / "inside"), "--kubeconfig-out", str(tmp_path / "k"))
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert "cannot be used as data folder" in output
    assert "Traceback" not in output
