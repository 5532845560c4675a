"""The fingerprint by which a node's agent says which pods it has counted: a hash of hashes of their names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_PREFIX: Final = "pfp0v001"
_MASK: Final = (1 << 64) - 1
_PRIMES: Final = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


def fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """The fingerprint of pods, given by namespace and name, in any order."""
    hashes = sorted(xxhash64(name.encode(), xxhash64(namespace.encode())) for namespace, name in pods)
    total = xxhash64(b"".join(each.to_bytes(8, "little") for each in hashes))
    return f"{_PREFIX}{total.to_bytes(8, 'big').hex()}"


def xxhash64(data: bytes, seed: int = 0) -> int:
    """The hash XXH64."""
    first, second, third, fourth, fifth = _PRIMES
    place, length = 0, len(data)
    if length >= 32:
        lanes = [(seed + first + second) & _MASK, (seed + second) & _MASK, seed, (seed - first) & _MASK]
        while place <= length - 32:
            lanes = [_round(lane, _word(data, place + 8 * number)) for number, lane in enumerate(lanes)]
            place += 32
        total = sum(_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            total = ((total ^ _round(0, lane)) * first + fourth) & _MASK
    else:
        total = (seed + fifth) & _MASK
    total = (total + length) & _MASK
    while place <= length - 8:
        total = (_rotated(total ^ _round(0, _word(data, place)), 27) * first + fourth) & _MASK
        place += 8
    if place <= length - 4:
        word = int.from_bytes(data[place : place + 4], "little")
        total = (_rotated(total ^ (word * first & _MASK), 23) * second + third) & _MASK
        place += 4
    for byte in data[place:]:
        total = _rotated(total ^ (byte * fifth & _MASK), 11) * first & _MASK
    for shift, prime in ((33, second), (29, third), (32, 1)):
        total = (total ^ (total >> shift)) * prime & _MASK
    return total


def _word(data: bytes, place: int) -> int:
    return int.from_bytes(data[place : place + 8], "little")


def _rotated(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & _MASK


def _round(lane: int, word: int) -> int:
    return _rotated((lane + word * _PRIMES[1]) & _MASK, 31) * _PRIMES[0] & _MASK
