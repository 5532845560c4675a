"""Reading the endpoints of a scheduler, kube-scheduler's or Mooring's, as one client or another."""

from __future__ import annotations

import http.client
import json
import ssl
from pathlib import Path
from typing import Any, NamedTuple

from tests.e2e.controlplane.commands import LOOPBACK


class Answer(NamedTuple):
    """What came back."""

    status: int
    text: str

    def json(self) -> Any:
        """The text as a document."""
        return json.loads(self.text)


def ask(port: int, path: str, *, token: str = "", certificate: tuple[Path, Path] | None = None) -> Answer:
    """GET a path with a token, or a certificate and its key, or nothing. Raises OSError where nobody listens."""
    context = ssl.create_default_context()
    # They sign certificates of their own.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(*map(str, certificate))
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    connection = http.client.HTTPSConnection(LOOPBACK, port, context=context, timeout=20)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return Answer(answer.status, answer.read().decode())
    finally:
        connection.close()


def is_ready(port: int) -> bool:
    """Whether a scheduler has read the cluster."""
    try:
        return ask(port, "/readyz").status == 200
    except (OSError, http.client.HTTPException):
        return False
