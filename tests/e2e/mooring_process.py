"""Mooring as a process beside a control plane."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from tests.e2e.controlplane import ControlPlane, free_port

MOORING: Final = Path(sys.executable).parent / "mooring"


def mooring_command(plane: ControlPlane, *flags: str, user: str = "scheduler", port: int = 0) -> list[str]:
    """The command line of `mooring run` on a control plane."""
    return [
        str(MOORING),
        "run",
        "--kubeconfig",
        str(plane.kubeconfig(user)),
        "--bind-address",
        "127.0.0.1",
        "--secure-port",
        str(port or free_port()),
        "-v",
        "4",
        *flags,
    ]
