"""TLS contexts built by ourselves, since what suits web sites does not suit clusters.

Python 3.13 and later refuse many cluster CAs by default (VERIFY_X509_STRICT); Go accepts them, and so do we where the
CA was given to us for this very cluster. Go also trusts a given certificate even where it is no root.
"""

import os
import re
import ssl
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import structlog

from mooring.kube.access import Access
from mooring.kube.errors import AccessError
from mooring.kube.identity import Identity

#: How long the authority's file is believed: pods get a new one minutes before it is needed.
_FILE_PERIOD: Final = 60.0
_PEM: Final = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)

log: Final = structlog.get_logger(__name__)


class TlsContexts:
    """The context for an identity; the last one is kept, and replaced when a certificate or the authority rotates."""

    def __init__(self, access: Access, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._access = access
        self._clock = clock
        self._read_at = clock()
        self._secure = access.server.startswith("https:")
        self._kept: tuple[bytes, bytes, bytes | None] | None = None
        self._context: ssl.SSLContext | None = None

    def context(self, identity: Identity) -> ssl.SSLContext | None:
        """The context to connect with, None for a server without TLS. Raises AccessError."""
        if not self._secure:
            return None
        if self._access.ca_file and self._clock() - self._read_at >= _FILE_PERIOD:
            self._renew_authority()
        wanted = (identity.certificate, identity.key, self._access.ca)
        if self._kept != wanted:
            try:
                self._context = client_context(self._access, identity)
            except AccessError as error:
                # A certificate that was replaced before its key: the files are read again soon.
                if self._context is None:
                    raise
                log.warning("the client certificate cannot be renewed yet", error=str(error))
            self._kept = wanted
        return self._context

    def _renew_authority(self) -> None:
        """Read the file of the authority again; what makes no sense, as one half written, changes nothing."""
        self._read_at = self._clock()
        try:
            renewed = replace(self._access, ca=Path(self._access.ca_file).read_bytes())
            if renewed.ca != self._access.ca:
                client_context(renewed, Identity())
        except (OSError, AccessError) as error:
            log.warning("the certificate authority cannot be read again", file=self._access.ca_file, error=str(error))
        else:
            self._access = renewed


def client_context(access: Access, identity: Identity) -> ssl.SSLContext:
    """A context that trusts what the access says and shows the identity's certificate. Raises AccessError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # HTTP/1.1 with many connections was measured to be faster than HTTP/2 with one.
    context.set_alpn_protocols(["http/1.1"])
    if access.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif access.ca is None:
        context.load_default_certs()
    else:
        _trust(context, access)
    if identity.certificate:
        _show(context, identity, access.origin)
    return context


def _trust(context: ssl.SSLContext, access: Access) -> None:
    certificates = b"\n".join(_PEM.findall(access.ca or b""))
    try:
        context.load_verify_locations(cadata=certificates.decode("ascii"))
    except (ssl.SSLError, UnicodeError, ValueError) as error:
        raise AccessError(
            f"{access.origin}: certificate-authority: no certificates in PEM could be read: {_reason(error)}"
        ) from None
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def _show(context: ssl.SSLContext, identity: Identity, origin: str) -> None:
    # OpenSSL's reader of key pairs takes only files; this one is private and gone at once.
    handle, path = tempfile.mkstemp(prefix="mooring-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(identity.certificate.rstrip() + b"\n" + identity.key)
        # An encrypted key would make OpenSSL ask at the terminal; an empty password makes it fail instead.
        context.load_cert_chain(path, password="")
    except (ssl.SSLError, ValueError) as error:
        raise AccessError(
            f"{origin}: client-certificate and client-key are no pair in PEM that can be used: {_reason(error)}"
        ) from None
    finally:
        os.unlink(path)


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return str(reason).replace("_", " ").lower() if reason else "not PEM"
