"""SessionSettings: whether a simulation runs batch sessions, for which pods, and with which configuration."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mooring.api.pod import Pod
from mooring.api.volcano import PodGroup, Queue
from mooring.api.volcano_jobs import VolcanoJob
from mooring.apiserver.documents import nested_field
from mooring.simulation.sources import Given, InputError, Source, session_conf_in

if TYPE_CHECKING:
    from mooring.batch.conf import BatchConf
    from mooring.loading import Catalog
    from mooring.loading.plugin_options import PluginOptions

SCHEDULER_NAMES: Final = ("volcano",)


class SessionSettings(msgspec.Struct, frozen=True):
    """The settings of batch sessions in a simulation."""

    conf: BatchConf
    #: The schedulerName of the pods that sessions schedule.
    scheduler_names: tuple[str, ...]
    plugins: Mapping[str, type[Any]]
    actions: Mapping[str, Callable[[Any], Any]]
    #: The options of users' plugins.
    options: Mapping[str, PluginOptions]
    #: The names of users' plugins.
    users: frozenset[str]
    default_queue: str = "default"


def session_settings(
    given: Sequence[Given],
    *,
    profiles: Collection[str],
    catalog: Catalog,
    conf: Source | None = None,
    scheduler_names: tuple[str, ...] = (),
) -> SessionSettings | None:
    """Return the settings of sessions; None if the simulation needs no sessions.

    Sessions are needed if a configuration or scheduler names are given, if a configuration is among the manifests, or
    if the manifests contain queues, pod groups, jobs or pods for sessions and no profile has their scheduler name.
    Raises InputError and ConfigError.
    """
    names = scheduler_names or SCHEDULER_NAMES
    conf = conf or _conf_among(given)
    if taken := sorted(set(names) & set(profiles)):
        if conf is not None or scheduler_names:
            raise InputError(f"{taken[0]} is both a profile and a scheduler name of sessions; rename one of them")
        return None
    if conf is None and not scheduler_names and not any(_is_for_sessions(each, names) for each in given):
        return None
    # Importing sessions and the live scheduler is slow, and most simulations need neither.
    from mooring.batch.actions import ACTIONS
    from mooring.batch.conf import DEFAULT_CONF, read_conf
    from mooring.batch.plugins import PLUGINS
    from mooring.live.batch.batch_settings import session_actions, session_plugins

    users, conf = session_plugins(catalog), conf or Source("Volcano's default configuration", DEFAULT_CONF.encode())
    plugins, actions = {**PLUGINS, **users}, {**ACTIONS, **session_actions(catalog)}
    return SessionSettings(
        read_conf(conf.text.decode("utf-8-sig"), source=conf.name, actions=actions, plugins=plugins),
        scheduler_names=names,
        plugins=plugins,
        actions=actions,
        options=catalog.options(),
        users=frozenset(users),
    )


def _conf_among(given: Sequence[Given]) -> Source | None:
    found = [(each, text) for each in given if (text := session_conf_in(each)) is not None]
    if len(found) > 1:
        names = " and ".join(each.source.name for each, _ in found[:2])
        raise InputError(f"there are several configurations of sessions, in {names}; name one with --scheduler-conf")
    return Source(found[0][0].source.name, found[0][1].encode()) if found else None


def _is_for_sessions(given: Given, names: tuple[str, ...]) -> bool:
    item = given.item
    if isinstance(item, PodGroup | Queue | VolcanoJob):
        return True
    if isinstance(item, Pod):
        return item.scheduler_name in names
    return nested_field(given.document, "spec", "template", "spec", "schedulerName") in names
