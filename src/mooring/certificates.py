"""Certificates: creating a server certificate with its own CA, and checking PEM text.

The cryptography library is imported when a function needs it, because most commands do not use certificates.
"""

import datetime
import ipaddress
import re
import ssl
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

#: OpenSSL's X509_V_ERR_CERT_HAS_EXPIRED.
_HAS_EXPIRED: Final = 10
_BLOCK: Final = re.compile(rb"-----BEGIN CERTIFICATE-----\s*\n.*?-----END CERTIFICATE-----", re.DOTALL)
#: Certificates are valid from a little earlier, for clients whose clocks are late.
_CLOCK_SKEW: Final = datetime.timedelta(minutes=5)


class Certificate(NamedTuple):
    """A server's certificate and key, and the certificate of the CA that signed it, each as PEM."""

    authority: str
    certificate: str
    key: str


class Authority(NamedTuple):
    """A CA: its certificate and its key, each as PEM."""

    certificate: str
    key: str


def make_certificate(
    names: Sequence[str] = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"),
    addresses: Sequence[str] = ("127.0.0.1",),
    *,
    subject: str = "kube-apiserver",
    days: float = 3650,
) -> Certificate:
    """Create a certificate for a server with these names and addresses, signed by a new CA."""
    return sign_certificate(make_authority(days=days), names, addresses, subject=subject, days=days)


def make_authority(*, days: float = 3650) -> Authority:
    """Create a CA."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder("mooring-ca", key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_key_usage(key_cert_sign=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return Authority(_signed(builder, key), _key_text(key))


def sign_certificate(
    authority: Authority, names: Sequence[str], addresses: Sequence[str] = (), *, subject: str, days: float
) -> Certificate:
    """Create a certificate for a server, signed by a CA. Raises ValueError or TypeError for an invalid key."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    ca_key = load_pem_private_key(authority.key.encode(), password=None)
    if not isinstance(ca_key, ec.EllipticCurvePrivateKey):
        raise TypeError("the key of the CA is not an elliptic curve key")
    server_key = ec.generate_private_key(ec.SECP256R1())
    alternatives = [
        *(x509.DNSName(each) for each in names),
        *(x509.IPAddress(ipaddress.ip_address(each)) for each in addresses),
    ]
    server = (
        _builder(subject, server_key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(), critical=True)
        .add_extension(x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
    )
    return Certificate(authority.certificate, _signed(server, ca_key), _key_text(server_key))


def seconds_left(data: bytes) -> float:
    """Return how long the first certificate of a PEM bundle is still valid; 0 if it is not, or there is none."""
    from cryptography import x509

    for block in certificate_blocks(data)[:1]:
        try:
            end = x509.load_pem_x509_certificate(block).not_valid_after_utc
        except ValueError:
            return 0.0
        return max((end - datetime.datetime.now(datetime.UTC)).total_seconds(), 0.0)
    return 0.0


def certificate_names(data: bytes) -> frozenset[str]:
    """Return the DNS names and addresses of the first certificate of a PEM bundle."""
    from cryptography import x509

    for block in certificate_blocks(data)[:1]:
        try:
            extensions = x509.load_pem_x509_certificate(block).extensions
            names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (ValueError, x509.ExtensionNotFound):
            return frozenset()
        addresses = names.get_values_for_type(x509.IPAddress)
        return frozenset((*names.get_values_for_type(x509.DNSName), *map(str, addresses)))
    return frozenset()


def is_signed_by(certificate: bytes, authority: bytes) -> bool:
    """Report whether the first certificate of a PEM bundle is signed by the first one of another."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    blocks = (certificate_blocks(certificate)[:1], certificate_blocks(authority)[:1])
    if not all(blocks):
        return False
    try:
        one, other = (x509.load_pem_x509_certificate(block[0]) for block in blocks)
        one.verify_directly_issued_by(other)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def certificate_blocks(data: bytes) -> list[bytes]:
    """Return the certificates of a PEM bundle, without other blocks and text between them."""
    return _BLOCK.findall(data)


def has_certificate(data: bytes) -> bool:
    """Report whether a PEM bundle has a valid certificate. Others are ignored, as Go does."""
    from cryptography import x509

    for block in certificate_blocks(data):
        try:
            x509.load_pem_x509_certificate(block)
        except ValueError:
            continue
        return True
    return False


def expired_at(data: bytes) -> datetime.datetime | None:
    """Return when the first certificate of a PEM bundle expired; None if it has not, or if there is no certificate."""
    from cryptography import x509

    for block in certificate_blocks(data)[:1]:
        try:
            end = x509.load_pem_x509_certificate(block).not_valid_after_utc
        except ValueError:
            return None
        return end if end <= datetime.datetime.now(datetime.UTC) else None
    return None


def is_expired_error(error: BaseException) -> bool:
    """Report whether the verification of a certificate failed because it has expired."""
    return isinstance(error, ssl.SSLCertVerificationError) and error.verify_code == _HAS_EXPIRED


def is_key_pair(certificate: bytes, key: bytes) -> bool:
    """Report whether a certificate and an unencrypted private key, both PEM, belong together."""
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    blocks = certificate_blocks(certificate)
    try:
        # An encrypted key raises TypeError.
        private_key = load_pem_private_key(key, password=None)
        return bool(blocks) and x509.load_pem_x509_certificate(blocks[0]).public_key() == private_key.public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return False


def _builder(subject: str, key: "ec.EllipticCurvePublicKey", days: float) -> "x509.CertificateBuilder":
    from cryptography import x509

    since = datetime.datetime.now(datetime.UTC) - _CLOCK_SKEW
    return (
        x509.CertificateBuilder()
        .issuer_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "mooring-ca")]))
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, subject)]))
        .serial_number(x509.random_serial_number())
        .not_valid_before(since)
        .not_valid_after(since + datetime.timedelta(days=days))
        .public_key(key)
    )


def _key_usage(*, key_cert_sign: bool = False) -> "x509.KeyUsage":
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True, key_cert_sign=key_cert_sign, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, crl_sign=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _signed(builder: "x509.CertificateBuilder", key: "ec.EllipticCurvePrivateKey") -> str:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding

    return builder.sign(key, SHA256()).public_bytes(Encoding.PEM).decode()


def _key_text(key: "ec.EllipticCurvePrivateKey") -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()
