"""How plugins are found, checked, guarded and reloaded."""

from mooring.loading.catalog import Catalog, Requested, find_plugins
from mooring.loading.configuration import configuration, plugin_spec
from mooring.loading.errors import Fault, PluginLoadError
from mooring.loading.files import Found, load_plugin, load_session_plugin, parse_plugin_option
from mooring.loading.kinds import ACTION, KINDS, POD, SESSION, Kind
from mooring.loading.setup import Setup, load_setup

__all__ = [
    "ACTION",
    "KINDS",
    "POD",
    "SESSION",
    "Catalog",
    "Fault",
    "Found",
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
