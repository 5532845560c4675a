"""TLS contexts for connections to the API server.

The defaults of Python 3.13 and later reject many cluster CAs (VERIFY_X509_STRICT). Go accepts them, and so does this
module if the CA was configured for the cluster. Go also trusts a configured certificate that is not a root.
"""

import os
import socket
import ssl
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from mooring.certificates import certificate_blocks, expired_at, is_expired_error
from mooring.kube.access import Access
from mooring.kube.client_errors import AccessError, ConnectionFailed, Unauthorized
from mooring.kube.identity import Identity
from mooring.logs import get_logger

#: The interval at which the CA file is reloaded. The kubelet replaces it minutes before the old one expires.
_CA_FILE_PERIOD: Final = 60.0

_HTTP1: Final = ["http/1.1"]
_HTTP2: Final = ["h2", "http/1.1"]

log: Final = get_logger(__name__)


class Http2Context(ssl.SSLContext):
    """A TLS context that is another one, `base`, except that its connections offer HTTP/2 besides HTTP/1.1.

    aiohttp uses `base` and speaks only HTTP/1.1. A second context would load the certificates of the system a second
    time. OpenSSL copies the offer of a context when it creates a connection, so it is only changed for that moment.
    """

    base: ssl.SSLContext

    def __new__(cls, base: ssl.SSLContext) -> "Http2Context":
        """Return an instance for another context."""
        self = super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)
        self.base = base
        return self

    def __init__(self, base: ssl.SSLContext) -> None:
        """Do nothing: the settings are those of the other context."""

    def wrap_bio(self, *args: Any, **keywords: Any) -> ssl.SSLObject:
        """Create a connection."""
        self.base.set_alpn_protocols(_HTTP2)
        try:
            return self.base.wrap_bio(*args, **keywords)
        finally:
            self.base.set_alpn_protocols(_HTTP1)


class TlsContexts:
    """The TLS context for an identity. It is cached, and rebuilt when a certificate or the CA is rotated."""

    def __init__(self, access: Access, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._access = access
        self._clock = clock
        self._read_at = clock()
        self._secure = access.server.startswith("https:")
        self._cached: tuple[bytes, bytes, bytes | None] | None = None
        self._context: ssl.SSLContext | None = None
        self._http2: Http2Context | None = None

    def context(self, identity: Identity) -> ssl.SSLContext | None:
        """Return the context to connect with, or None for a server without TLS. Raises AccessError."""
        if not self._secure:
            return None
        if self._access.ca_file and self._clock() - self._read_at >= _CA_FILE_PERIOD:
            self._reload_ca()
        wanted = (identity.certificate, identity.key, self._access.ca)
        if self._cached != wanted:
            try:
                self._context = client_context(self._access, identity)
            except AccessError as error:
                # The certificate was replaced before its key. The files are reloaded soon.
                if self._context is None:
                    raise
                log.warning("the client certificate cannot be renewed yet", error=str(error))
            self._cached = wanted
        return self._context

    def http2_context(self, identity: Identity) -> ssl.SSLContext | None:
        """Return the same context for connections that can also speak HTTP/2. Raises AccessError."""
        context = self.context(identity)
        if context is None:
            return None
        if self._http2 is None or self._http2.base is not context:
            self._http2 = Http2Context(context)
        return self._http2

    def _reload_ca(self) -> None:
        """Reload the CA file. If it is invalid, for example half written, the current CA stays in effect."""
        self._read_at = self._clock()
        try:
            renewed = replace(self._access, ca=Path(self._access.ca_file).read_bytes())
            if renewed.ca != self._access.ca:
                client_context(renewed, Identity())
        except (OSError, AccessError) as error:
            log.warning("the certificate authority cannot be reloaded", file=self._access.ca_file, error=str(error))
        else:
            self._access = renewed


def client_context(access: Access, identity: Identity) -> ssl.SSLContext:
    """Return a context that trusts the configured CA and presents the identity's certificate. Raises AccessError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(_HTTP1)
    if access.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif access.ca is None:
        context.load_default_certs()
    else:
        _load_ca(context, access)
    if identity.certificate:
        _load_client_certificate(context, identity, access.origin)
    return context


def connection_failed(server: str, error: BaseException) -> ConnectionFailed:
    """Return the error for a connection that could not be established."""
    if is_expired_error(error):
        text = (
            f"the certificate of {server}, or of its CA, has expired; renew it on the server, and check the clock of "
            "this machine"
        )
    elif isinstance(error, ssl.SSLCertVerificationError):
        text = (
            f"{server} presented an untrusted certificate: {error}; give its certificate-authority (and "
            "tls-server-name, if the name differs) in the kubeconfig"
        )
    else:
        text = f"{server} cannot be reached: {_network_reason(error)}; is it running, and is its address correct?"
    return ConnectionFailed(text)


def _network_reason(error: BaseException) -> str:
    """Return the reason of a network error, without the error number and the exception type."""
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError | socket.gaierror) and (error.errno or 0) > 0:
        return os.strerror(error.errno or 0)
    return str(error) or "timed out"


def rejected_certificate(access: Access, identity: Identity) -> Unauthorized | None:
    """Return the error for rejected credentials if the client certificate has expired, or None."""
    end = expired_at(identity.certificate) if identity.certificate else None
    if end is None:
        return None
    what = access.user.certificate_file or f"{access.origin}: the client certificate"
    text = f"{what} expired on {end:%Y-%m-%d at %H:%M} UTC; get a new certificate or kubeconfig"
    return Unauthorized(401, "Unauthorized", text)


def _load_ca(context: ssl.SSLContext, access: Access) -> None:
    certificates = b"\n".join(certificate_blocks(access.ca or b""))
    try:
        context.load_verify_locations(cadata=certificates.decode("ascii"))
    except (ssl.SSLError, UnicodeError, ValueError) as error:
        raise AccessError(
            f"{access.origin}: certificate-authority: no PEM certificates could be read: {_reason(error)}"
        ) from None
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def _load_client_certificate(context: ssl.SSLContext, identity: Identity, origin: str) -> None:
    # The ssl module loads key pairs only from files. This file is private and removed immediately.
    handle, path = tempfile.mkstemp(prefix="mooring-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(identity.certificate.rstrip() + b"\n" + identity.key)
        # OpenSSL would prompt for the password of an encrypted key; an empty password makes it fail instead.
        context.load_cert_chain(path, password="")
    except (ssl.SSLError, ValueError) as error:
        raise AccessError(
            f"{origin}: client-certificate and client-key are not a valid PEM pair: {_reason(error)}"
        ) from None
    finally:
        os.unlink(path)


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return str(reason).replace("_", " ").lower() if reason else "not PEM"
