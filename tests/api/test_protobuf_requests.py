"""Protobuf requests as documents."""

import struct

import pytest

from mooring.api.protobuf import ProtobufError, decode_object


def _field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return bytes([number << 3]) + _varint(value)
    return bytes([number << 3 | 2]) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    value %= 2**64
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def _envelope(version: bytes, kind: bytes, raw: bytes) -> bytes:
    return b"k8s\x00" + _field(1, _field(1, version) + _field(2, kind)) + _field(2, raw)


def test_protobuf_is_read() -> None:
    """Zeros of plain fields are left out, those of pointers stay; maps, lists, times and quantities are understood."""
    metadata = _field(1, b"d") + _field(3, b"") + _field(8, b"") + _field(11, _field(1, b"k") + _field(2, b"v"))
    container = (
        _field(1, b"c")
        + _field(2, b"img")
        + _field(8, _field(1, _field(1, b"cpu") + _field(2, _field(1, b"500m"))))
        + _field(6, _field(3, 80))
    )
    volume = _field(1, b"v") + _field(2, _field(2, b""))
    spec = _field(1, volume) + _field(2, container) + _field(10, b"") + _field(11, 0)
    rolling = _field(2, _field(1, 1) + _field(3, b"25%")) + _field(1, _field(1, 0) + _field(2, 1))
    deployment = (
        _field(1, 0)
        + _field(3, _field(1, b"") + _field(2, spec))
        + _field(4, _field(1, b"RollingUpdate") + _field(2, rolling))
    )
    found = decode_object(_envelope(b"apps/v1", b"Deployment", _field(1, metadata) + _field(2, deployment)))
    assert found == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "labels": {"k": "v"}},
        "spec": {
            "replicas": 0,
            "template": {
                "spec": {
                    "volumes": [{"name": "v", "emptyDir": {}}],
                    "containers": [
                        {
                            "name": "c",
                            "image": "img",
                            "resources": {"limits": {"cpu": "500m"}},
                            "ports": [{"containerPort": 80}],
                        }
                    ],
                }
            },
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
        },
    }
    secret = _field(1, _field(1, b"s")) + _field(2, _field(1, b"k") + _field(2, b"\x00\xff"))
    assert decode_object(_envelope(b"v1", b"Secret", secret))["data"] == {"k": "AP8="}
    lease = _field(1, _field(1, b"l")) + _field(2, _field(4, _field(1, 1_700_000_000) + _field(2, 5000)))
    assert decode_object(_envelope(b"coordination.k8s.io/v1", b"Lease", lease))["spec"] == {
        "renewTime": "2023-11-14T22:13:20.000005Z"
    }


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"k8s\x00\xff",
        b"k8s\x00\x0a\x7f",
        _envelope(b"v1", b"Nonsense", b""),
        b"k8s\x00" + struct.pack("<q", -1) * 3,
    ],
)
def test_what_is_no_protobuf(body: bytes) -> None:
    """Is refused, however it is damaged."""
    with pytest.raises(ProtobufError):
        decode_object(body)
