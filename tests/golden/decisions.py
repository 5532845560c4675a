"""Golden decisions: the cases with kube-scheduler's answers, and how Mooring's answer compares."""

from __future__ import annotations

import functools
import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from mooring.releases import V1_36, V1_37, Release

HERE = Path(__file__).parent
#: Each set, and the release that gave its answers.
SETS: dict[str, Release] = {
    "kube-scheduler-1.36": V1_36,
    "kube-scheduler-1.36-features": V1_36,
    "kube-scheduler-1.37": V1_37,
    "scheduler-plugins": V1_36,
    "dra": V1_36,
    "dra-1.37": V1_37,
}
#: What follows is cel-go's own wording.
_COMPILE_ERROR = "CEL compile error"

Case = dict[str, Any]
#: A case and its answer as they are recorded. Decoded, all of them are millions of objects, which every process of a
#: test run would create and keep, so they are decoded where they are used.
Lines = tuple[bytes, bytes]


class _Named(msgspec.Struct):
    id: str


_name = msgspec.json.Decoder(_Named).decode
_decode = msgspec.json.Decoder().decode


@functools.cache
def themes() -> dict[tuple[str, str], list[Lines]]:
    """The cases of each set and theme, with their answers."""
    found: dict[tuple[str, str], list[Lines]] = {}
    for data in SETS:
        for theme, pair in by_theme(data):
            found.setdefault((data, theme), []).append(pair)
    return found


def by_theme(data: str) -> Iterator[tuple[str, Lines]]:
    """Cases and answers of one set, each with its theme."""
    for case, answer in zip(lines(f"{data}/cases.jsonl.gz"), lines(f"{data}/expected.jsonl.gz"), strict=True):
        yield _name(case).id.partition("-")[0], (case, answer)


def lines(path: str) -> list[bytes]:
    """The lines of a recorded file."""
    return gzip.decompress((HERE / path).read_bytes()).splitlines()


@functools.cache
def by_id(path: str) -> dict[str, bytes]:
    """The lines of a recorded file by the name of their case."""
    return {_name(line).id: line for line in lines(path)}


def decoded(pairs: Iterable[Lines]) -> Iterator[tuple[Case, Case]]:
    """Cases and answers, each decoded when it is its turn."""
    return ((_decode(case), _decode(answer)) for case, answer in pairs)


def compare(expected: Case, answer: Case) -> list[str]:
    """What differs; nothing if the decision is the same."""
    return list(_differences(_ordered(expected), _ordered(answer), ""))


def _ordered(value: Any) -> Any:
    """The same with reasons in order, since they compare as sets, and without empty ones; nor is an empty filter."""
    if isinstance(value, list):
        return [_ordered(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {
        key: sorted(map(_comparable, each)) if key == "reasons" else _ordered(each)
        for key, each in value.items()
        if key != "id"
    }
    return {key: each for key, each in kept.items() if each not in ({}, [], "", None) or key in _MAY_BE_EMPTY}


#: Fields whose emptiness is an answer. Empty fields of objects are not written back.
_MAY_BE_EMPTY = frozenset({"status"})


def _comparable(reason: str) -> str:
    before, found, _ = reason.partition(_COMPILE_ERROR)
    return before + found


def _differences(expected: Any, answer: Any, path: str) -> Iterator[str]:
    if isinstance(expected, dict) and isinstance(answer, dict):
        for key in sorted(expected.keys() | answer.keys()):
            yield from _differences(expected.get(key), answer.get(key), f"{path}.{key}")
    elif isinstance(expected, list) and isinstance(answer, list) and len(expected) == len(answer):
        for number, (each, other) in enumerate(zip(expected, answer, strict=True)):
            yield from _differences(each, other, f"{path}[{number}]")
    elif expected != answer:
        yield f"{path.lstrip('.')}: {answer!r}, kube-scheduler says {expected!r}"
