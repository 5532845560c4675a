"""The Plugins and Configuration views: the status of plugins, reloads, and the configuration next to the defaults."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from mooring.api.yaml_writer import yaml_text
from mooring.config import SchedulerConfiguration, default_config, effective
from mooring.live.reload.reloader import Reloader
from mooring.loading.plugin_rows import PluginRow
from mooring.unexpected_errors import shortened

_MAX_TEXT: Final = 4000
#: The maximum number of listed differences.
_DIFFERENCES: Final = 500
#: Settings that hold credentials or are not part of a configuration file.
_MISSING: Final = "(not set)"


def plugins_view(rows: list[PluginRow], reloader: Reloader | None) -> dict[str, Any]:
    """Return the status of all plugins, and the history of reloads."""
    reloads: dict[str, Any] = {"watched": reloader is not None, "reloads": 0, "failed": 0, "history": []}
    if reloader is not None:
        history = [
            {**msgspec.to_builtins(each), "text": shortened(each.text, _MAX_TEXT)}
            for each in reversed(reloader.history)
        ]
        reloads |= {"reloads": reloader.state.reloads, "failed": reloader.state.failed, "history": history}
    return {"plugins": [_plugin(row) for row in rows], "reload": reloads}


def _plugin(row: PluginRow) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(row)
    for name in ("lastFailure", "traceback", "state"):
        shown[name] = shortened(shown[name], _MAX_TEXT)
    return shown


def configuration_view(config: SchedulerConfiguration) -> dict[str, Any]:
    """Return the configuration in effect, and where it differs from the defaults of the emulated release."""
    present = effective(config)
    standard = effective(default_config(config.release))
    differences: list[dict[str, str]] = []
    for path, value, default in _differences("", present, standard):
        if len(differences) >= _DIFFERENCES:
            break
        differences.append({"path": path, "value": _text(value), "default": _text(default)})
    release = config.release
    return {
        "release": {"version": release.version, "reference": release.reference, "gates": dict(release.gate_changes)},
        "configuration": present,
        "text": yaml_text(present),
        "differences": differences,
    }


def _differences(path: str, value: Any, default: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the path, the value and the default of each leaf that differs. Profiles are compared by number."""
    if isinstance(value, dict) and isinstance(default, dict):
        for key in dict.fromkeys((*value, *default)):
            below = f"{path}.{key}" if path else str(key)
            yield from _differences(below, value.get(key, _MISSING), default.get(key, _MISSING))
    elif isinstance(value, list) and isinstance(default, list) and _are_named(value) and _are_named(default):
        # Plugins of an extension point: those that were added, removed, or have another weight.
        ours, theirs = ({each["name"]: each for each in side} for side in (value, default))
        for name in dict.fromkeys((*ours, *theirs)):
            if ours.get(name) != theirs.get(name):
                yield f"{path}[{name}]", ours.get(name, _MISSING), theirs.get(name, _MISSING)
        if [name for name in ours if name in theirs] != [name for name in theirs if name in ours]:
            yield f"{path} (order)", list(ours), list(theirs)
    elif isinstance(value, list) and isinstance(default, list) and path == "profiles":
        for number, each in enumerate(value):
            # Every further profile is compared with the default profile too.
            yield from _differences(f"profiles[{number}]", each, default[min(number, len(default) - 1)])
    elif value != default:
        yield path, value, default


def _are_named(items: list[Any]) -> bool:
    return all(isinstance(each, dict) and isinstance(each.get("name"), str) for each in items) and bool(items)


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return shortened(text, _MAX_TEXT)
