"""DynamicResources: allocates devices for the resource claims of pods."""

from mooring.plugins.dynamic_resources.plugin import DynamicResources

__all__ = ["DynamicResources"]
