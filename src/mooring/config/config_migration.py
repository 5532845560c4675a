"""Converts v1beta2 and v1beta3 files to v1, and reports what v1 cannot express."""

from __future__ import annotations

from collections.abc import Mapping as AnyMapping
from typing import Any, Final

import msgspec

from mooring.api.yaml_nodes import Mapping, Node, Sequence, is_null, plain
from mooring.api.yaml_writer import yaml_text
from mooring.config.builtin_plugins import DORMANT, IGNORED_POINTS, RETIRED, defaults, served
from mooring.config.config_errors import ConfigError, FieldError
from mooring.config.config_loader import load_config, load_document
from mooring.config.document import Document, read_document
from mooring.config.model import EnabledPlugin, PluginSpec, Profile, SchedulerConfiguration
from mooring.config.plugin_merge import ALL, MULTI_POINT, Plan, Served, merged_sets, running
from mooring.config.schema import GROUP, KIND, POINTS, Version
from mooring.config.startup_checks import FIT
from mooring.releases import RELEASES, Release

_BIND_ADDRESSES: Final = ("healthzBindAddress", "metricsBindAddress")


class Migration(msgspec.Struct, frozen=True):
    """The converted text and notes about it."""

    text: str
    notes: tuple[str, ...]


def migrate(
    text: str, *, source: str, plugins: AnyMapping[str, PluginSpec] | None = None, release: Release = RELEASES[0]
) -> Migration:
    """Convert a file to v1 as a release reads it: by default the oldest one, so that the result suits all of them.

    Raises ConfigError if the file is invalid.
    """
    document = read_document(text, source=source, release=release)
    if document.version == "v1":
        load_document(document, plugins=plugins)
        return Migration(text, ("The file is already v1: nothing to change.",))
    notes = _Notes()
    known = _with_assumed(document, plugins or {}, notes)
    config = load_document(document, plugins=known)
    result = _rewritten(document, config, known, notes)
    header = f"# Rewritten from {GROUP}/{document.version} by `mooring config migrate`.\n"
    new_text = header + yaml_text(result)
    try:
        load_config(new_text, source=source, plugins=known, release=release)
    except ConfigError as error:
        refused = [
            FieldError(each.path, f"v1 cannot express this: {each.message}", None, each.remedy) for each in error.errors
        ]
        raise ConfigError(refused, stage=error.stage, source=source) from None
    return Migration(new_text, notes.all())


class _Notes:
    """The changes, each once, with the affected profiles."""

    def __init__(self) -> None:
        self._notes: dict[str, list[str]] = {}

    def add(self, note: str, profile: str | None = None) -> None:
        where = self._notes.setdefault(note, [])
        if profile is not None:
            where.append(f'"{profile}"')

    def all(self) -> tuple[str, ...]:
        return tuple(f"{note} (profile {', '.join(where)})" if where else note for note, where in self._notes.items())


def _with_assumed(document: Document, given: AnyMapping[str, PluginSpec], notes: _Notes) -> dict[str, PluginSpec]:
    """Return all plugins that are not built in. One that is not loaded has the points that name it."""
    version = document.version
    builtin = served(version, document.release)
    assumed: dict[str, set[str]] = {}
    errors: list[FieldError] = []
    for i, profile in enumerate(document.values.get("profiles") or []):
        for point, requested in profile.get("plugins", {}).items():
            for j, entry in enumerate(requested.get("enabled", [])):
                name = entry.get("name", "")
                if not name or name in builtin or name in given or point in IGNORED_POINTS[version]:
                    continue
                if point == MULTI_POINT:
                    path = f"profiles[{i}].plugins.{point}.enabled[{j}]"
                    message = f'the extension points of the plugin "{name}" are unknown'
                    errors.append(FieldError(path, message, remedy=f"Load it with --plugin {name}=FILE."))
                assumed.setdefault(name, set()).add(point)
    if errors:
        raise document.fail(errors, "start")
    for name in sorted(assumed):
        notes.add(f"{name} is not built in: assumed to be a custom plugin for {', '.join(sorted(assumed[name]))}")
    return {**given, **{name: PluginSpec(name, frozenset(points)) for name, points in assumed.items()}}


def _rewritten(
    document: Document, config: SchedulerConfiguration, known: AnyMapping[str, PluginSpec], notes: _Notes
) -> dict[str, Any]:
    """Return the fields of the file in their order, with the converted profiles."""
    result: dict[str, Any] = {"apiVersion": f"{GROUP}/v1", "kind": KIND}
    root = document.root
    entries = root.entries if isinstance(root, Mapping) else []
    for entry in entries:
        if entry.key in _BIND_ADDRESSES:
            notes.add(f"{entry.key} is removed in v1; metrics and health are served at the secure port only")
        elif entry.key not in (*result, "profiles") and not is_null(entry.value):
            result[entry.key] = plain(entry.value)
    old = _items(next((entry.value for entry in entries if entry.key == "profiles"), None)) or [Mapping([], 1)]
    points = {name: spec.points for name, spec in known.items()}
    change = _Change(
        version=config.version,
        release=config.release,
        old={**served(config.version, config.release), **points},
        new={**served("v1", config.release), **points},
        needs_fit=any(each.ignored_by_scheduler for one in config.extenders for each in one.managed_resources),
    )
    _note_removed_plugins(config, change, notes)
    result["profiles"] = [
        _profile(node, profile, change, notes) for node, profile in zip(old, config.profiles, strict=True)
    ]
    return result


class _Change(msgspec.Struct, frozen=True):
    """The original version, and the extension points of plugins in it and in v1."""

    version: Version
    release: Release
    old: Served
    new: Served
    #: Whether extenders manage resources that NodeResourcesFit ignores; it needs arguments then.
    needs_fit: bool

    def drops(self, name: str) -> bool:
        """Return whether a plugin is omitted: it was removed, or it had no effect."""
        return (name in RETIRED and name not in self.new) or name in DORMANT[self.version]

    def is_new(self, name: str, point: str) -> bool:
        """Return whether a plugin has an extension point only in v1."""
        return point in self.new.get(name, ()) and point not in self.old.get(name, ())


def _profile(node: Node, profile: Profile, change: _Change, notes: _Notes) -> dict[str, Any]:
    name = profile.scheduler_name
    given = plain(node) if isinstance(node, Mapping) else {}
    result: dict[str, Any] = {}
    if given.get("schedulerName") is not None:
        result["schedulerName"] = given["schedulerName"]
    for point in IGNORED_POINTS[change.version]:
        if (given.get("plugins") or {}).get(point):
            notes.add(f"{change.version} ignored plugins.{point}, but v1 does not, so it is removed", name)
    plugins = _plugins(_remaining(profile, change), change, notes, name)
    if plugins:
        result["plugins"] = plugins
    entries = _items(node.get("pluginConfig")) if isinstance(node, Mapping) else []
    arguments = [args for each in entries if (args := _args(each, change, notes, name)) is not None]
    if change.needs_fit and FIT in profile.plugin_config and all(each["name"] != FIT for each in arguments):
        arguments.append({"name": FIT, "args": {}})
    if arguments:
        result["pluginConfig"] = arguments
    return result


def _items(node: Node | None) -> list[Node]:
    return node.items if isinstance(node, Sequence) else []


def _remaining(profile: Profile, change: _Change) -> Plan:
    """Return the plugins that ran, without removed ones and those without effect."""
    return {
        point: tuple(plugin for plugin in profile.plugins[point] if not change.drops(plugin.name)) for point in POINTS
    }


def _plugins(wanted: Plan, change: _Change, notes: _Notes, profile: str) -> dict[str, Any]:
    """Return a short `plugins` of v1 that runs these plugins in this order and with these weights."""
    running_somewhere = {plugin.name for each in wanted.values() for plugin in each}
    usual_plugins = [name for name, _ in defaults("v1", change.release)[MULTI_POINT]]
    off = [name for name in usual_plugins if name not in running_somewhere]
    result: dict[str, Any] = {}
    if off:
        result[MULTI_POINT] = {"disabled": _named([ALL] if len(off) == len(usual_plugins) else off)}
    plan, _ = running(merged_sets("v1", change.release, result), change.new)
    _note_new_plugins(off, plan, change, notes, profile)
    for point in POINTS:
        usual = tuple(each for each in plan[point] if not change.is_new(each.name, point))
        if usual == wanted[point]:
            continue
        result[point] = _amended(point, usual, wanted[point])
        if result[point] is None:
            added = (each for each in plan[point] if change.is_new(each.name, point))
            entries = [_entry(each, point) for each in (*wanted[point], *added)]
            result[point] = {"enabled": entries, "disabled": _named([ALL])}
            _note_difference(point, usual, wanted[point], notes, profile)
    return result


def _amended(point: str, usual: tuple[EnabledPlugin, ...], wanted: tuple[EnabledPlugin, ...]) -> dict[str, Any] | None:
    """Return the plugins as v1's defaults without some, followed by others; None if that is not possible."""
    kept = tuple(each for each in usual if each in wanted)
    extra = wanted[len(kept) :]
    if wanted[: len(kept)] != kept or any(one.name == other.name for one in usual for other in extra):
        return None
    gone = [each.name for each in usual if each not in kept]
    enabled = [_entry(each, point) for each in extra]
    return {**({"enabled": enabled} if enabled else {}), **({"disabled": _named(gone)} if gone else {})}


def _named(names: list[str]) -> list[dict[str, Any]]:
    return [{"name": name} for name in names]


def _entry(plugin: EnabledPlugin, point: str) -> dict[str, Any]:
    return {"name": plugin.name, **({"weight": plugin.weight} if point == "score" else {})}


def _note_removed_plugins(config: SchedulerConfiguration, change: _Change, notes: _Notes) -> None:
    ran = {plugin.name for profile in config.profiles for each in profile.plugins.values() for plugin in each}
    reasons: dict[str, list[str]] = {}
    for name in sorted(ran):
        if name in DORMANT[change.version]:
            notes.add(f"{name} is removed: it had no effect in {change.version}, where its feature was disabled")
        elif change.drops(name):
            reasons.setdefault(RETIRED[name], []).append(name)
    for reason, names in reasons.items():
        notes.add(f"removed, because v1 does not have them: {', '.join(names)}; {reason}")


def _note_new_plugins(off: list[str], plan: Plan, change: _Change, notes: _Notes, profile: str) -> None:
    fresh = [name for name in off if name not in change.old or name in DORMANT[change.version]]
    if fresh:
        told = " and ".join(fresh)
        notes.add(
            f"new defaults of v1 did not run in this version and are disabled: {told}; delete the entry to enable them",
            profile,
        )
    for point in POINTS:
        for plugin in plan[point]:
            if change.is_new(plugin.name, point):
                notes.add(f"{plugin.name} also runs at {point} in v1")


def _note_difference(
    point: str, by_default: tuple[EnabledPlugin, ...], wanted: tuple[EnabledPlugin, ...], notes: _Notes, profile: str
) -> None:
    """Add a note why a point is listed in full: other weights, other plugins, or another order."""
    usual = {plugin.name: plugin.weight for plugin in by_default}
    if point == "score":
        other = [each for each in wanted if each.name in usual and usual[each.name] != each.weight]
        if other:
            told = ", ".join(f"{each.name} {each.weight} (v1: {usual[each.name]})" for each in other)
            notes.add(f"weights that differ from v1's defaults are written out: {told}", profile)
            return
    if {each.name for each in wanted} == usual.keys():
        notes.add(f"{point} is written out to keep its order, which differs in v1", profile)
    else:
        notes.add(f"{point} is written out, since other plugins run there in v1 by default", profile)


def _args(node: Node, change: _Change, notes: _Notes, profile: str) -> dict[str, Any] | None:
    """Return an entry of pluginConfig for v1; None if v1 does not need it."""
    entry: dict[str, Any] = plain(node) if isinstance(node, Mapping) else {}
    name, args = entry.get("name") or "", entry.get("args")
    if name in RETIRED and name not in change.new:
        notes.add(f"the arguments of {name} are removed, because v1 does not have the plugin", profile)
        return None
    if name in DORMANT[change.version]:
        notes.add(f"the arguments of {name} are removed: {change.version} ignored them, but v1 does not", profile)
        return None
    if not isinstance(args, dict) or name not in served("v1", change.release):
        return {key: value for key, value in entry.items() if value is not None}
    args = {key: value for key, value in args.items() if key not in ("apiVersion", "kind")}
    strategy = args.get("scoringStrategy")
    idle = strategy if isinstance(strategy, dict) and strategy.get("type") != "RequestedToCapacityRatio" else {}
    if name == FIT and idle.pop("requestedToCapacityRatio", None) is not None:
        notes.add("requestedToCapacityRatio is removed: it had no effect with that type, and v1 rejects it", profile)
    return {"name": name, "args": args}
