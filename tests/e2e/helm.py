"""Helm as a user runs it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

import yaml

from tests.e2e.controlplane import ControlPlane, Object
from tests.e2e.controlplane.parts import binary

CHART: Final = Path(__file__).parents[2] / "charts" / "mooring"
VALUES: Final = sorted((CHART / "ci").glob("*-values.yaml"))
_SECONDS: Final = 120.0


class HelmError(Exception):
    """Helm ended with an error; the message is what it said."""


class Helm:
    """Helm with folders of its own, on a control plane or without one."""

    def __init__(
        self, folder: Path, plane: ControlPlane | None = None, kubeconfig: Path = Path("/nonexistent")
    ) -> None:
        names = {name: str(folder / name.lower()) for name in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")}
        chosen = str(plane.kubeconfig()) if plane is not None else str(kubeconfig)
        self._env = os.environ | names | {"KUBECONFIG": chosen, "HOME": str(folder)}

    def __call__(self, *arguments: str | Path, stdin: str | None = None) -> str:
        """Run a command, and hand back what it printed. Raises HelmError."""
        done = subprocess.run(
            [str(binary("helm")), *map(str, arguments)],
            input=stdin,
            env=self._env,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
        if done.returncode:
            raise HelmError(f"helm {' '.join(map(str, arguments))}: {(done.stderr or done.stdout).strip()}")
        return done.stdout + done.stderr

    def template(self, *arguments: str | Path, release: str = "mooring", namespace: str = "mooring") -> list[Object]:
        """The objects that the chart makes."""
        text = self("template", release, CHART, "--namespace", namespace, *arguments)
        return [each for each in yaml.safe_load_all(text) if each]


def of_kind(objects: list[Object], kind: str, name: str = "") -> Object:
    """The one object of a kind, or of a kind and a name."""
    (found,) = [each for each in objects if each["kind"] == kind and name in ("", each["metadata"]["name"])]
    return found
