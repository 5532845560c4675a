"""Whether the TLS material of an extender can be used: files readable, certificates well formed, keys that fit."""

from __future__ import annotations

import base64
import binascii
import re
import ssl
import tempfile
from pathlib import Path
from typing import Final

from mooring.config.model import ExtenderTLS

_BLOCK: Final = re.compile(rb"-----BEGIN CERTIFICATE-----\s*\n(.*?)-----END CERTIFICATE-----", re.DOTALL)
#: More than any certificate bundle has; a file beyond it is not one.
_LARGEST: Final = 16 * 1024 * 1024


class TLSProblem(ValueError):
    """Material that cannot be used; `field` is the field of tlsConfig."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def check_tls(tls: ExtenderTLS, *, https: bool) -> None:
    """Raise TLSProblem if a connection with these settings could not be set up."""
    has_ca = bool(tls.ca_data or tls.ca_file)
    has_pair = bool((tls.cert_data or tls.cert_file) and (tls.key_data or tls.key_file))
    # Without a CA, enableHTTPS means that nobody looks at the server's certificate.
    insecure = tls.insecure or (https and not has_ca)
    if not (has_ca or has_pair or insecure or tls.server_name):
        return
    if has_ca and insecure:
        raise TLSProblem("insecure", "a CA is of no use when the server's certificate is not verified")
    ca = tls.ca_data or _read("caFile", tls.ca_file)
    cert = tls.cert_data or _read("certFile", tls.cert_file)
    key = tls.key_data or _read("keyFile", tls.key_file)
    if ca and not _has_certificate(ca):
        raise TLSProblem("caData" if tls.ca_data else "caFile", "there is no valid certificate in it")
    # A pair of files is loaded anew for each connection, so that it may be wrong now.
    if has_pair and (tls.cert_data or tls.key_data):
        _check_pair(cert, key)


def _read(field: str, name: str) -> bytes:
    if not name:
        return b""
    try:
        with Path(name).open("rb") as file:
            return file.read(_LARGEST)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TLSProblem(field, f'cannot read "{name}": {reason}') from None


def _has_certificate(data: bytes) -> bool:
    return any(_is_certificate(block) for block in _BLOCK.findall(data))


def _is_certificate(block: bytes) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=base64.b64decode(b"".join(block.split()), validate=True))
    except (ssl.SSLError, binascii.Error, ValueError):
        return False
    return True


def _check_pair(cert: bytes, key: bytes) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    with tempfile.TemporaryDirectory() as folder:
        cert_file, key_file = Path(folder, "cert.pem"), Path(folder, "key.pem")
        cert_file.write_bytes(cert)
        key_file.write_bytes(key)
        try:
            # Never ask a person for the password of a key.
            context.load_cert_chain(cert_file, key_file, password=str)
        except (ssl.SSLError, OSError, ValueError):
            raise TLSProblem("keyData", "certificate and key are not a valid pair") from None
