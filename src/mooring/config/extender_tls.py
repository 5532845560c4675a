"""Checks the TLS settings of an extender: files are readable, certificates are valid, and keys match."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from mooring.certificates import has_certificate, is_key_pair
from mooring.config.model import ExtenderTLS

#: The maximum size of a file; certificate bundles are smaller.
_MAX_BYTES: Final = 16 * 1024 * 1024


class TLSProblem(ValueError):
    """Invalid TLS settings; `field` is the field of tlsConfig."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def check_tls(tls: ExtenderTLS, *, https: bool) -> None:
    """Raise TLSProblem if no connection can be made with these settings."""
    has_ca = bool(tls.ca_data or tls.ca_file)
    has_pair = bool((tls.cert_data or tls.cert_file) and (tls.key_data or tls.key_file))
    # enableHTTPS without a CA means that the server's certificate is not verified.
    insecure = tls.insecure or (https and not has_ca)
    if not (has_ca or has_pair or insecure or tls.server_name):
        return
    if has_ca and insecure:
        raise TLSProblem("insecure", "a CA has no effect if the server's certificate is not verified")
    ca = tls.ca_data or _read("caFile", tls.ca_file)
    cert = tls.cert_data or _read("certFile", tls.cert_file)
    key = tls.key_data or _read("keyFile", tls.key_file)
    if ca and not has_certificate(ca):
        raise TLSProblem("caData" if tls.ca_data else "caFile", "it contains no valid certificate")
    # A pair of files is loaded again for each connection, so it may be invalid now.
    if has_pair and (tls.cert_data or tls.key_data) and not is_key_pair(cert, key):
        raise TLSProblem("keyData", "certificate and key are not a valid pair")


def _read(field: str, name: str) -> bytes:
    if not name:
        return b""
    try:
        with Path(name).open("rb") as file:
            return file.read(_MAX_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TLSProblem(field, f'cannot read "{name}": {reason}') from None
