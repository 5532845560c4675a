"""Makes the TLS certificate of a server: an authority of its own, which nobody else knows.

Python can speak TLS but not make certificates, and a dependency for one certificate is too much; so this writes the
few bytes itself: an ECDSA key on P-256, and X.509 in DER. It is for servers whose clients do not check who answers, or
are told the authority: the embedded cluster, and the scheduler's endpoints without a certificate of their own.
"""

import base64
import datetime
import hashlib
import ipaddress
import secrets
from collections.abc import Sequence
from typing import Final, NamedTuple

# The curve P-256 (SEC 2): the field, the coefficient b, the base point and its order.
_P: Final = 2**256 - 2**224 + 2**192 + 2**96 - 1
_B: Final = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
_G: Final = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
_N: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551

_EC_PUBLIC_KEY: Final = bytes.fromhex("06072a8648ce3d0201")
_PRIME256V1: Final = bytes.fromhex("06082a8648ce3d030107")
_ECDSA_WITH_SHA256: Final = bytes.fromhex("06082a8648ce3d040302")
_COMMON_NAME: Final = bytes.fromhex("0603550403")
_BASIC_CONSTRAINTS: Final = bytes.fromhex("0603551d13")
_KEY_USAGE: Final = bytes.fromhex("0603551d0f")
_EXTENDED_KEY_USAGE: Final = bytes.fromhex("0603551d25")
_SUBJECT_ALT_NAME: Final = bytes.fromhex("0603551d11")
_SUBJECT_KEY_ID: Final = bytes.fromhex("0603551d0e")
_AUTHORITY_KEY_ID: Final = bytes.fromhex("0603551d23")
_SERVER_AUTH: Final = bytes.fromhex("06082b06010505070301")

_Point = tuple[int, int] | None


class Certificate(NamedTuple):
    """A server's certificate and key, and the authority that vouches for it, each as PEM."""

    authority: str
    certificate: str
    key: str


def make_certificate(
    names: Sequence[str] = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"),
    addresses: Sequence[str] = ("127.0.0.1",),
    *,
    subject: str = "kube-apiserver",
    days: int = 3650,
) -> Certificate:
    """A fresh certificate for a server of these names and addresses, signed by a fresh authority."""
    now = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=5)
    until = now + datetime.timedelta(days=days)
    authority_key, server_key = _Key.make(), _Key.make()
    authority = _certificate(
        issuer="mooring-ca", subject="mooring-ca", key=authority_key, signer=authority_key, since=now, until=until,
        extensions=[
            _extension(_BASIC_CONSTRAINTS, _sequence(_boolean(True)), critical=True),
            # keyCertSign and digitalSignature.
            _extension(_KEY_USAGE, bytes.fromhex("03020284"), critical=True),
            _extension(_SUBJECT_KEY_ID, _tagged(0x04, authority_key.identifier)),
        ],
    )  # fmt: skip
    alternatives = [_tagged(0x82, each.encode()) for each in names]
    alternatives += [_tagged(0x87, ipaddress.ip_address(each).packed) for each in addresses]
    server = _certificate(
        issuer="mooring-ca", subject=subject, key=server_key, signer=authority_key, since=now, until=until,
        extensions=[
            _extension(_BASIC_CONSTRAINTS, _sequence(), critical=True),
            _extension(_KEY_USAGE, bytes.fromhex("03020780"), critical=True),
            _extension(_EXTENDED_KEY_USAGE, _sequence(_SERVER_AUTH)),
            _extension(_SUBJECT_ALT_NAME, _sequence(*alternatives)),
            _extension(_AUTHORITY_KEY_ID, _sequence(_tagged(0x80, authority_key.identifier))),
        ],
    )  # fmt: skip
    return Certificate(_pem("CERTIFICATE", authority), _pem("CERTIFICATE", server), server_key.pem())


class _Key(NamedTuple):
    """A private key and its point on the curve."""

    secret: int
    point: tuple[int, int]

    @classmethod
    def make(cls) -> "_Key":
        secret = secrets.randbelow(_N - 1) + 1
        point = _times(secret, _G)
        assert point is not None  # a multiple below the order is never the point at infinity
        return cls(secret, point)

    @property
    def encoded_point(self) -> bytes:
        return b"\x04" + self.point[0].to_bytes(32, "big") + self.point[1].to_bytes(32, "big")

    @property
    def identifier(self) -> bytes:
        """What certificates call the key by."""
        return hashlib.sha1(self.encoded_point, usedforsecurity=False).digest()

    def public(self) -> bytes:
        """The public key as certificates carry it."""
        return _sequence(_sequence(_EC_PUBLIC_KEY, _PRIME256V1), _tagged(0x03, b"\x00" + self.encoded_point))

    def pem(self) -> str:
        """The private key, as RFC 5915 writes it."""
        body = _sequence(
            _integer(1),
            _tagged(0x04, self.secret.to_bytes(32, "big")),
            _tagged(0xA0, _PRIME256V1),
            _tagged(0xA1, _tagged(0x03, b"\x00" + self.encoded_point)),
        )
        return _pem("EC PRIVATE KEY", body)

    def sign(self, message: bytes) -> bytes:
        """An ECDSA signature with SHA-256."""
        digest = int.from_bytes(hashlib.sha256(message).digest(), "big")
        while True:
            nonce = secrets.randbelow(_N - 1) + 1
            point = _times(nonce, _G)
            first = point[0] % _N if point else 0
            second = pow(nonce, -1, _N) * (digest + first * self.secret) % _N
            if first and second:
                return _sequence(_integer(first), _integer(second))


def _plus(left: _Point, right: _Point) -> _Point:
    if left is None or right is None:
        return right if left is None else left
    if left[0] == right[0]:
        if (left[1] + right[1]) % _P == 0:
            return None
        slope = (3 * left[0] * left[0] - 3) * pow(2 * left[1], -1, _P) % _P
    else:
        slope = (right[1] - left[1]) * pow(right[0] - left[0], -1, _P) % _P
    x = (slope * slope - left[0] - right[0]) % _P
    return x, (slope * (left[0] - x) - left[1]) % _P


def _times(factor: int, point: _Point) -> _Point:
    result: _Point = None
    while factor:
        if factor & 1:
            result = _plus(result, point)
        point = _plus(point, point)
        factor >>= 1
    return result


def _certificate(
    *, issuer: str, subject: str, key: _Key, signer: _Key, since: datetime.datetime, until: datetime.datetime,
    extensions: Sequence[bytes],
) -> bytes:  # fmt: skip
    algorithm = _sequence(_ECDSA_WITH_SHA256)
    body = _sequence(
        _tagged(0xA0, _integer(2)),
        _integer(secrets.randbits(126) + 1),
        algorithm,
        _name(issuer),
        _sequence(_time(since), _time(until)),
        _name(subject),
        key.public(),
        _tagged(0xA3, _sequence(*extensions)),
    )
    return _sequence(body, algorithm, _tagged(0x03, b"\x00" + signer.sign(body)))


def _extension(identifier: bytes, value: bytes, *, critical: bool = False) -> bytes:
    return _sequence(identifier, *([_boolean(True)] if critical else []), _tagged(0x04, value))


def _name(common: str) -> bytes:
    return _sequence(_tagged(0x31, _sequence(_COMMON_NAME, _tagged(0x0C, common.encode()))))


def _time(moment: datetime.datetime) -> bytes:
    if moment.year < 2050:
        return _tagged(0x17, moment.strftime("%y%m%d%H%M%SZ").encode())
    return _tagged(0x18, moment.strftime("%Y%m%d%H%M%SZ").encode())


def _tagged(tag: int, value: bytes) -> bytes:
    size = len(value)
    if size < 128:
        return bytes((tag, size)) + value
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + value


def _sequence(*parts: bytes) -> bytes:
    return _tagged(0x30, b"".join(parts))


def _integer(value: int) -> bytes:
    return _tagged(0x02, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def _boolean(value: bool) -> bytes:
    return _tagged(0x01, b"\xff" if value else b"\x00")


def _pem(label: str, body: bytes) -> str:
    text = base64.b64encode(body).decode()
    lines = "\n".join(text[start : start + 64] for start in range(0, len(text), 64))
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"
