"""The search space: which weights and arguments a search may choose, and the configuration of a choice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mooring.apiserver.documents import deep_copy
from mooring.config import SchedulerConfiguration, written
from mooring.simulation.sources import InputError

Value = int | float | str | bool
Choice = dict[str, Value]

#: The highest weight by default.
_HIGHEST: Final = 10
_WEIGHT, _FIT = "weight", "NodeResourcesFit"


class Parameter(msgspec.Struct, frozen=True):
    """A number between two limits (integers if both are), or one of several values."""

    low: int | float = 0
    high: int | float = 0
    choices: tuple[Value, ...] = ()


class Space:
    """Parameters by name: ``weight/PLUGIN``, ``PLUGIN/path.of.an.argument``, or ``tieBreak``."""

    def __init__(self, config: SchedulerConfiguration, document: Mapping[str, Any] | None = None) -> None:
        """Without a document, search the weights of all Score plugins and the strategy of NodeResourcesFit.

        The document has the same names. A list has choices, or two numbers as limits. Raises InputError.
        """
        self._config = config
        self._scores = [each.name for each in config.profiles[0].plugins.get("score", ())]
        self.parameters = self._default() if document is None else _read(document)
        for name in self.parameters:
            plugin = name.removeprefix(f"{_WEIGHT}/")
            if name.startswith(f"{_WEIGHT}/") and plugin not in self._scores:
                known = ", ".join(self._scores)
                raise InputError(f"{name}: {plugin} is no enabled Score plugin of the first profile; there are {known}")
            if name != "tieBreak" and "/" not in name:
                raise InputError(f"{name}: give weight/PLUGIN, PLUGIN/path.of.an.argument or tieBreak")

    def _default(self) -> dict[str, Parameter]:
        found = {f"{_WEIGHT}/{name}": Parameter(0, _HIGHEST) for name in self._scores}
        if _FIT in self._scores:
            found[f"{_FIT}/scoringStrategy.type"] = Parameter(choices=("LeastAllocated", "MostAllocated"))
            found[f"{_FIT}/scoringStrategy.resources.0.weight"] = Parameter(1, _HIGHEST)
            found[f"{_FIT}/scoringStrategy.resources.1.weight"] = Parameter(1, _HIGHEST)
        return found

    def current(self) -> Choice:
        """Return the choice that equals the present configuration, as far as the space contains it."""
        weights = {each.name: each.weight or 1 for each in self._config.profiles[0].plugins.get("score", ())}
        found: Choice = {}
        for name, parameter in self.parameters.items():
            plugin, _, path = name.partition("/")
            value: Any = self._config.tie_break
            if plugin == _WEIGHT:
                value = weights[path]
            elif path:
                value = _get(self._config.profiles[0].plugin_config.get(plugin), path)
            inside = value in parameter.choices if parameter.choices else _is_between(value, parameter)
            if inside:
                found[name] = value
        return found

    def configuration(self, choice: Mapping[str, Value]) -> list[dict[str, Any]]:
        """Return the KubeSchedulerConfiguration of a choice, and PluginSources if it has a tie-break."""
        document = deep_copy(written(self._config))
        profile = document["profiles"][0]
        weights = {each.name: each.weight or 1 for each in self._config.profiles[0].plugins.get("score", ())}
        arguments: dict[str, Any] = {each["name"]: each["args"] for each in profile.get("pluginConfig", ())}
        sources: list[dict[str, Any]] = []
        for name, value in choice.items():
            plugin, _, path = name.partition("/")
            if plugin == _WEIGHT:
                weights[path] = int(value)
            elif path:
                arguments.setdefault(plugin, {})
                _set(arguments[plugin], path, value, name)
            else:
                sources = [{"apiVersion": "mooring.dev/v1alpha1", "kind": "PluginSources", "tieBreak": value}]
        if not sources and self._config.tie_break != "random":
            tie_break = self._config.tie_break
            sources = [{"apiVersion": "mooring.dev/v1alpha1", "kind": "PluginSources", "tieBreak": tie_break}]
        # A weight of 0 would mean the default weight; such a plugin does not score.
        enabled = [{"name": name, "weight": weight} for name, weight in weights.items() if weight]
        profile.setdefault("plugins", {})["score"] = {"enabled": enabled, "disabled": [{"name": "*"}]}
        profile["pluginConfig"] = [{"name": name, "args": args} for name, args in sorted(arguments.items())]
        return [document, *sources]


def _read(document: Mapping[str, Any]) -> dict[str, Parameter]:
    found: dict[str, Parameter] = {}
    for name, value in document.items():
        if not isinstance(value, list) or not value:
            raise InputError(f"{name}: give a list of choices, or two numbers as limits")
        numbers = [each for each in value if isinstance(each, int | float) and not isinstance(each, bool)]
        if len(value) == len(numbers) == 2 and numbers[0] < numbers[1]:
            found[name] = Parameter(numbers[0], numbers[1])
        elif all(isinstance(each, str | int | float | bool) for each in value):
            found[name] = Parameter(choices=tuple(value))
        else:
            raise InputError(f"{name}: a choice must be text, a number or a boolean")
    if not found:
        raise InputError("the search space is empty")
    return found


def _is_between(value: Any, parameter: Parameter) -> bool:
    return isinstance(value, int | float) and parameter.low <= value <= parameter.high


def _get(value: Any, path: str) -> Any:
    for part in path.split("."):
        if isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, dict):
            value = value.get(part)
        else:
            return None
    return value


def _set(target: Any, path: str, value: Value, name: str) -> None:
    *parts, last = path.split(".")
    for part in parts:
        if isinstance(target, list):
            if not part.isdecimal() or int(part) >= len(target):
                raise InputError(f"{name}: there is no item {part} in the configuration")
            target = target[int(part)]
        else:
            target = target.setdefault(part, {})
    if not isinstance(target, dict):
        raise InputError(f"{name}: the configuration has no object there")
    target[last] = value
