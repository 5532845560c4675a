"""ServerTls: the TLS settings of the endpoints: certificates, versions, cipher suites and client certificates."""

from __future__ import annotations

import ipaddress
import os
import ssl
import tempfile
from pathlib import Path
from typing import Final
from weakref import WeakSet

import msgspec

from mooring.certificates import Certificate, make_certificate
from mooring.loading.setup_files import signature
from mooring.logs import get_logger

log = get_logger("mooring.live")

_DAYS: Final = 365
_VERSIONS: Final = {
    "": ssl.TLSVersion.TLSv1_2,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
#: Go's names of cipher suites -> OpenSSL's. The suites of TLS 1.3 are always enabled, as in Go.
_SUITES: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
}
_TLS13_SUITES: Final = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})


class CertificateError(ValueError):
    """An error in the TLS configuration. The message names the file or flag and the remedy."""


class TlsSettings(msgspec.Struct, frozen=True):
    """The TLS flags."""

    cert_file: str = ""
    key_file: str = ""
    #: The directory for the self-signed certificate; "" keeps it in memory.
    cert_dir: str = ""
    min_version: str = ""
    cipher_suites: tuple[str, ...] = ()
    #: A file with the CA certificates that authenticate clients.
    client_ca_file: str = ""


class ServerTls:
    """The TLS context of a server. Its certificate and client CA can change while it is listening.

    A self-signed certificate that is not stored is created for the first client, because the library for it takes long
    to import, and many schedulers have no client while they start.
    """

    def __init__(self, settings: TlsSettings, *, host: str = "localhost") -> None:
        """Load the certificates. Raises CertificateError."""
        self._settings = settings
        self._authorities = ""
        self._current: ssl.SSLContext
        #: A certificate for clients that connect by these names; its context is built with the others.
        self._named: tuple[frozenset[str], Certificate] | None = None
        self._named_context: ssl.SSLContext | None = None
        files = (settings.cert_file, settings.key_file)
        if bool(settings.cert_file) != bool(settings.key_file):
            missing = "--tls-private-key-file" if settings.cert_file else "--tls-cert-file"
            raise CertificateError(f"{missing} is missing: a certificate needs its key; give both, or neither")
        #: The host of a self-signed certificate that is not stored; None if the certificate is that of files.
        self._self_signed: str | None = None
        self._made: Certificate | None = None
        #: The contexts without the self-signed certificate.
        self._without: WeakSet[ssl.SSLContext] = WeakSet()
        if settings.cert_dir and not settings.cert_file:
            files = (str(Path(settings.cert_dir, "mooring.crt")), str(Path(settings.cert_dir, "mooring.key")))
            if not all(Path(file).exists() for file in files):
                _write(_make(host), *map(Path, files))
        elif not settings.cert_file:
            tempfile.gettempdir()  # the certificate needs one: fail now if there is none
            self._self_signed = host
        self._pair = files
        self._files = tuple(Path(file) for file in (*files, settings.client_ca_file) if file)
        self._signature = signature(self._files)
        #: The context to listen with. A socket cannot change its context, so this one switches every handshake to the
        #: current context.
        self.context = self._build()
        self.context.sni_callback = self._switch_context
        # Resumed sessions would skip verification with the current client CA.
        self.context.num_tickets = 0
        self.context.options |= ssl.OP_NO_TICKET
        # A connection can switch only to another context.
        self._use(self.context if self._self_signed is None else self._build())

    def trust_clients(self, authorities: str) -> None:
        """Accept only client certificates signed by these CAs (PEM). Raises CertificateError."""
        if authorities != self._authorities:
            self._use(self._build(authorities))
            self._authorities = authorities

    def renew(self) -> None:
        """Reload changed files. Raises CertificateError; the previous certificates then stay in effect."""
        now = signature(self._files)
        if now != self._signature:
            self._signature = now
            self._use(self._build(self._authorities))
            log.info("Reloaded certificates", files=[str(file) for file in self._files])

    def serve_as(self, names: frozenset[str], certificate: Certificate) -> None:
        """Use another certificate for clients that connect by these names, also instead of a self-signed one.

        Raises CertificateError.
        """
        if self._named != (names, certificate):
            self._named = (names, certificate)
            self._use(self._build(self._authorities))

    def _use(self, context: ssl.SSLContext) -> None:
        if self._named is not None:
            self._named_context = self._build(self._authorities, self._named[1])
        if context.verify_mode is not ssl.CERT_NONE:
            # The listening context decides whether a client certificate is requested.
            self.context.verify_mode = context.verify_mode
        self._current = context

    def _switch_context(
        self, connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, _context: ssl.SSLContext
    ) -> None:
        named, other = self._named, self._named_context
        if named is not None and other is not None and (name in named[0] or self._self_signed is not None):
            connection.context = other
        else:
            connection.context = self._certified(self._current)

    def _certified(self, context: ssl.SSLContext) -> ssl.SSLContext:
        """Return a context with its certificate, which is created if it is a self-signed one."""
        if context in self._without:
            assert self._self_signed is not None
            if self._made is None:
                self._made = _make(self._self_signed)
            _load_made(context, self._made)
            self._without.discard(context)
        return context

    def _build(self, authorities: str = "", certificate: Certificate | None = None) -> ssl.SSLContext:
        settings = self._settings
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = _version(settings.min_version)
        if settings.cipher_suites:
            context.set_ciphers(_ciphers(settings.cipher_suites))
        if certificate is not None:
            _load_made(context, certificate)
        elif self._self_signed is None:
            _load(context, *map(Path, self._pair))
        else:
            self._without.add(context)
        if settings.client_ca_file:
            _trust(context, _read(settings.client_ca_file), settings.client_ca_file)
        if authorities:
            _trust(context, authorities, "the cluster's client-ca-file")
        return context


def _trust(context: ssl.SSLContext, authorities: str, where: str) -> None:
    try:
        context.load_verify_locations(cadata=authorities)
    except (ssl.SSLError, ValueError):
        raise CertificateError(f"{where}: contains no PEM certificates") from None
    context.verify_mode = ssl.CERT_OPTIONAL


def _version(name: str) -> ssl.TLSVersion:
    if name in ("VersionTLS10", "VersionTLS11"):
        raise CertificateError(f"--tls-min-version {name}: no longer secure; use VersionTLS12 or VersionTLS13")
    if name not in _VERSIONS:
        raise CertificateError(f"--tls-min-version: unknown version {name!r}; use VersionTLS12 or VersionTLS13")
    return _VERSIONS[name]


def _ciphers(names: tuple[str, ...]) -> str:
    for name in names:
        if name not in _SUITES and name not in _TLS13_SUITES:
            raise CertificateError(
                f"--tls-cipher-suites: {name!r} is unknown or insecure; try TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
            )
    # With only TLS 1.3 suites, no TLS 1.2 suite is enabled.
    return ":".join(_SUITES[name] for name in names if name in _SUITES) or "@SECLEVEL=2"


def _load(context: ssl.SSLContext, cert: Path, key: Path) -> None:
    for file in (cert, key):
        if not file.is_file():
            raise CertificateError(f"{file}: no such file; give the certificate and its key as PEM files")
    try:
        context.load_cert_chain(cert, key)
    except (ssl.SSLError, OSError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise CertificateError(f"{cert}, {key}: not a PEM certificate and its private key ({reason})") from None


def _load_made(context: ssl.SSLContext, made: Certificate) -> None:
    with tempfile.TemporaryDirectory(prefix="mooring-tls-") as name:
        cert, key = Path(name, "mooring.crt"), Path(name, "mooring.key")
        _write(made, cert, key)
        _load(context, cert, key)


def _make(host: str) -> Certificate:
    names, addresses = ["localhost"], ["127.0.0.1", "::1"]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        names.append(host)
    else:
        if not address.is_unspecified:
            addresses.append(str(address))
    return make_certificate(list(dict.fromkeys(names)), list(dict.fromkeys(addresses)), subject=host, days=_DAYS)


def _write(made: Certificate, cert: Path, key: Path) -> None:
    try:
        cert.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(made.key)
        cert.write_text(made.certificate + made.authority)
    except OSError as error:
        raise CertificateError(f"{cert.parent}: {error.strerror or error}; give another --cert-dir") from None


def _read(file: str) -> str:
    try:
        return Path(file).read_text(encoding="ascii")
    except OSError as error:
        raise CertificateError(f"--client-ca-file {file}: {error.strerror or error}") from None
    except UnicodeError:
        raise CertificateError(f"{file}: contains no PEM certificates") from None
