"""Reads, defaults and validates KubeSchedulerConfiguration v1, v1beta3 and v1beta2."""

from mooring.config.config_errors import ConfigError, FieldError
from mooring.config.config_loader import default_config, load_config
from mooring.config.config_writer import effective, written
from mooring.config.durations import Nanoseconds
from mooring.config.model import (
    ClientConnection,
    EnabledPlugin,
    Extender,
    ExtenderTLS,
    LeaderElection,
    ManagedResource,
    PluginSet,
    PluginSpec,
    Profile,
    SchedulerConfiguration,
)
from mooring.config.schema import POINTS

__all__ = [
    "POINTS",
    "ClientConnection",
    "ConfigError",
    "EnabledPlugin",
    "Extender",
    "ExtenderTLS",
    "FieldError",
    "LeaderElection",
    "ManagedResource",
    "Nanoseconds",
    "PluginSet",
    "PluginSpec",
    "Profile",
    "SchedulerConfiguration",
    "default_config",
    "effective",
    "load_config",
    "written",
]
