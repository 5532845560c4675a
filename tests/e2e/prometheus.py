"""Prometheus and promtool: found on the path, or taken from Debian's package without installing it."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Final

import yaml

from tests.e2e.controlplane import ControlPlane, free_port
from tests.e2e.controlplane.commands import LOOPBACK
from tests.e2e.controlplane.parts import cache_folder

_REMEDY: Final = (
    "install Prometheus (Debian: apt-get install prometheus) so that prometheus and promtool are on the path"
)


class MissingError(Exception):
    """Prometheus is not there and cannot be fetched; the message says why, and what to do."""


@functools.cache
def program(name: str) -> Path:
    """The path of `prometheus` or `promtool`. Raises MissingError."""
    if (found := shutil.which(name)) is not None:
        return Path(found)
    unpacked = cache_folder().parent / "prometheus"
    if not (unpacked / "usr" / "bin" / name).exists():
        _unpack(unpacked)
    return unpacked / "usr" / "bin" / name


def _unpack(target: Path) -> None:
    """Download Debian's package and unpack it; nothing is installed or started."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise MissingError(f"there is no apt-get here; {_REMEDY}")
    with tempfile.TemporaryDirectory() as folder:
        download = ["apt-get", "--quiet", "download", "prometheus"]
        done = subprocess.run(download, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode and os.geteuid() == 0:
            subprocess.run(["apt-get", "--quiet", "update"], capture_output=True, check=False, timeout=300)
            done = subprocess.run(download, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
        packages = list(Path(folder).glob("*.deb"))
        if done.returncode or not packages:
            raise MissingError(f"apt-get cannot download it: {done.stderr.strip()[-300:]}; {_REMEDY}")
        target.parent.mkdir(parents=True, exist_ok=True)
        # Another process may do the same at the same time.
        made = Path(tempfile.mkdtemp(dir=target.parent))
        subprocess.run(["dpkg-deb", "--extract", packages[0], made], check=True, timeout=120)
        shutil.rmtree(target, ignore_errors=True)
        made.rename(target)


class Prometheus:
    """A Prometheus that scrapes jobs on this machine every second and evaluates rules as often."""

    def __init__(self, plane: ControlPlane, folder: Path, jobs: dict[str, list[int]], rules: Path) -> None:
        self._port = free_port()
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rules)],
            "scrape_configs": [
                {
                    "job_name": name,
                    "scheme": "https",
                    "tls_config": {"insecure_skip_verify": True},
                    "authorization": {"credentials": plane.users["admin"].token},
                    "static_configs": [{"targets": [f"{LOOPBACK}:{port}" for port in ports]}],
                }
                for name, ports in jobs.items()
            ],
        }
        file = folder / "prometheus.yaml"
        file.write_text(yaml.safe_dump(config))
        command = [str(program("prometheus")), f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}"]
        command += [f"--web.listen-address={LOOPBACK}:{self._port}"]
        self.process = plane.run("prometheus", command, ready=self._is_ready)

    def values(self, expression: str) -> list[float]:
        """The values of an expression now."""
        found = self._get("/api/v1/query", query=expression)["result"]
        return [float(each["value"][1]) for each in found]

    def alerts(self) -> dict[str, str]:
        """The alerts that fire or will, by name, with their state."""
        return {each["labels"]["alertname"]: each["state"] for each in self._get("/api/v1/alerts")["alerts"]}

    def broken_targets(self) -> list[str]:
        """The targets that could not be scraped, with the reason."""
        found = self._get("/api/v1/targets")["activeTargets"]
        return [f"{each['scrapeUrl']}: {each['lastError']}" for each in found if each["health"] != "up"]

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{LOOPBACK}:{self._port}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _get(self, path: str, **query: str) -> Any:
        url = f"http://{LOOPBACK}:{self._port}{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=20) as answer:
            return json.load(answer)["data"]
