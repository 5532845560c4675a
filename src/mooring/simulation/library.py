"""`mooring.simulate`: runs a simulation from a program or a notebook."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import msgspec

from mooring.api.codec import to_dict
from mooring.api.decode_errors import ManifestError
from mooring.api.meta import KubeObject
from mooring.api.yaml_writer import documents_text, yaml_text
from mooring.config import ConfigError, SchedulerConfiguration
from mooring.loading import PluginLoadError, Requested, Setup, find_plugins, load_setup, parse_plugin_option
from mooring.loading.plugin_files import load_file
from mooring.loading.plugin_kinds import plugin_name
from mooring.loading.setup_files import SetupFiles
from mooring.releases import Release, ReleaseError, release_named
from mooring.scheduler.profile import ProfileError
from mooring.simulation.result import SimulationResult
from mooring.simulation.run import simulate_manifests
from mooring.simulation.sources import Given, InputError, Source, given_in, read, read_source

#: Manifests: a path, YAML text, an object as a dictionary or as a Mooring object.
Manifest: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | KubeObject
T = TypeVar("T")


class SimulationError(ValueError):
    """An error in the input of a simulation. The message names the file or argument, the field and the remedy."""


def simulate(
    manifests: Manifest | Iterable[Manifest],
    *,
    config: str | os.PathLike[str] | Mapping[str, Any] | SchedulerConfiguration | None = None,
    plugins: Iterable[type[Any] | str | os.PathLike[str]] = (),
    scheduler_conf: str | os.PathLike[str] | None = None,
    scheduler_names: Sequence[str] = (),
    seed: int = 0,
    recursive: bool = False,
    emulated_version: str = "",
) -> SimulationResult:
    """Schedule the workloads in manifests without a cluster, as `mooring simulate` does. Raises SimulationError.

    ``manifests`` is a file, a folder, YAML text, an object, or a list of these. ``config`` is a
    KubeSchedulerConfiguration and ``scheduler_conf`` a volcano-scheduler.conf, as a file or as text. ``plugins`` are
    classes, which a notebook may define, files, folders, or "NAME=FILE". Without ``config`` they are enabled at all
    their extension points. Batch sessions schedule pods with one of the ``scheduler_names`` (by default volcano).
    ``emulated_version`` is the release of kube-scheduler to emulate, such as "1.36"; by default the newest.
    """
    if isinstance(manifests, str | os.PathLike | Mapping | KubeObject):
        manifests = [manifests]
    try:
        given = [found for number, each in enumerate(manifests) for found in _given(each, number, recursive=recursive)]
        setup = _setup(config, _requested(plugins), release_named(emulated_version))
        conf = None if scheduler_conf is None else _source(scheduler_conf, "scheduler_conf")
        names = tuple(scheduler_names)
        outcome = _outside_loop(lambda: simulate_manifests(given, setup, seed=seed, conf=conf, scheduler_names=names))
    except ConfigError as error:
        raise SimulationError("\n".join(error.lines())) from None
    except (InputError, ManifestError, PluginLoadError, ProfileError, ReleaseError) as error:
        raise SimulationError(str(error)) from None
    return SimulationResult(outcome)


# Arguments


def _given(manifest: object, number: int, *, recursive: bool) -> list[Given]:
    match manifest:
        case str() if _is_text(manifest):
            found = given_in(Source(f"manifests[{number}]", manifest.encode()))
            if not found:
                raise InputError(f"manifests[{number}]: there is no Kubernetes object in the text")
            return found
        case str() | os.PathLike():
            return read([os.fspath(manifest)], recursive=recursive)
        case KubeObject():
            return _given(to_dict(manifest), number, recursive=recursive)
        case Mapping():
            return _given_document(_plain(manifest), f"manifests[{number}]")
    raise InputError(
        f"manifests[{number}]: {type(manifest).__name__} is no manifest; give a path, YAML text or a dictionary"
    )


def _given_document(document: Any, name: str) -> list[Given]:
    try:
        return given_in(Source(name, documents_text([document]).encode(), has_lines=False))
    except ManifestError as error:
        error.document = error.line = None
        raise


def _is_text(text: str) -> bool:
    """Return whether a string is YAML or JSON and not a path."""
    return "\n" in text or ": " in text or text.lstrip().startswith("{")


def _plain(value: Any) -> Any:
    """Return a value that consists of plain data, which YAML can express."""
    try:
        return msgspec.to_builtins(value, str_keys=True)
    except (TypeError, ValueError) as error:
        raise InputError(f"a manifest contains what is no plain data: {error}") from None


def _requested(plugins: Iterable[type[Any] | str | os.PathLike[str]]) -> Requested:
    classes: list[tuple[str, type[Any]]] = []
    named: list[tuple[str, Path]] = []
    folders: list[Path] = []
    for each in plugins:
        if isinstance(each, type):
            classes.append((plugin_name(each), each))
        elif isinstance(each, str) and "=" in each:
            named.append(parse_plugin_option(each))
        elif not isinstance(each, str | os.PathLike):
            raise InputError(f"plugins: {each!r} is no plugin; give a class, a file, a folder or NAME=FILE")
        elif Path(each).is_dir() and not (Path(each) / "__init__.py").exists():
            folders.append(Path(each))
        else:
            classes += [(found.name, found.cls) for found in load_file(Path(each), "plugins")]
    return Requested(tuple(named), tuple(folders), allow_writable=True, classes=tuple(classes))


def _setup(
    config: str | os.PathLike[str] | Mapping[str, Any] | SchedulerConfiguration | None,
    requested: Requested,
    release: Release,
) -> Setup:
    match config:
        case None:
            return load_setup(None, source="", requested=requested, release=release)
        case SchedulerConfiguration():
            return Setup(config, find_plugins(requested))
        case Mapping():
            return load_setup(yaml_text(_plain(config)), source="config", requested=requested, release=release)
        case str() if _is_text(config):
            return load_setup(config, source="config", requested=requested, release=release)
    return SetupFiles(Path(config), requested, release=release).load()


def _source(text: str | os.PathLike[str], name: str) -> Source:
    """Return a file, or text, whose name is the name of its argument."""
    return Source(name, text.encode()) if isinstance(text, str) and _is_text(text) else read_source(Path(text))


def _outside_loop(work: Callable[[], T]) -> T:
    """Call a function that runs an event loop. If a loop is running, as in a notebook, use a thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="mooring.simulate", daemon=True).start()
    return done.result()
