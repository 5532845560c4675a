"""Settings of live batch sessions: flags, the configuration file, and users' plugins and actions."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import msgspec

from mooring.batch.actions import Action
from mooring.batch.cluster import BatchCluster
from mooring.batch.conf import DEFAULT_CONF, BatchConf, read_conf
from mooring.batch.kube_plugins import RELEASE
from mooring.batch.plugin import user_action
from mooring.config.config_errors import ConfigError
from mooring.config.document import read_config_file
from mooring.framework.api_clients import Binder, ClaimWriter, VolumeWriter
from mooring.framework.handle import Handle
from mooring.loading import ACTION, SESSION, Catalog, FoundPlugin
from mooring.logs import get_logger
from mooring.scheduler.cache import Cache

log = get_logger("mooring.batch")


class BatchSettings(msgspec.Struct, frozen=True):
    """The settings of sessions. The fields are vc-scheduler's flags."""

    #: The configuration file; None for Volcano's default configuration.
    scheduler_conf: Path | None = None
    scheduler_names: tuple[str, ...] = ("volcano",)
    schedule_period: float = 1.0
    default_queue: str = "default"
    #: Labels; sessions consider the nodes that have one of them, or all nodes if it is empty.
    node_selector: tuple[tuple[str, str], ...] = ()
    #: Whether Volcano's own scheduling gate is removed from pods when their queue has room (a feature gate).
    removes_queue_gates: bool = False
    #: Users' plugins and actions, by name; they take precedence over built-in ones.
    plugins: dict[str, Any] = msgspec.field(default_factory=dict)
    actions: dict[str, Any] = msgspec.field(default_factory=dict)


def batch_cluster(
    cache: Cache,
    *,
    scheduler_names: tuple[str, ...],
    default_queue: str,
    node_selector: tuple[tuple[str, str], ...] = (),
    removes_queue_gates: bool = False,
    clock: Callable[[], float],
    rng: random.Random | None = None,
    binder: Binder | None = None,
    volumes: VolumeWriter | None = None,
    claims: ClaimWriter | None = None,
    as_volcano: bool = False,
) -> BatchCluster:
    """Return the state that sessions read, on the cache of a scheduler.

    With ``as_volcano``, sessions have the restrictions of Volcano's cache, for a comparison with it: the images of a
    node are those of its first version, for example.
    """
    handle = Handle(
        profile_name=scheduler_names[0],
        table=cache.table,
        objects=cache.objects,
        clock=clock,
        rng=rng,
        binder=binder,
        volumes=volumes,
        claims=claims,
        release=RELEASE,
    )
    return BatchCluster(
        handle,
        scheduler_names=scheduler_names,
        default_queue=default_queue,
        images_on_arrival=as_volcano,
        hides_unevicted=as_volcano,
        unset_is_open=not as_volcano,
        node_selector=node_selector,
        removes_queue_gates=removes_queue_gates,
    )


class ConfFile:
    """A volcano-scheduler.conf, or Volcano's default if there is no file. An invalid file does not take effect."""

    def __init__(self, path: Path | None, *, actions: Collection[str], plugins: Collection[str]) -> None:
        """Read the file. Raises ConfigError, because there is no earlier configuration to keep."""
        self._path = path
        self._actions = actions
        self._plugins = plugins
        self.current: BatchConf = self._read()

    def paths(self) -> list[Path]:
        """Return the file in a list; empty if there is none."""
        return [] if self._path is None else [self._path]

    def reread(self, *, actions: Collection[str] | None = None, plugins: Collection[str] | None = None) -> bool:
        """Read the file again, because it or the plugins changed. Return whether it is in effect now."""
        self._actions = self._actions if actions is None else actions
        self._plugins = self._plugins if plugins is None else plugins
        try:
            self.current = self._read()
        except ConfigError as error:
            for line in error.lines():
                log.error("the configuration is not used, the last good one stays", problem=line)
            return False
        log.info("the configuration changed", actions=list(self.current.actions))
        return True

    def _read(self) -> BatchConf:
        source = "" if self._path is None else str(self._path)
        text = DEFAULT_CONF if self._path is None else read_config_file(self._path, encoding="utf-8-sig")
        conf = read_conf(text, source=source, actions=self._actions, plugins=self._plugins)
        for warning in conf.warnings:
            log.warning(warning)
        return conf


def session_plugins(catalog: Catalog) -> dict[str, type[Any]]:
    """Return users' session plugins by name; as in Volcano, a plugin alone in its file also has the file's name."""
    found = [each for each in catalog.found.values() if each.kind is SESSION]
    return {**_by_file(found), **{each.name: each.cls for each in found}}


def session_actions(catalog: Catalog) -> dict[str, Action]:
    """Return users' actions by name."""
    return {name: user_action(cls) for name, cls in catalog.classes(ACTION).items()}


def _by_file(found: Iterable[FoundPlugin]) -> dict[str, type[Any]]:
    files: dict[str, list[type[Any]]] = {}
    for each in found:
        if each.path is not None:
            files.setdefault(each.path.stem, []).append(each.cls)
    # A file's name never replaces a built-in plugin. Only the plugin's own name does.
    return {stem: alone[0] for stem, alone in files.items() if len(alone) == 1 and stem not in SESSION.builtin}
