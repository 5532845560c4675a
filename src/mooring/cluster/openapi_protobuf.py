"""The OpenAPI v2 document in protobuf, in the format of gnostic, which kubectl asks for.

Hand-written because only a part of the format is needed: the paths with their parameters, and the definitions.
"""

from collections.abc import Iterable
from typing import Any, Final

from mooring.api.protobuf.encode import tagged, varint
from mooring.apiserver.documents import Document
from mooring.cluster.store import encode

#: The media types of the document. The second one is the name that older clients use.
OPENAPI_V2_PROTOBUF: Final = (
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
)
_VENDOR: Final = "x-"
#: The field numbers of a path.
_METHODS: Final = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}
#: The field numbers of the texts, numbers and flags of a schema.
_TEXTS: Final = {"$ref": 1, "format": 2, "title": 3, "description": 4, "pattern": 13}
_NUMBERS: Final = {"maxLength": 11, "minLength": 12, "maxItems": 14, "minItems": 15}
_FLAGS: Final = {"uniqueItems": 16}


def encode_document(document: Document) -> bytes:
    """Encode an OpenAPI v2 document."""
    paths = (tagged(2, _named(path, _path_item(item))) for path, item in document["paths"].items())
    info = _text(1, document["info"]["title"]) + _text(2, document["info"]["version"])
    return b"".join(
        (
            _text(1, document["swagger"]),
            tagged(2, info),
            tagged(8, b"".join(paths)),
            tagged(9, _schemas(document["definitions"])),
        )
    )


def _text(number: int, text: str) -> bytes:
    return tagged(number, text.encode())


def _named(name: str, value: bytes) -> bytes:
    return _text(1, name) + tagged(2, value)


def _any(value: Any) -> bytes:
    """Encode a value of any type: as YAML text, and JSON is YAML."""
    return tagged(2, encode(value))


def _extensions(number: int, holder: Document) -> Iterable[bytes]:
    return (tagged(number, _named(key, _any(value))) for key, value in holder.items() if key.startswith(_VENDOR))


def _path_item(item: Document) -> bytes:
    return b"".join(tagged(_METHODS[method], _operation(each)) for method, each in item.items())


def _operation(operation: Document) -> bytes:
    responses = b"".join(
        tagged(1, _named(code, tagged(1, _text(1, each["description"]))))
        for code, each in operation["responses"].items()
    )
    return b"".join(
        (
            _text(5, operation["operationId"]),
            *(tagged(8, _query_parameter(each)) for each in operation["parameters"]),
            tagged(9, responses),
            *_extensions(13, operation),
        )
    )


def _query_parameter(parameter: Document) -> bytes:
    content = _text(2, parameter["in"]) + _text(4, parameter["name"]) + _text(6, parameter["type"])
    # A parameter that is not a body, in the query.
    return tagged(1, tagged(2, tagged(3, content)))


def _schemas(schemas: Document) -> bytes:
    return b"".join(tagged(1, _named(name, _schema(each))) for name, each in schemas.items())


def _schema(schema: Document) -> bytes:
    found: list[bytes] = []
    for key, value in schema.items():
        if key in _TEXTS and isinstance(value, str):
            found.append(_text(_TEXTS[key], value))
        elif (key in _NUMBERS or key in _FLAGS) and isinstance(value, int):
            found.append(varint((_NUMBERS | _FLAGS)[key] << 3) + varint(int(value)))
        elif key == "required":
            found += [_text(19, each) for each in value]
        elif key == "enum":
            found += [tagged(20, _any(each)) for each in value]
        elif key == "type":
            found.append(tagged(22, _text(1, value)))
        elif key == "items":
            found.append(tagged(23, tagged(1, _schema(value))))
        elif key == "allOf":
            found += [tagged(24, _schema(each)) for each in value]
        elif key == "properties":
            found.append(tagged(25, _schemas(value)))
        elif key == "additionalProperties":
            found.append(tagged(21, _additional_properties(value)))
    return b"".join((*found, *_extensions(31, schema)))


def _additional_properties(value: Any) -> bytes:
    if isinstance(value, dict):
        return tagged(1, _schema(value))
    return varint(2 << 3) + varint(int(bool(value)))
