"""Custom resources as classes: what a plugin declares, and all that the informer, the CRD and the RBAC rules need.

    class NodeReport(CustomResource, group="example.com", version="v1", scope="Cluster"):
        '''What we know of a node.'''

        class Spec:
            zone: str = ""
            scores: dict[str, int] = {}

        spec: Spec

Objects are typed, frozen, and have Kubernetes' field names in snake_case (``node_pool`` is ``nodePool`` in YAML).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeVar, dataclass_transform

import msgspec
from msgspec import StructMeta

from mooring.api.meta import KubeObject
from mooring.framework.custom_structs import DeclarationError, Structs

Scope = Literal["Namespaced", "Cluster"]
T = TypeVar("T")

_GROUP: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")
_VERSION: Final = re.compile(r"v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?")
_NAME: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_RESERVED: Final = frozenset({"api_version", "kind", "metadata"})


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """Where a custom resource lives on an API server, and what ``kubectl`` calls and shows of it."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    scope: Scope
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    #: Columns of ``kubectl get``: heading -> path of the field.
    columns: dict[str, str] = {}

    @property
    def api_version(self) -> str:
        """As in manifests."""
        return f"{self.group}/{self.version}"

    @property
    def namespaced(self) -> bool:
        """Whether objects live in namespaces."""
        return self.scope == "Namespaced"

    @property
    def definition_name(self) -> str:
        """The name of the CustomResourceDefinition."""
        return f"{self.plural}.{self.group}"

    @property
    def event(self) -> str:
        """What a ``ClusterEvent`` calls it, as in kube-scheduler: ``plural.version.group``."""
        return f"{self.plural}.{self.version}.{self.group}"


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,))
class _Declaring(StructMeta):
    """Turns the body of a declared class into a struct."""

    def __new__(
        mcls,
        name: str,
        bases: tuple[type, ...],
        body: dict[str, Any],
        **keywords: Any,
    ) -> Any:
        if not any(isinstance(base, _Declaring) for base in bases):
            return super().__new__(mcls, name, bases, body, **keywords)
        declaration = _declared(name, keywords)
        body = _fields(name, body, declaration)
        made: Any = super().__new__(mcls, name, bases, body, frozen=True, kw_only=True, omit_defaults=True, gc=False)
        made.declaration = declaration
        return made

    def __init__(cls, *_args: Any, **_keywords: Any) -> None:
        """The keywords are used up in ``__new__``."""


class CustomResource(KubeObject, metaclass=_Declaring, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Base of declared custom resources.

    Keywords of the class: ``group`` and ``version`` (needed), ``scope`` ("Namespaced" or "Cluster"), ``kind``,
    ``plural``, ``singular``, ``short_names``, ``categories``, and ``columns`` for ``kubectl get`` (heading -> field).
    """

    declaration: ClassVar[Declaration]

    @property
    def namespace(self) -> str:
        """The namespace the object is in; empty for cluster-wide kinds."""
        return self.metadata.namespace or ("default" if self.declaration.namespaced else "")

    @property
    def key(self) -> str:
        """`namespace/name`, or the name where the kind has no namespaces."""
        return f"{self.namespace}/{self.name}" if self.declaration.namespaced else self.name

    if TYPE_CHECKING:

        def __init_subclass__(
            cls,
            *,
            group: str = "",
            version: str = "",
            scope: Scope = "Namespaced",
            kind: str = "",
            plural: str = "",
            singular: str = "",
            short_names: tuple[str, ...] = (),
            categories: tuple[str, ...] = (),
            columns: Mapping[str, str] | None = None,
        ) -> None: ...


def event_name(kind: type[KubeObject]) -> str:
    """What a ``ClusterEvent`` calls a kind."""
    if issubclass(kind, CustomResource):
        return kind.declaration.event
    return kind().kind


# Declaring


def _declared(name: str, keywords: dict[str, Any]) -> Declaration:
    """The declaration that the keywords of a class make, checked."""
    unknown = keywords.keys() - set(Declaration.__struct_fields__)
    if unknown:
        known = ", ".join(Declaration.__struct_fields__)
        raise DeclarationError(f"{name}: {sorted(unknown)[0]} is no keyword of a custom resource; there are {known}")
    for needed, example in (("group", "example.com"), ("version", "v1")):
        if not keywords.get(needed):
            raise DeclarationError(
                f'{name}: {needed} is missing; write class {name}(CustomResource, {needed}="{example}")'
            )
    kind = keywords.get("kind") or name
    singular = keywords.get("singular") or kind.lower()
    made = Declaration(
        group=keywords["group"],
        version=keywords["version"],
        kind=kind,
        plural=keywords.get("plural") or _plural(kind.lower()),
        singular=singular,
        scope=keywords.get("scope", "Namespaced"),
        short_names=_texts(name, "short_names", keywords),
        categories=_texts(name, "categories", keywords),
        columns=dict(keywords.get("columns") or {}),
    )
    _check(name, made)
    return made


def _texts(name: str, keyword: str, keywords: Mapping[str, Any]) -> tuple[str, ...]:
    given = keywords.get(keyword, ())
    if isinstance(given, str):
        raise DeclarationError(f'{name}: {keyword} must be several names; write {keyword}=("{given}",)')
    return tuple(given)


def _check(name: str, made: Declaration) -> None:
    if not _GROUP.fullmatch(made.group):
        raise DeclarationError(f"{name}: group {made.group!r} is no domain name; write one such as example.com")
    if not _VERSION.fullmatch(made.version):
        raise DeclarationError(f"{name}: version {made.version!r} is none; write v1, v1beta1 or v1alpha1")
    if made.scope not in ("Namespaced", "Cluster"):
        raise DeclarationError(f'{name}: scope {made.scope!r} is unknown; write "Namespaced" or "Cluster"')
    for what in (made.plural, made.singular, *made.short_names, *made.categories):
        if not _NAME.fullmatch(what):
            raise DeclarationError(f"{name}: {what!r} must be lower-case letters, digits and dashes")


def _plural(word: str) -> str:
    if word.endswith(("s", "x", "ch", "sh")):
        return f"{word}es"
    return f"{word[:-1]}ies" if word.endswith("y") and word[-2:-1] not in tuple("aeiou") else f"{word}s"


def _fields(name: str, body: dict[str, Any], declaration: Declaration) -> dict[str, Any]:
    """The body of the struct: fields with resolved types, nested classes as structs."""
    plain = type(name, (), {**body, "__module__": body.get("__module__", "")})
    structs = Structs({key: value for key, value in body.items() if isinstance(value, type)})
    hints = structs.hints(plain, name)
    for taken in _RESERVED & hints.keys():
        raise DeclarationError(f"{name}: {taken} is there already; give the field another name")
    made = {key: value for key, value in body.items() if key not in hints}
    for key, value in body.items():
        if isinstance(value, type):
            made[key] = structs.replaced(value, name)
    for field, hint in hints.items():
        default = structs.default(body, field)
        if default is None and field == "status":
            default = _absent_status(hint)
        if default is not None:
            made[field] = default
    # Factories, since an object that is written must say its kind even where that is the default.
    made["api_version"] = msgspec.field(default_factory=functools.partial(_same, declaration.api_version))
    made["kind"] = msgspec.field(default_factory=functools.partial(_same, declaration.kind))
    made["__annotations__"] = {"api_version": str, "kind": str, **hints}
    return made


def _absent_status(hint: Any) -> Any:
    """Nobody writes a status by hand: an object without one has an empty one, where that is possible."""
    try:
        hint()
    except TypeError:
        return None
    return msgspec.field(default_factory=hint)


def _same(value: T) -> T:
    return value
