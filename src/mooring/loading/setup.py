"""The setup of a scheduler: the checked configuration and its plugins, from a file and the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from mooring.config import SchedulerConfiguration, default_config, load_config
from mooring.config.config_loader import load_document
from mooring.config.document import Document, read_document
from mooring.config.model import PluginSpec
from mooring.framework.plugin import Plugin
from mooring.loading.catalog import NOTHING, Catalog, Requested, find_plugins, plugin_spec
from mooring.loading.plugin_kinds import POD
from mooring.loading.plugin_sources import read_sources, split
from mooring.loading.wasm.guest_config import guests_in
from mooring.releases import NEWEST, Release

#: The configuration if plugins are given without a file: it enables all plugins at all their extension points.
_EVERYWHERE: Final = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled: [{enabled}]
"""


class Setup(msgspec.Struct, frozen=True):
    """A configuration and its plugins."""

    config: SchedulerConfiguration
    catalog: Catalog
    #: Notes for the user, about plugins that no profile enables.
    notes: tuple[str, ...] = ()

    @property
    def plugins(self) -> dict[str, type[Plugin]]:
        """The user's pod plugins by name."""
        return self.catalog.classes(POD)


def load_setup(
    text: str | None,
    *,
    source: str,
    requested: Requested = NOTHING,
    base: Path | None = None,
    file: Path | None = None,
    known: Catalog | None = None,
    release: Release = NEWEST,
) -> Setup:
    """Read the text of a configuration file (None if there is none) and load its plugins and those of the command line.

    ``base`` is the folder of relative paths in the file, and ``file`` the file itself if it has a path. Unchanged
    plugins of a ``known`` catalog are not loaded again. ``release`` is the release of kube-scheduler to emulate.
    Raises ConfigError or PluginLoadError.
    """
    if text is None:
        catalog = find_plugins(requested, known=known)
        config = config_for(catalog, release)
        return Setup(config, catalog, tuple(_without_gate(config, catalog.specs())))
    rest, written = split(text)
    sources = read_sources(written, source=source)
    document = read_document(rest, source=source, release=release)
    guests = guests_in(document)
    wanted = named_in(document)
    catalog = find_plugins(requested, sources, base=base, file=file, wanted=wanted, guests=guests, known=known)
    try:
        config = load_document(document, plugins=catalog.specs())
        config = msgspec.structs.replace(config, tie_break=sources.tie_break)
    except ValueError:
        catalog.unload(keep=known)
        raise
    notes = (*_idle(config, catalog.classes(POD)), *_without_gate(config, catalog.specs()))
    return Setup(config, catalog, notes)


def configuration(
    text: str | None,
    *,
    plugins: Mapping[str, type[Plugin]],
    source: str,
    plugin_source: str = "plugins",
    release: Release = NEWEST,
) -> SchedulerConfiguration:
    """Return the configuration of a text, or the default one with all plugins enabled. Raises ConfigError."""
    specs = {name: plugin_spec(cls) for name, cls in plugins.items()}
    if text is not None:
        return load_config(text, source=source, plugins=specs, release=release)
    if not plugins:
        return default_config(release)
    enabled = ", ".join(f"{{name: {name}}}" for name in plugins)
    text = _EVERYWHERE.format(enabled=enabled)
    if any("placementGenerate" in spec.points for spec in specs.values()):  # in place of the default plugin
        text += "    placementGenerate: {disabled: [{name: TopologyPlacementGenerator}]}\n"
    return load_config(text, source=plugin_source, plugins=specs, release=release)


def config_for(catalog: Catalog, release: Release = NEWEST) -> SchedulerConfiguration:
    """Return the default configuration of a release with all found plugins enabled."""
    plugins = catalog.classes(POD)
    return configuration(None, plugins=plugins, source="", plugin_source="--plugin", release=release)


def named_in(document: Document) -> frozenset[str]:
    """Return the plugins that a configuration enables or configures."""
    names: set[str] = set()
    profile: dict[str, Any]
    for profile in document.values.get("profiles") or []:
        names.update(args.name for args in profile.get("pluginConfig") or [])
        for plugin_set in (profile.get("plugins") or {}).values():
            names.update(entry.get("name", "") for entry in (plugin_set or {}).get("enabled") or [])
    return frozenset(names)


def enabled_in(config: SchedulerConfiguration) -> frozenset[str]:
    """Return the plugins that any profile enables."""
    return frozenset(entry.name for profile in config.profiles for point in profile.plugins.values() for entry in point)


def _in_sets(config: SchedulerConfiguration) -> frozenset[str]:
    """Return the plugins that any profile names, also those whose extension points need a feature gate that is off."""
    sets = (plugins for profile in config.profiles for plugins in profile.plugin_sets.values())
    return enabled_in(config) | {entry.name for plugins in sets for entry in plugins.enabled}


def _idle(config: SchedulerConfiguration, names: Iterable[str]) -> Iterable[str]:
    enabled = _in_sets(config)
    for name in names:
        if name not in enabled:
            yield f"plugin {name} is in no profile: enable it under profiles[].plugins.multiPoint"


def _without_gate(config: SchedulerConfiguration, specs: Mapping[str, PluginSpec]) -> Iterable[str]:
    """Yield notes about enabled plugins with methods for placements, if the feature gate of placements is off."""
    enabled = _in_sets(config)
    for name, spec in specs.items():
        points = sorted(point for point in spec.points if point.startswith("placement"))
        if name in enabled and points and not config.release.enabled("TopologyAwareWorkloadScheduling"):
            what = " and ".join(points)
            yield f"plugin {name} is not called at {what}: the feature gate TopologyAwareWorkloadScheduling is off"
