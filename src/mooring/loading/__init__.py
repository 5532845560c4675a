"""How plugins are found and checked before they run."""

from mooring.loading.files import PluginLoadError, load_plugin, parse_plugin_option

__all__ = ["PluginLoadError", "load_plugin", "parse_plugin_option"]
