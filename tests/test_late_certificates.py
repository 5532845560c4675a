"""aiohttp is imported without the certificates of the system, which it has nevertheless when it uses them."""

from __future__ import annotations

import ssl
import subprocess
import sys

_PROGRAM = """
import ssl
import mooring.late_certificates
from aiohttp.connector import _SSL_CONTEXT_UNVERIFIED, _SSL_CONTEXT_VERIFIED
from mooring.late_certificates import LateCertificates

assert "set_default_verify_paths" not in vars(ssl.SSLContext)
for context, verifies in ((_SSL_CONTEXT_VERIFIED, ssl.CERT_REQUIRED), (_SSL_CONTEXT_UNVERIFIED, ssl.CERT_NONE)):
    assert type(context) is LateCertificates and context.verify_mode is verifies
    context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="localhost")
    assert type(context) is ssl.SSLContext
    print(context.cert_store_stats()["x509"])
"""


def test_the_contexts_of_aiohttp_load_the_certificates_with_the_first_connection() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = ssl.create_default_context().cert_store_stats()["x509"]
    assert done.stdout.split() == [str(expected)] * 2
