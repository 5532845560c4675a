"""The kubeconfig with which kubectl and everybody else reaches the embedded cluster."""

import base64
import contextlib
import json
import os
import re
import socket
import ssl
from pathlib import Path
from typing import Final

#: Begins every kubeconfig that is written here, so that no other file is ever overwritten.
_HEAD: Final = "# Written by Mooring for an embedded cluster; it is overwritten when the cluster starts.\n"
#: How long a cluster has to answer in order to count as running, in seconds.
_PATIENCE: Final = 2.0
#: The kubeconfig extension that tells where the scheduler of `mooring up` serves its endpoints.
SCHEDULER: Final = "mooring.dev/scheduler"


class ForeignFileError(OSError):
    """There is a file already that must stay: not one of ours, or of a cluster that runs."""


def kubeconfig_text(
    *, server: str, authority: str, token: str, name: str = "mooring", scheduler: tuple[str, str] | None = None
) -> str:
    """A kubeconfig with one cluster, one user and one context. JSON is YAML too, but people like to read YAML.

    `scheduler` is where a scheduler of this cluster serves its endpoints, and the authority of its certificate.
    """
    return (
        _HEAD + "apiVersion: v1\n"
        "kind: Config\n"
        f"current-context: {name}\n"
        "clusters:\n"
        f"- name: {name}\n"
        "  cluster:\n"
        f"    server: {server}\n"
        + (f"    certificate-authority-data: {_base64(authority)}\n" if authority else "")
        + (_extension(*scheduler) if scheduler else "")
        + "contexts:\n"
        f"- name: {name}\n"
        "  context:\n"
        f"    cluster: {name}\n"
        f"    user: {name}-admin\n"
        "users:\n"
        f"- name: {name}-admin\n"
        "  user:\n"
        f"    token: {json.dumps(token)}\n"
    )


def _extension(server: str, authority: str) -> str:
    return (
        "    extensions:\n"
        f"    - name: {SCHEDULER}\n"
        "      extension:\n"
        f"        server: {server}\n"
        f"        certificate-authority-data: {_base64(authority)}\n"
    )


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def check_writable(path: Path) -> None:
    """Raise ForeignFileError where a file of somebody else's would be lost."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return
    if text.strip() and not text.startswith(_HEAD):
        raise ForeignFileError(0, "is there already and was not written by Mooring", str(path))
    if server := _running(text):
        raise ForeignFileError(0, f"belongs to the embedded cluster that runs at {server}", str(path))


def _running(text: str) -> str:
    """The address of the cluster that a kubeconfig of ours is about, if that still answers; otherwise nothing."""
    found = re.search(r"server: (https://127\.0\.0\.1:(\d+))\n *certificate-authority-data: (\S+)", text)
    if found is None:
        return ""
    server, port, authority = found.groups()
    try:
        # Only that cluster has the key to its certificate, whoever else may listen there now.
        context = ssl.create_default_context(cadata=base64.b64decode(authority).decode())
        with (
            socket.create_connection(("127.0.0.1", int(port)), _PATIENCE) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1"),
        ):
            return server
    except (OSError, ValueError):
        return ""


def write_kubeconfig(text: str, path: Path) -> None:
    """Write a kubeconfig; it holds the administrator's token, so only its owner may read it."""
    check_writable(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    draft.replace(path)


def remove_kubeconfig(text: str, path: Path) -> None:
    """Remove a kubeconfig whose cluster is gone for good, unless another one has been written there since."""
    with contextlib.suppress(OSError):
        if path.read_text() == text:
            path.unlink()
