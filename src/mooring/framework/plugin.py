"""Plugin: the base class of all plugins. A plugin serves the extension points whose methods it defines."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, cast, get_type_hints

import msgspec

from mooring.api.decode_errors import locate_error, path_text

if TYPE_CHECKING:
    from mooring.columns.templates import PodTemplate
    from mooring.framework.handle import Handle

F = TypeVar("F", bound=Callable[..., Any])
Dependence = Literal["node", "pods", "template"]
_DEPENDS = "__mooring_depends__"


class Rule(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A rule of a ClusterRole: ``Rule(("metrics.k8s.io",), ("nodes",), ("get", "list"))``."""

    api_groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    resource_names: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return the rule as a manifest contains it."""
        shown: dict[str, Any] = msgspec.to_builtins(self)
        return {name: list(value) for name, value in shown.items()}


class Plugin:
    """The base class of plugins.

    >>> class NodeNumber(Plugin):
    ...     class Args:
    ...         reverse: bool = False
    ...
    ...     def score(self, state, pod, node):
    ...         match = pod.name[-1] == node.name[-1]
    ...         return 10 if match != self.args.reverse else 0

    Define any of the methods listed in ``mooring.framework.points``. ``filter`` and ``score`` evaluate one node;
    ``filter_nodes`` and ``score_nodes`` evaluate many nodes at once. ``setup`` runs once, after ``args`` and ``handle``
    are set. ``async def run(self)``, if defined, runs in the background of a live scheduler until the plugin is
    replaced.
    """

    #: The name in the configuration; the class name unless set.
    name: ClassVar[str] = ""
    #: The arguments: a class with typed attributes (decoded strictly), or None to get them undecoded.
    Args: ClassVar[type | None] = None
    #: Whether ``filter_nodes`` and ``score_nodes`` cost as much per node as ``filter`` and ``score`` do (a WebAssembly
    #: guest, a separate process). Such a plugin runs last, on a sample of the nodes that are still feasible.
    per_node: ClassVar[bool] = False

    #: Attributes that are passed on to the new version when the plugin's file is reloaded.
    keep: ClassVar[tuple[str, ...]] = ()

    #: RBAC rules that the plugin needs in addition to reading the kinds that it lists; ``mooring rbac`` prints them.
    permissions: ClassVar[tuple[Rule, ...]] = ()

    args: Any
    handle: Handle

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in vars(cls):
            cls.name = cls.__name__

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        self.args = decode_args(type(self), args)
        if handle is not None:
            self.handle = handle
        self.setup()

    def signature(self, template: PodTemplate) -> Hashable:
        """Return the part of a template that results declared with ``depends_on`` depend on; by default all.

        Templates with equal signatures share cached results. A plugin that reads only the tolerations returns them, so
        that all pods with the same tolerations share one result.
        """
        return template

    def setup(self) -> None:
        """Initialize the plugin; runs once, after ``args`` and ``handle`` are set.

        Raise ValueError to reject the arguments.
        """

    def keep_state(self) -> Any:
        """Return the state for the new version of this plugin; by default the attributes in ``keep``.

        Called between two attempts, just before the new version replaces this one. The state is not copied.
        """
        return {name: getattr(self, name) for name in self.keep if hasattr(self, name)}

    def take_state(self, state: Any) -> None:
        """Restore the state that the previous version returned; runs after ``setup``.

        If it raises, the previous version stays in effect.
        """
        for name in self.keep:
            if name in state:
                setattr(self, name, state[name])

    def __repr__(self) -> str:
        return f"<plugin {self.name}>"


def depends_on(*what: Dependence) -> Callable[[F], F]:
    """Declare what the result of a method depends on, so that it can be cached.

    For ``filter``, ``score``, ``filter_nodes`` and ``score_nodes``:

    ``@depends_on("node")``: on the pod's template and the node object only. ``@depends_on("node", "pods")``: also on
    the pods on that node. Results are cached per template and recomputed only for nodes that changed.

    For ``pre_filter`` and ``pre_score``, ``@depends_on("template")``: a result of None or Skip, and what the method
    writes to the cycle state, depend on the pod's template only.

    Do not use it on a method that also reads other nodes, other objects, the clock or other cycle state.
    """
    level: Dependence = "template" if "template" in what else "pods" if "pods" in what else "node"

    def mark(function: F) -> F:
        setattr(function, _DEPENDS, level)
        return function

    return mark


def dependence(method: Callable[..., Any] | None) -> Dependence | None:
    """Return what ``depends_on`` declared for a method."""
    return cast("Dependence | None", getattr(method, _DEPENDS, None))


class ArgsError(ValueError):
    """A plugin's arguments do not match its ``Args``; the message names the field."""

    def __init__(self, plugin: str, path: str, message: str) -> None:
        super().__init__(f"{plugin}: {path + ': ' if path else ''}{message}")
        self.plugin = plugin
        self.path = path
        self.reason = message


def decode_args(cls: type[Plugin], raw: Any) -> Any:
    """Decode a profile plugin's arguments, without the ``kind`` and ``apiVersion`` of a configuration file."""
    if cls.Args is not None and isinstance(raw, Mapping):
        raw = {key: value for key, value in raw.items() if key not in ("kind", "apiVersion")}
    return convert_args(cls, raw)


def convert_args(cls: type[Any], raw: Any) -> Any:
    """Convert configured arguments to the ``Args`` of a plugin class; without ``Args`` return them unchanged."""
    declared = getattr(cls, "Args", None)
    if raw is None:
        raw = {}
    if declared is None or isinstance(raw, declared):
        return raw
    struct = args_struct(cls)
    try:
        return msgspec.convert(raw, struct)
    except msgspec.ValidationError as error:
        name = getattr(cls, "name", "") or cls.__name__
        steps, message = locate_error(error, raw, struct)
        raise ArgsError(name, path_text(steps), message) from None


def args_struct(cls: type[Any]) -> type:
    """Return the struct for a plugin's ``Args``: camelCase in the file, snake_case in Python, no unknown fields."""
    declared: type | None = cls.Args
    if declared is None:
        raise TypeError(f"{cls.__name__} declares no Args")
    if issubclass(declared, msgspec.Struct):
        return declared
    made = vars(cls).get("_args_struct")
    if made is None:
        fields: list[Any] = []
        for name, hint in get_type_hints(declared).items():
            default = getattr(declared, name, msgspec.NODEFAULT)
            mutable = isinstance(default, (list, dict, set))
            made_default = (
                msgspec.field(default_factory=functools.partial(copy.copy, default))
                if mutable
                else msgspec.field(default=default)
            )
            fields.append((name, hint, made_default))
        made = msgspec.defstruct(
            f"{cls.__name__}Args", fields, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
        )
        cls._args_struct = made  # a cache on the class
    return cast(type, made)
