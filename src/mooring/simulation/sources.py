"""Manifests from files, folders and standard input, with the source of each object for messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from mooring.api.codec import Loaded, Unknown, read_manifests, to_dict
from mooring.api.decode_errors import ManifestError, path_text
from mooring.api.meta import ObjectMeta
from mooring.api.yaml_nodes import ReadError, Step
from mooring.api.yaml_reader import find_line, read_documents
from mooring.api.yaml_writer import yaml_text
from mooring.recording.recording_file import is_recording, objects_at_end
from mooring.recording.records import RecordingError

SUFFIXES: Final = (".yaml", ".yml", ".json")
STDIN: Final = "-"
#: The name of Volcano's scheduler configuration, as a file and as an entry of a ConfigMap.
SESSION_CONF: Final = "volcano-scheduler.conf"


class InputError(ValueError):
    """An error in the input. The message is one line for the user."""


class Source(msgspec.Struct, frozen=True):
    """A text and its name."""

    name: str
    text: bytes
    #: Whether messages refer to lines of the text; false if it was generated.
    has_lines: bool = True


class Given(msgspec.Struct, frozen=True):
    """An object and its source."""

    item: Loaded
    source: Source
    #: The document of the object, including fields that its struct does not have.
    document: dict[str, Any]

    def fault(self, problem: str, *steps: Step, remedy: str = "") -> ManifestError:
        """Return an error about a field of the object."""
        place = _find(self.source.text, self.item) if self.source.has_lines else None
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
    """Return all objects in files and folders; ``-`` is standard input. Raises InputError or ManifestError.

    Of a recording, the objects at its end are returned. A file may be empty only if it is in a folder with other files.
    """
    found: list[Given] = []
    for path in paths:
        if path != STDIN and is_recording(path):
            found += recorded(path)
            continue
        sources, before = list(_sources(path, recursive=recursive, stdin=stdin)), len(found)
        for source in sources:
            found += given_in(source)
        if len(found) == before and all(map(_is_empty, sources)):
            where = sources[0].name if len(sources) == 1 else path
            raise InputError(f"{where}: there is no Kubernetes object in it; give manifests in YAML or JSON")
    return found


def recorded(path: str) -> list[Given]:
    """Return the objects at the end of a recording. Raises InputError."""
    source = Source(path, b"", has_lines=False)
    try:
        return [Given(item, source, to_dict(item)) for item in objects_at_end(path)]
    except RecordingError as error:
        raise InputError(str(error)) from None


def given_in(source: Source) -> list[Given]:
    """Return the objects in a text, and Volcano's scheduler configurations in it. Raises ManifestError."""
    manifests = read_manifests(source.text, source=source.name, skip=_is_session_conf)
    found = [Given(each.item, source, each.document) for each in manifests]
    if b"actions" in source.text:
        documents = [document for document in read_documents(_decoded(source.text)) if document is not None]
        for document in filter(_is_session_conf, documents):
            text = _decoded(source.text) if len(documents) == 1 else yaml_text(document)
            metadata = ObjectMeta(name=SESSION_CONF)
            conf = Unknown(kind=SESSION_CONF, api_version="", metadata=metadata, raw={"text": text})
            found.append(Given(conf, source, document))
    return found


def _is_session_conf(document: Any) -> bool:
    return isinstance(document, dict) and "actions" in document and not {"kind", "apiVersion"} & document.keys()


def session_conf_in(given: Given) -> str | None:
    """Return the text of Volcano's scheduler configuration: a separate document, or an entry of a ConfigMap."""
    if not isinstance(given.item, Unknown):
        return None
    if given.item.kind == SESSION_CONF:
        return str(given.item.raw["text"])
    data = given.item.raw.get("data") if given.item.kind == "ConfigMap" else None
    text = data.get(SESSION_CONF) if isinstance(data, dict) else None
    return text if isinstance(text, str) else None


def _is_empty(source: Source) -> bool:
    """Return whether a text contains no document. A list without objects is a document."""
    return all(document is None for document in read_documents(_decoded(source.text)))


def _sources(path: str, *, recursive: bool, stdin: Callable[[], bytes] | None) -> Iterator[Source]:
    if path == STDIN:
        yield Source("standard input", stdin() if stdin is not None else b"")
        return
    place = Path(path)
    if not place.is_dir():
        yield read_source(place)
        return
    entries = place.rglob("*") if recursive else place.iterdir()
    files = sorted(entry for entry in entries if entry.suffix in SUFFIXES and entry.is_file())
    if not files:
        hint = "" if recursive else "; --recursive looks into the folders in it too"
        raise InputError(f"{path}: no manifest in this folder (*.yaml, *.yml or *.json){hint}")
    for file in files:
        yield read_source(file)


def read_source(path: str | Path) -> Source:
    """Return the text of a file. Raises InputError."""
    try:
        return Source(str(path), Path(path).read_bytes())
    except FileNotFoundError:
        raise InputError(f"{path}: no such file or folder") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None


def _decoded(text: bytes) -> str:
    return text.decode("utf-8-sig", errors="replace")


def _find(text: bytes, item: Loaded) -> tuple[int, tuple[Step, ...]] | None:
    """Return the document that contains an object, and the path to it. Only for messages: it reads the text again."""
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
