"""Names that the API server and the controllers generate."""

import random
from typing import Final

import msgspec

from mooring.apiserver.documents import Document

#: The characters of generated names. There are no vowels, so that names do not spell words.
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH: Final = 5
#: The length to which a prefix is truncated, so that the whole name is a valid DNS label.
MAX_PREFIX_LENGTH: Final = 63 - _SUFFIX_LENGTH
_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193

_encode: Final = msgspec.json.Encoder(order="sorted").encode


def generated_name(prefix: str, rng: random.Random) -> str:
    """Return a name for `generateName`: the prefix and five random characters."""
    return prefix[:MAX_PREFIX_LENGTH] + "".join(rng.choices(_ALPHABET, k=_SUFFIX_LENGTH))


def template_hash(template: Document, collisions: int | None = None) -> str:
    """Return the hash of a pod template, as in the `pod-template-hash` label.

    The hash function (32-bit FNV-1a) and the encoding of the number are those of the controllers. The controllers hash
    a dump of Go structs, which is not reproduced here: the text that is hashed is the template as JSON.
    """
    value = _FNV_OFFSET
    for byte in _encode(template) + (collisions.to_bytes(8, "little") if collisions else b""):
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return "".join(_ALPHABET[ord(digit) % len(_ALPHABET)] for digit in str(value))
