"""Manifests from files, folders and standard input, with where each object came from, for messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from mooring.api.codec import Loaded, read_manifests
from mooring.api.decode_errors import ManifestError, path_text
from mooring.api.yaml_nodes import ReadError, Step
from mooring.api.yaml_reader import find_line, read_documents

SUFFIXES: Final = (".yaml", ".yml", ".json")
STDIN: Final = "-"


class InputError(ValueError):
    """Input that cannot be used, in one line for a person."""


class Source(msgspec.Struct, frozen=True):
    """A text and what to call it."""

    name: str
    text: bytes


class Given(msgspec.Struct, frozen=True):
    """An object and the file it was read from."""

    item: Loaded
    source: Source
    #: The document that the object was decoded from, with the fields that its struct does not have.
    document: dict[str, Any]

    def fault(self, problem: str, *steps: Step, remedy: str = "") -> ManifestError:
        """What is wrong with one of the object's fields."""
        place = _find(self.source.text, self.item)
        line = None
        if place is not None:
            document, prefix = place
            line = find_line(_decoded(self.source.text), document, (*prefix, *steps))
        namespace = self.item.metadata.namespace
        name = f"{namespace}/{self.item.metadata.name}" if namespace else self.item.metadata.name
        return ManifestError(
            problem,
            source=self.source.name,
            line=line,
            object_name=f"{self.item.kind} {name}",
            path=path_text(steps),
            remedy=remedy,
        )


def read(paths: Iterable[str], *, recursive: bool = False, stdin: Callable[[], bytes] | None = None) -> list[Given]:
    """All objects of some files and folders; ``-`` is standard input. Raises InputError or ManifestError."""
    found: list[Given] = []
    for path in paths:
        for source in _sources(path, recursive=recursive, stdin=stdin):
            manifests = read_manifests(source.text, source=source.name)
            found += [Given(each.item, source, each.document) for each in manifests]
    return found


def _sources(path: str, *, recursive: bool, stdin: Callable[[], bytes] | None) -> Iterator[Source]:
    if path == STDIN:
        yield Source("standard input", stdin() if stdin is not None else b"")
        return
    place = Path(path)
    if not place.is_dir():
        yield _file(place)
        return
    entries = place.rglob("*") if recursive else place.iterdir()
    files = sorted(entry for entry in entries if entry.suffix in SUFFIXES and entry.is_file())
    if not files:
        hint = "" if recursive else "; --recursive looks into the folders in it too"
        raise InputError(f"{path}: no manifest in this folder (*.yaml, *.yml or *.json){hint}")
    for file in files:
        yield _file(file)


def _file(path: Path) -> Source:
    try:
        return Source(str(path), path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"{path}: no such file or folder") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None


def _decoded(text: bytes) -> str:
    return text.decode("utf-8-sig", errors="replace")


def _find(text: bytes, item: Loaded) -> tuple[int, tuple[Step, ...]] | None:
    """The document that an object stands in, and the way to it there. For messages only: reads the text again."""
    wanted = (item.kind, item.metadata.namespace, item.metadata.name)
    try:
        for number, document in enumerate(read_documents(_decoded(text))):
            for steps, value in _objects(document, ()):
                if _identity(value) == wanted:
                    return number, steps
    except ReadError:
        return None
    return None


def _objects(value: Any, steps: tuple[Step, ...]) -> Iterator[tuple[tuple[Step, ...], dict[str, Any]]]:
    if not isinstance(value, dict):
        return
    kind, items = value.get("kind"), value.get("items")
    if not (isinstance(kind, str) and kind.endswith("List") and isinstance(items, list)):
        yield steps, value
        return
    repeated = {} if kind == "List" else {"kind": kind.removesuffix("List")}
    for number, item in enumerate(items):
        if isinstance(item, dict):
            yield from _objects(repeated | item, (*steps, "items", number))


def _identity(value: dict[str, Any]) -> tuple[Any, Any, Any]:
    metadata = value.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    return value.get("kind"), metadata.get("namespace") or "", metadata.get("name")
