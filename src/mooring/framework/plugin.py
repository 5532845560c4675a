"""Plugin: the base class of all plugins. A plugin serves the extension points whose methods it defines."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, cast

import msgspec

from mooring.framework.plugin_args import ArgsT, HasArgs, decode_args

if TYPE_CHECKING:
    from mooring.columns.templates import PodTemplate
    from mooring.framework.extension_points import ExtensionPoints
    from mooring.framework.handle import Handle
else:
    # A plugin has only the methods that its author defines.
    ExtensionPoints = object

F = TypeVar("F", bound=Callable[..., Any])
Dependence = Literal["node", "pods", "template"]
#: Which part of a pod's template a plugin reads.
Part = Literal["all", "constraints", "requests"]
_DEPENDS = "__mooring_depends__"


class Rule(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A rule of a ClusterRole: ``Rule(("metrics.k8s.io",), ("nodes",), ("get", "list"))``.

    Attributes:
        api_groups: API groups; the core group is the empty string.
        resources: Resources by their plural names, such as ``nodes`` or ``pods/status``.
        verbs: What the plugin does: ``get``, ``list``, ``watch``, ``create``, ``update``, ``patch``, ``delete``.
        resource_names: Names of the objects; empty for all.
    """

    api_groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    resource_names: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return the rule as a manifest contains it."""
        shown: dict[str, Any] = msgspec.to_builtins(self)
        return {name: list(value) for name, value in shown.items()}


class Plugin(HasArgs[ArgsT], ExtensionPoints):
    """The base class of plugins.

    >>> class NodeNumberArgs:
    ...     reverse: bool = False
    >>> class NodeNumber(Plugin[NodeNumberArgs]):
    ...     def score(self, state, pod, node):
    ...         match = pod.name[-1] == node.name[-1]
    ...         return 10 if match != self.args.reverse else 0

    Define any of the methods of ``mooring.framework.ExtensionPoints``. ``filter`` and ``score`` evaluate one node;
    ``filter_nodes`` and ``score_nodes`` evaluate many nodes at once. ``setup`` runs once, after ``args`` and ``handle``
    are set. ``async def run(self)``, if defined, runs in the background of a live scheduler until the plugin is
    replaced.

    The type parameter is the class of the arguments: plain attributes with types and defaults. Configured values are
    decoded strictly, with names in camelCase. ``class NodeNumber(Plugin)`` with a class ``Args`` inside does the same
    at run time, but type checkers do not check ``self.args`` then.

    Attributes:
        name: The name in the configuration; by default the name of the class.
        args: The decoded arguments; without declared arguments, the configured mapping.
        handle: The scheduler's interface for this plugin.
        keep: The names of attributes that are passed on to the new version when the plugin is reloaded.
        watch_files: Data files that the plugin reads, such as ``["nodes.csv"]``, relative to its own file.
            When one of them changes, the plugin is reloaded as if its own file had changed: a new instance runs
            ``setup``, and the pods that the plugin rejected are tried again.
        score_range: The lowest and the highest score that ``score`` and ``score_nodes`` return, such as ``(0.0, 1.0)``,
            which are scaled to 0 to 100; None if they return 0 to 100.
        permissions: RBAC rules that the plugin needs in addition to reading the kinds that it lists; ``mooring rbac``
            prints them.
        per_node: Whether ``filter_nodes`` and ``score_nodes`` cost as much per node as ``filter`` and ``score`` do (a
            WebAssembly guest, a separate process). Such a plugin runs last, on a sample of the feasible nodes.
    """

    name: ClassVar[str] = ""
    keep: ClassVar[tuple[str, ...]] = ()
    watch_files: ClassVar[Sequence[str]] = ()
    score_range: ClassVar[tuple[float, float] | None] = None
    permissions: ClassVar[tuple[Rule, ...]] = ()
    per_node: ClassVar[bool] = False
    #: For built-in plugins only: which part of a template the results depend on that are declared with ``depends_on``
    #: or ``Status.skip(template=True)``. Templates with an equal part share them; ``signature`` is not called.
    template_part: ClassVar[Part] = "all"
    #: For built-in plugins only: whether all nodes have the score 0 if PreFilter skipped the plugin, without a call.
    zero_if_skipped: ClassVar[bool] = False

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

    def skip_version(self) -> object:
        """Return, for built-in plugins only, the version of what SKIP_THIS_VERSION depends on besides the template."""
        return None

    def setup(self) -> None:
        """Initialize the plugin; runs once, after ``args`` and ``handle`` are set.

        Raise ValueError to reject the arguments.
        """

    def close(self) -> None:
        """Stop threads, and close files and connections; runs when the plugin is replaced or removed."""

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
