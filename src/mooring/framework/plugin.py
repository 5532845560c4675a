"""Plugin: the class that authors derive from. Which extension points it serves is which methods it defines."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, cast, get_type_hints

import msgspec

from mooring.api.decode_errors import complaint

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
        """As it stands in a manifest."""
        shown: dict[str, Any] = msgspec.to_builtins(self)
        return {name: list(value) for name, value in shown.items()}


class Plugin:
    """Base of all plugins.

    >>> class NodeNumber(Plugin):
    ...     class Args:
    ...         reverse: bool = False
    ...
    ...     def score(self, state, pod, node):
    ...         match = pod.name[-1] == node.name[-1]
    ...         return 10 if match != self.args.reverse else 0

    Define any of the methods of ``mooring.framework.points``; ``filter`` and ``score`` answer for one node,
    ``filter_nodes`` and ``score_nodes`` for all of them. ``setup`` runs once, when ``args`` and ``handle`` are there.
    ``async def run(self)``, if there is one, runs beside a live scheduler until the plugin is replaced.
    """

    #: The name in the configuration; the class name unless set.
    name: ClassVar[str] = ""
    #: Declared arguments: a class with typed attributes (decoded strictly), or None to get what was written.
    Args: ClassVar[type | None] = None
    #: Set where an answer in columns still has its price for every node (a WebAssembly guest, a process): then it is
    #: asked for like one of ``filter`` or ``score``, last and for a sample of the nodes that are left.
    per_node: ClassVar[bool] = False

    #: Attributes that the next version takes over when the plugin's file changes while the scheduler runs.
    keep: ClassVar[tuple[str, ...]] = ()

    #: What the plugin must be allowed beside reading the kinds that it lists, for ``mooring rbac``.
    permissions: ClassVar[tuple[Rule, ...]] = ()

    args: Any
    handle: Handle
    #: What it registered as listeners while it was made: the framework's own.
    _listening: tuple[object, ...] = ()

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
        """What the answers declared with ``depends_on`` depend on, of a pod's template; by default all of it.

        Templates with equal signatures share the answers: a plugin that reads nothing but the tolerations returns
        these, and then all pods with the same tolerations are one case.
        """
        return template

    def setup(self) -> None:
        """Called once, after ``self.args`` and ``self.handle`` are set; raise ValueError to refuse the arguments."""

    def keep_state(self) -> Any:
        """What the next version of this plugin gets when its file or arguments change; the attributes in ``keep``.

        Called between two attempts, just before the next version takes over. What is handed over is not copied.
        """
        return {name: getattr(self, name) for name in self.keep if hasattr(self, name)}

    def take_state(self, state: Any) -> None:
        """Take over what the version before kept, after ``setup``; raising leaves that version in force."""
        for name in self.keep:
            if name in state:
                setattr(self, name, state[name])

    def __repr__(self) -> str:
        return f"<plugin {self.name}>"


def depends_on(*what: Dependence) -> Callable[[F], F]:
    """Declare what an answer depends on, so that it need not be asked for again.

    For ``filter``, ``score``, ``filter_nodes`` and ``score_nodes``:

    ``@depends_on("node")``: only on the pod's template and the node object. ``@depends_on("node", "pods")``: also on
    the pods on that node. Such answers are kept per template, and only changed nodes are asked again.

    For ``pre_filter`` and ``pre_score``, ``@depends_on("template")``: an answer of None or Skip, and what was written
    to the cycle state, depend on the pod's template alone.

    A method that also reads other nodes, other objects, the clock or the cycle's other findings must not declare it.
    """
    level: Dependence = "template" if "template" in what else "pods" if "pods" in what else "node"

    def mark(function: F) -> F:
        setattr(function, _DEPENDS, level)
        return function

    return mark


def dependence(method: Callable[..., Any] | None) -> Dependence | None:
    """What ``depends_on`` declared for a method."""
    return cast("Dependence | None", getattr(method, _DEPENDS, None))


class ArgsError(ValueError):
    """A plugin's arguments do not fit its ``Args``; the message names the field."""

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
        raise ArgsError(name, *complaint(error, raw, struct)) from None


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
