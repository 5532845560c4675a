"""Finding, checking, loading and reloading plugins."""

from mooring.loading.catalog import Catalog, Requested, find_plugins, plugin_spec
from mooring.loading.load_errors import Fault, PluginLoadError
from mooring.loading.plugin_files import FoundPlugin, load_plugin, load_session_plugin, parse_plugin_option
from mooring.loading.plugin_kinds import ACTION, JOB, KINDS, POD, SESSION, Kind
from mooring.loading.setup import Setup, configuration, load_setup

__all__ = [
    "ACTION",
    "JOB",
    "KINDS",
    "POD",
    "SESSION",
    "Catalog",
    "Fault",
    "FoundPlugin",
    "Kind",
    "PluginLoadError",
    "Requested",
    "Setup",
    "configuration",
    "find_plugins",
    "load_plugin",
    "load_session_plugin",
    "load_setup",
    "parse_plugin_option",
    "plugin_spec",
]
