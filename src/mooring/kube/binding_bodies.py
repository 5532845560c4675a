"""The Binding of a pod as the body of a request, in protobuf and in JSON, and responses in protobuf.

Protobuf costs the API server less CPU time. Hand-written because the general encoder of `mooring.api.protobuf` takes
more time for it than JSON takes. It writes the same bytes, and is used for unusual names and for annotations.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from mooring.api.protobuf import ProtobufError, decode_object
from mooring.api.protobuf.decode import MAGIC
from mooring.api.protobuf.encode import encode_message, tagged, varint

JSON: Final = "application/json"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
#: The kinds of responses that are accepted, by the type of the request. Proxies may answer a request in protobuf with
#: JSON.
ACCEPTED: Final = {PROTOBUF: f"{PROTOBUF}, {JSON}"}
#: The first bytes of objects.
OBJECT_STARTS: Final = (b"{", MAGIC)

#: The encoded length of each content that is not longer than this, as characters.
_LENGTHS: Final = tuple(varint(size).decode("latin-1") for size in range(1024))
_SHORT: Final = 0x80
#: What the envelope begins with: apiVersion and kind.
_TYPE: Final = MAGIC + tagged(1, tagged(1, b"v1") + tagged(2, b"Binding"))
_START: Final = _TYPE.decode("latin-1")


class _Meta(msgspec.Struct, rename="camel", omit_defaults=True):
    name: str
    namespace: str
    uid: str
    annotations: Mapping[str, str] = {}
    resource_version: str = ""


class _Target(msgspec.Struct):
    name: str
    kind: str = "Node"


class _Binding(msgspec.Struct, rename="camel"):
    metadata: _Meta
    target: _Target
    kind: str = "Binding"
    api_version: str = "v1"


_json_encoder: Final = msgspec.json.Encoder()


def encode_json_binding(
    name: str, namespace: str, uid: str, annotations: Mapping[str, str], version: str, node: str
) -> bytes:
    """Encode a Binding as JSON."""
    return _json_encoder.encode(_Binding(_Meta(name, namespace, uid, annotations, version), _Target(node)))


def encode_protobuf_binding(
    name: str, namespace: str, uid: str, annotations: Mapping[str, str], version: str, node: str
) -> bytes:
    """Encode a Binding in protobuf. Hot path: one string is formatted and encoded, with each length as a character."""
    a, b, c, d, e = len(name), len(namespace), len(uid), len(version), len(node)
    if a < _SHORT > b and c < _SHORT > d and e < _SHORT and not annotations:
        metadata, target = a + b + c + d + 16, e + 18
        size = metadata + target + 2 + len(_LENGTHS[metadata]) + len(_LENGTHS[target])
        text = (
            f"{_START}\x12{_LENGTHS[size]}"
            f'\n{_LENGTHS[metadata]}\n{chr(a)}{name}\x12\0\x1a{chr(b)}{namespace}"\0*{chr(c)}{uid}2{chr(d)}{version}8\0B\0'
            f'\x12{_LENGTHS[target]}\n\x04Node\x12\0\x1a{chr(e)}{node}"\0*\x002\0:\0'
        )
        if size < _SHORT:
            if text.isascii():
                return text.encode("ascii")
        elif (name + namespace + uid + version + node).isascii():
            return text.encode("latin-1")
    metadata_fields = {
        "name": name, "namespace": namespace, "uid": uid, "annotations": annotations, "resourceVersion": version,
    }  # fmt: skip
    document = {"metadata": metadata_fields, "target": {"kind": "Node", "name": node}}
    return _TYPE + tagged(2, encode_message("core.Binding", document))


def to_json(body: bytes) -> bytes:
    """Return a response in protobuf as JSON, empty if it is damaged, and any other response unchanged."""
    if not body.startswith(MAGIC):
        return body
    try:
        return msgspec.json.encode(decode_object(body))
    except ProtobufError:
        return b""
