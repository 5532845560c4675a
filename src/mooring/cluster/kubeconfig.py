"""The kubeconfig of an embedded cluster."""

import base64
import contextlib
import json
import os
import re
import socket
import ssl
from pathlib import Path
from typing import Final

#: The first line of every kubeconfig that Mooring writes. Files without it are never overwritten.
_HEAD: Final = "# Written by Mooring for an embedded cluster; it is overwritten when the cluster starts.\n"
#: Seconds within which a running cluster must respond.
_TIMEOUT: Final = 2.0
#: The kubeconfig extension with the address of the endpoints of the scheduler of `mooring up`.
SCHEDULER: Final = "mooring.dev/scheduler"


class ForeignFileError(OSError):
    """An error for a file that must not be overwritten: Mooring did not write it, or its cluster is running."""


def kubeconfig_text(
    *, server: str, authority: str, token: str, name: str = "mooring", scheduler: tuple[str, str] | None = None
) -> str:
    """Return a kubeconfig with one cluster, one user and one context.

    `scheduler` is the address of the endpoints of a scheduler of this cluster, and the CA certificate for it.
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
    """Raise ForeignFileError if the file must not be overwritten."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return
    if text.strip() and not text.startswith(_HEAD):
        raise ForeignFileError(0, "is there already and was not written by Mooring", str(path))
    if server := _running(text):
        raise ForeignFileError(0, f"belongs to the embedded cluster that runs at {server}", str(path))


def _running(text: str) -> str:
    """Return the address of the cluster in a kubeconfig if it is running, and an empty string otherwise."""
    found = re.search(r"server: (https://127\.0\.0\.1:(\d+))\n *certificate-authority-data: (\S+)", text)
    if found is None:
        return ""
    server, port, authority = found.groups()
    try:
        # Another program may use the port now, but only the cluster has the private key of its certificate.
        context = ssl.create_default_context(cadata=base64.b64decode(authority).decode())
        with (
            socket.create_connection(("127.0.0.1", int(port)), _TIMEOUT) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1"),
        ):
            return server
    except (OSError, ValueError):
        return ""


def write_kubeconfig(text: str, path: Path) -> None:
    """Write a kubeconfig that only its owner can read, because it contains the token of the administrator."""
    check_writable(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    draft.replace(path)


def remove_kubeconfig(text: str, path: Path) -> None:
    """Remove the kubeconfig of a stopped cluster, unless another one has been written since."""
    with contextlib.suppress(OSError):
        if path.read_text() == text:
            path.unlink()
