"""The client of a scheduler's endpoints."""

from __future__ import annotations

import ssl
from pathlib import Path

from mooring.cli.scheduler_client import _context

CERTS = Path(__file__).parents[1] / "kube" / "certs"


def test_cas_that_kubectl_accepts_are_accepted_by_every_version_of_python() -> None:
    """Python 3.13 demands extensions of CAs that those of many clusters do not have."""
    context = _context(str(CERTS / "ca.pem"), "", verify=True)
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
