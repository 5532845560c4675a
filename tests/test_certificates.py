"""Tests of certificates: those that are created, and checks of PEM text."""

import datetime
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from cryptography.hazmat.primitives.serialization import load_pem_private_key as load_key

from mooring.certificates import (
    Authority,
    certificate_blocks,
    certificate_names,
    has_certificate,
    is_key_pair,
    is_signed_by,
    make_authority,
    make_certificate,
    seconds_left,
    sign_certificate,
)

MADE = make_certificate(["a.test"], ["10.0.0.1", "::1"], subject="a", days=10)
OTHER = make_certificate()


def test_a_strict_client_accepts_the_certificate(tmp_path: Path) -> None:
    made = make_certificate()
    (tmp_path / "server.pem").write_text(made.key + made.certificate)
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(tmp_path / "server.pem")
    client_context = ssl.create_default_context(cadata=made.authority)
    client_context.verify_flags |= ssl.VERIFY_X509_STRICT
    for name in ("127.0.0.1", "localhost"):
        with socket.create_server(("127.0.0.1", 0)) as listener:

            def serve(listener: socket.socket = listener) -> None:
                connection, _ = listener.accept()
                with server_context.wrap_socket(connection, server_side=True) as stream:
                    stream.sendall(b"hello")

            thread = threading.Thread(target=serve)
            thread.start()
            with (
                socket.create_connection(listener.getsockname()) as plain,
                client_context.wrap_socket(plain, server_hostname=name) as stream,
            ):
                assert stream.recv(5) == b"hello"
            thread.join()


def test_names_addresses_and_validity() -> None:
    certificate = x509.load_pem_x509_certificate(MADE.certificate.encode())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["a.test"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.1", "::1"]
    assert certificate.subject.rfc4514_string() == "CN=a"
    assert certificate.issuer.rfc4514_string() == "CN=mooring-ca"
    lifetime = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    assert lifetime == datetime.timedelta(days=10)
    assert certificate.not_valid_before_utc < datetime.datetime.now(datetime.UTC)
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(MADE.authority.encode()))


def encrypted(key: str) -> bytes:
    private = load_key(key.encode(), None)
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))


@pytest.mark.parametrize(
    ("certificate", "key", "matches"),
    [
        (MADE.certificate.encode(), MADE.key.encode(), True),
        ((MADE.certificate + MADE.authority).encode(), b"# comment\n" + MADE.key.encode(), True),
        (MADE.certificate.encode(), OTHER.key.encode(), False),
        (MADE.certificate.encode(), encrypted(MADE.key), False),
        (MADE.certificate.encode(), b"junk", False),
        (MADE.certificate.encode(), MADE.certificate.encode(), False),
        (b"junk", MADE.key.encode(), False),
        (b"", b"", False),
    ],
)
def test_key_pairs(certificate: bytes, key: bytes, matches: bool) -> None:
    assert is_key_pair(certificate, key) is matches


def test_bundles() -> None:
    good, broken = MADE.authority.encode(), MADE.authority.replace("MII", "MIJ").encode()
    assert certificate_blocks("# é\n".encode() + good + b"text\n" + MADE.key.encode()) == [good.strip()]
    assert has_certificate(broken + good)
    assert not has_certificate(broken)
    assert not has_certificate(MADE.key.encode())


def test_cryptography_is_imported_only_when_it_is_used() -> None:
    modules = "mooring.cli.main, mooring.cli.simulate, mooring.cluster.embedded, mooring.config, mooring.kube"
    code = f"import sys, {modules}; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_ca_signs_several_certificates() -> None:
    authority = make_authority(days=30)
    one, other = (sign_certificate(authority, ("b.test",), ("10.0.0.2",), subject="b", days=days) for days in (1, 2))
    assert one.certificate != other.certificate
    for each in (one, other):
        assert is_signed_by(each.certificate.encode(), authority.certificate.encode())
        assert is_key_pair(each.certificate.encode(), each.key.encode())
        assert certificate_names(each.certificate.encode()) == {"b.test", "10.0.0.2"}
    assert 0.9 * 86400 < seconds_left(one.certificate.encode()) < 86400
    assert not is_signed_by(one.certificate.encode(), MADE.authority.encode())
    for text in (b"", b"x", one.key.encode(), b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----"):
        assert (seconds_left(text), certificate_names(text), is_signed_by(text, text)) == (0.0, frozenset(), False)
    with pytest.raises(ValueError, match=r"deserialize|load|PEM"):
        sign_certificate(Authority(authority.certificate, "x"), ("b",), subject="b", days=1)
