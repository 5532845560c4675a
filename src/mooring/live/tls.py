"""The certificate that the endpoints are served with: a given one, or one made for this process."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import tempfile
from pathlib import Path

_DAYS = "365"


class CertificateError(ValueError):
    """No certificate can be had; the message says which file, or what to do."""


def server_context(
    cert_file: str = "", key_file: str = "", *, cert_dir: str = "", host: str = "localhost"
) -> ssl.SSLContext:
    """A TLS context from files, or else with a self-signed certificate, kept in ``cert_dir`` if that is given.

    Raises CertificateError.
    """
    if bool(cert_file) != bool(key_file):
        missing = "--tls-private-key-file" if cert_file else "--tls-cert-file"
        raise CertificateError(f"{missing} is missing: a certificate needs its key; give both, or neither")
    if cert_file:
        return _context(Path(cert_file), Path(key_file))
    if cert_dir:
        folder = Path(cert_dir)
        cert, key = folder / "mooring.crt", folder / "mooring.key"
        if not (cert.exists() and key.exists()):
            _make(cert, key, host)
        return _context(cert, key)
    with tempfile.TemporaryDirectory(prefix="mooring-tls-") as name:
        cert, key = Path(name, "mooring.crt"), Path(name, "mooring.key")
        _make(cert, key, host)
        return _context(cert, key)


def can_self_sign() -> bool:
    """Whether a certificate can be made here."""
    return shutil.which("openssl") is not None


def _context(cert: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    for file in (cert, key):
        if not file.is_file():
            raise CertificateError(f"{file}: no such file; give the certificate and its key in PEM form")
    try:
        context.load_cert_chain(cert, key)
    except (ssl.SSLError, OSError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise CertificateError(f"{cert}, {key}: not a certificate with its key in PEM form ({reason})") from None
    return context


def _make(cert: Path, key: Path, host: str) -> None:
    program = shutil.which("openssl")
    if program is None:
        raise CertificateError(
            "no certificate was given and the openssl program, which would make one, is not here: give "
            "--tls-cert-file and --tls-private-key-file, or a loopback --bind-address, where plain HTTP will do"
        )
    names = {host, "localhost"}
    alternatives = ",".join(
        [*(f"DNS:{name}" for name in sorted(names) if not _is_address(name)), "IP:127.0.0.1", "IP:::1"]
        + [f"IP:{name}" for name in sorted(names) if _is_address(name)]
    )
    try:
        cert.parent.mkdir(parents=True, exist_ok=True)
        key.touch(mode=0o600)
    except OSError as error:
        raise CertificateError(f"{cert.parent}: {error.strerror or error}; give another --cert-dir") from None
    command = [
        program, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-sha256",
        "-days", _DAYS, "-subj", f"/CN={host}", "-addext", f"subjectAltName={alternatives}",
        "-keyout", str(key), "-out", str(cert),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise CertificateError(f"openssl could not make a certificate: {lines[-1] if lines else done.returncode}")


def _is_address(name: str) -> bool:
    import ipaddress

    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
