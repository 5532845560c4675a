"""Names and identities of what an API server and its controllers would have made: the same for the same seed."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from typing import Final

import msgspec

#: What Kubernetes makes random names of: no vowels, so that no words come out.
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193
#: Kubernetes cuts the name that a random suffix is put behind.
_LONGEST_PREFIX: Final = 58


def uid_of(kind: str, namespace: str, name: str) -> str:
    """The identity of an object that was given none."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{kind}/{namespace}/{name}"))


def template_hash(template: msgspec.Struct) -> str:
    """A short name for what a pod template says, in the style of ``pod-template-hash``."""
    value = _FNV_OFFSET
    for byte in msgspec.json.encode(template):
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return "".join(_LETTERS[ord(digit) % len(_LETTERS)] for digit in str(value))


def generated_names(prefix: str, *, seed: int, owner: str) -> Iterator[str]:
    """``prefix`` with five random letters behind it, never the same twice.

    The letters depend on the seed and the owner alone, so that one workload's pods keep their names whatever stands
    beside it.
    """
    source = random.Random(f"{seed}/{owner}")
    seen: set[str] = set()
    while True:
        suffix = "".join(source.choices(_LETTERS, k=5))
        if suffix not in seen:
            seen.add(suffix)
            yield prefix[:_LONGEST_PREFIX] + suffix
