"""volcano-scheduler.conf: the actions, and the plugins of each tier with their flags and arguments.

Volcano silently ignores unknown keys, and flags in the wrong one of two spellings. Here they cause warnings that name
the closest valid key.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import msgspec

from mooring.api.yaml_nodes import Mapping as MappingNode
from mooring.api.yaml_nodes import Node, ReadError, Scalar, Sequence, is_null, plain
from mooring.api.yaml_reader import read_yaml
from mooring.batch.arguments import Arguments
from mooring.config.config_errors import ConfigError, FieldError, nearest
from mooring.framework.plugin_args import ArgsError, convert_args
from mooring.loading.catalog import args_remedy

DEFAULT_CONF: Final = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""

#: Flag -> its key in the file. Some begin with "enable", others with "enabled".
FLAGS: Final[Mapping[str, str]] = {
    "JobOrder": "enableJobOrder",
    "TaskOrder": "enableTaskOrder",
    "QueueOrder": "enableQueueOrder",
    "JobReady": "enableJobReady",
    "JobPipelined": "enableJobPipelined",
    "JobEnqueued": "enableJobEnqueued",
    "JobStarving": "enableJobStarving",
    "Preemptable": "enablePreemptable",
    "Reclaimable": "enableReclaimable",
    "Preemptive": "enablePreemptive",
    "Predicate": "enablePredicate",
    "NodeOrder": "enableNodeOrder",
    "BestNode": "enableBestNode",
    "TargetJob": "enableTargetJob",
    "ReservedNodes": "enableReservedNodes",
    "Hierarchy": "enableHierarchy",
    "Overused": "enabledOverused",
    "Allocatable": "enabledAllocatable",
    "Victim": "enabledVictim",
    "HyperNodeOrder": "enabledHyperNodeOrder",
    "HyperNodeGradient": "enabledHyperNodeGradient",
    "SubJobReady": "enabledSubJobReady",
    "SubJobPipelined": "enabledSubJobPipelined",
    "SubJobOrder": "enabledSubJobOrder",
    "ClusterOrder": "EnabledClusterOrder",
}
#: Flags that are off by default; all others are on.
_OFF: Final = frozenset({"Hierarchy", "ClusterOrder"})
_FLAG_OF: Final = {key: flag for flag, key in FLAGS.items()}
_OTHER_SPELLING: Final = {
    **{f"enabled{flag}": flag for flag in FLAGS},
    **{f"enable{flag}": flag for flag in FLAGS},
}
#: The entry of `configurations` with the parameters of MindCluster's NPUs.
INIT_PARAMETERS: Final = "init-params"
_TOP: Final = ("actions", "tiers", "configurations", "metrics")
_OPTION: Final = ("name", "arguments", *FLAGS.values())


class PluginOption(msgspec.Struct, frozen=True):
    """A plugin in a tier, with its arguments and flags."""

    name: str
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    #: Flags that the file sets.
    flags: dict[str, bool] = msgspec.field(default_factory=dict)

    def enabled(self, flag: str) -> bool:
        """Return whether a flag is on."""
        return self.flags.get(flag, flag not in _OFF)


class BatchConf(msgspec.Struct, frozen=True):
    """A decoded configuration."""

    actions: tuple[str, ...]
    tiers: tuple[tuple[PluginOption, ...], ...]
    #: Action -> its arguments.
    configurations: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    metrics: dict[str, str] = msgspec.field(default_factory=dict)
    #: Problems that do not prevent the use of the file.
    warnings: tuple[str, ...] = ()

    def options(self) -> Iterator[PluginOption]:
        """Yield all plugins, tier by tier."""
        for tier in self.tiers:
            yield from tier

    def arguments(self, action: str) -> Arguments:
        """Return an action's arguments."""
        return Arguments(self.configurations.get(action), owner=f"configurations: {action}")


def read_conf(
    text: str, *, source: str = "", actions: Collection[str], plugins: Collection[str], both_spellings: bool = True
) -> BatchConf:
    """Decode a configuration; raises ConfigError.

    ``actions`` and ``plugins`` are the names that exist. If ``plugins`` has the classes too, the arguments of those
    with ``Args`` are checked. With ``both_spellings`` a flag is valid in either spelling; without, only in that of
    Volcano.
    """
    return _Reader(source, actions, plugins, both_spellings).read(text)


def is_batch_conf(text: str) -> bool:
    """Return whether a text is a volcano-scheduler.conf and not a KubeSchedulerConfiguration."""
    try:
        root = read_yaml(text)
    except ReadError:
        return False
    return isinstance(root, MappingNode) and any(root.get(key) is not None for key in ("actions", "tiers"))


class _Reader:
    def __init__(self, source: str, actions: Collection[str], plugins: Collection[str], both_spellings: bool) -> None:
        self._source = source
        self._actions = actions
        self._plugins = plugins
        self._both = both_spellings
        self._errors: list[FieldError] = []
        self._warnings: list[str] = []

    def read(self, text: str) -> BatchConf:
        try:
            root = read_yaml(text)
        except ReadError as error:
            raise ConfigError([FieldError("", str(error), error.line)], stage="decode", source=self._source) from None
        if not isinstance(root, MappingNode):
            if not is_null(root):
                self._error("", f"expected a configuration, found {root.describe()}", root, "Begin with  actions: ...")
            root = MappingNode([], 1)
        self._warn_unknown(root, _TOP, "")
        actions = self._action_names(root)
        tiers = tuple(self._tiers(root))
        configurations = self._configurations(root)
        metrics = self._mapping(root.get("metrics"), "metrics")
        if self._errors:
            raise ConfigError(self._errors, stage="validate", source=self._source)
        texts = {str(key): str(value) for key, value in metrics.items()}
        return BatchConf(actions, tiers, configurations, texts, tuple(self._warnings))

    def _action_names(self, root: MappingNode) -> tuple[str, ...]:
        node = root.get("actions")
        if node is None or not isinstance(node, Scalar):
            what = "is missing" if node is None else f"expected text, found {node.describe()}"
            self._error("actions", what, node or root, 'Write for example  actions: "enqueue, allocate, backfill".')
            return ()
        text = "" if node.kind == "null" else node.text
        names = [name.strip() for name in text.split(",")]
        for name in names:
            if name not in self._actions:
                close = nearest(name, self._actions)
                known = f'Did you mean "{close}"?' if close else f"Actions are {', '.join(sorted(self._actions))}."
                self._error("actions", f'there is no action "{name}"', node, known)
        return tuple(names)

    def _tiers(self, root: MappingNode) -> Iterator[tuple[PluginOption, ...]]:
        for number, tier in enumerate(self._items(root.get("tiers"), "tiers")):
            path = f"tiers[{number}]"
            if not isinstance(tier, MappingNode):
                self._error(path, f"expected a mapping with plugins, found {tier.describe()}", tier)
                continue
            self._warn_unknown(tier, ("plugins",), path)
            found = []
            for place, node in enumerate(self._items(tier.get("plugins"), f"{path}.plugins")):
                option = self._option(node, f"{path}.plugins[{place}]")
                if option is not None:
                    found.append(option)
            self._check_tier(found, tier, path)
            yield tuple(found)

    def _check_tier(self, options: list[PluginOption], tier: Node, path: str) -> None:
        hierarchical = any(option.name == "drf" and option.enabled("Hierarchy") for option in options)
        if hierarchical and any(option.name == "proportion" for option in options):
            remedy = "Remove one of them, or use capacity instead of proportion."
            self._error(path, "proportion and drf with hierarchy enabled conflict", tier, remedy)

    def _option(self, node: Node, path: str) -> PluginOption | None:
        if not isinstance(node, MappingNode):
            self._error(path, f"expected a plugin, found {node.describe()}", node, "Write  - name: gang")
            return None
        name = node.get("name")
        if not isinstance(name, Scalar) or name.kind == "null":
            self._error(path, "the plugin has no name", node, "Write  - name: gang")
            return None
        if name.text not in self._plugins:
            self._warn(name, f"{path}.name", _missing_plugin(name.text, self._plugins))
        arguments = self._mapping(node.get("arguments"), f"{path}.arguments")
        self._check_arguments(name.text, arguments, node.get("arguments") or node, f"{path}.arguments")
        return PluginOption(name.text, arguments, self._flags(node, path))

    def _check_arguments(self, plugin: str, arguments: dict[str, Any], node: Node, path: str) -> None:
        cls = self._plugins.get(plugin) if isinstance(self._plugins, Mapping) else None
        if getattr(cls, "Args", None) is None:
            return
        try:
            convert_args(cls, arguments)  # type: ignore[arg-type]  # a class with Args
        except ArgsError as error:
            first = re.split(r"[.\[]", error.path)[0]
            entries = node.entries if isinstance(node, MappingNode) else []
            at = next((entry.line for entry in entries if entry.key == first), node.line)
            where, remedy = f"{path}.{error.path}".rstrip("."), args_remedy(cls, error.reason)  # type: ignore[arg-type]
            self._errors.append(FieldError(where, f"{plugin}: {error.reason}", at, remedy))

    def _flags(self, node: MappingNode, path: str) -> dict[str, bool]:
        flags: dict[str, bool] = {}
        for entry in node.entries:
            key, own = entry.key, _FLAG_OF.get(entry.key)
            if key in ("name", "arguments"):
                continue
            flag = own or _OTHER_SPELLING.get(key)
            if flag is None:
                self._unknown(entry.key, entry.line, _OPTION, path)
                continue
            if own is None:
                effect = "which Volcano ignores" if self._both else "so it has no effect"
                self._note(entry.line, f"{path}.{key}", f"the key is {FLAGS[flag]} in Volcano, {effect}")
                if not self._both:
                    continue
            if is_null(entry.value):
                continue
            if not isinstance(entry.value, Scalar) or entry.value.kind != "bool":
                self._error(f"{path}.{key}", f"expected true or false, found {entry.value.describe()}", entry.value)
                continue
            flags[flag] = entry.value.text == "true"
        return flags

    def _configurations(self, root: MappingNode) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for number, node in enumerate(self._items(root.get("configurations"), "configurations")):
            path = f"configurations[{number}]"
            if not isinstance(node, MappingNode):
                self._error(path, f"expected a mapping with name and arguments, found {node.describe()}", node)
                continue
            self._warn_unknown(node, ("name", "arguments"), path)
            name = node.get("name")
            text = name.text if isinstance(name, Scalar) else ""
            if text not in self._actions and text != INIT_PARAMETERS:
                close = nearest(text, self._actions)
                hint = f'; did you mean "{close}"?' if close else ""
                self._warn(node, f"{path}.name", f'there is no action "{text}"{hint}')
            found.setdefault(text, self._mapping(node.get("arguments"), f"{path}.arguments"))
        return found

    def _items(self, node: Node | None, path: str) -> list[Node]:
        if node is None or is_null(node):
            return []
        if isinstance(node, Sequence):
            return node.items
        self._error(path, f"expected a list, found {node.describe()}", node)
        return []

    def _mapping(self, node: Node | None, path: str) -> dict[str, Any]:
        if node is None or is_null(node):
            return {}
        if isinstance(node, MappingNode):
            return {str(key): value for key, value in plain(node).items()}
        self._error(path, f"expected a mapping, found {node.describe()}", node)
        return {}

    def _warn_unknown(self, node: MappingNode, known: Collection[str], path: str) -> None:
        for entry in node.entries:
            if entry.key not in known:
                self._unknown(entry.key, entry.line, known, path)

    def _unknown(self, key: str, line: int, known: Collection[str], path: str) -> None:
        close = nearest(key, known)
        hint = f'; did you mean "{close}"?' if close else ""
        self._note(line, f"{path}.{key}".lstrip("."), f"unknown key{hint}")

    def _warn(self, node: Node, path: str, message: str) -> None:
        self._note(node.line, path, message)

    def _note(self, line: int, path: str, message: str) -> None:
        place = ":".join(str(part) for part in (self._source, line) if part)
        self._warnings.append(f"{place}: {path}: {message}")

    def _error(self, path: str, message: str, node: Node, remedy: str | None = None) -> None:
        self._errors.append(FieldError(path, message, node.line, remedy))


def _missing_plugin(name: str, known: Collection[str]) -> str:
    close = nearest(name, known)
    hint = f'; did you mean "{close}"?' if close else ""
    return (
        f'there is no plugin "{name}"{hint} Sessions run without it'
        if hint
        else (f'there is no plugin "{name}"; sessions run without it')
    )
