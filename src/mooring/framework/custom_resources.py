"""Custom resources as classes, from which informers, CustomResourceDefinitions and RBAC rules are derived.

    class NodeReport(CustomResource, group="example.com", version="v1", scope="Cluster"):
        '''A report about a node.'''

        class Spec:
            zone: str = ""
            scores: dict[str, int] = {}

        spec: Spec

Objects are typed and frozen. Their fields have the names of Kubernetes in snake_case (``node_pool`` is ``nodePool`` in
YAML).

"""

from __future__ import annotations

import copy
import functools
import re
import types
from collections.abc import Mapping
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import StructMeta

from mooring.api.meta import KubeObject, Model
from mooring.framework.plugin_errors import contain, describe

#: Entries of a class body that are neither fields nor methods.
_BODY: Final = frozenset({"__dict__", "__weakref__", "__annotations__", "__annotate__", "__annotate_func__"})

_DOCUMENTED: Final = ("__doc__", "__module__", "__qualname__")


class DeclarationError(TypeError):
    """A custom resource is declared incorrectly; the message names the class and the correct form."""


class Structs:
    """Converts plain classes to structs, each once; annotations may use ``names`` in addition to globals."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names
        self._made: dict[type, type[Model]] = {}

    def hints(self, cls: type, where: str) -> dict[str, Any]:
        """Return the types of a class's attributes, with plain classes replaced by structs."""
        names = {**self._names, **vars(cls)}
        try:
            found = get_type_hints(cls, localns=names, include_extras=True)
        except NameError as error:
            raise DeclarationError(f"{where}: {error}; an annotation must name a type that is defined above") from None
        return {name: self.replaced(hint, where) for name, hint in found.items()}

    def struct(self, cls: type, where: str) -> type[Model]:
        """Return the struct of a plain class: frozen, camelCase in JSON, unknown fields ignored."""
        if cls not in self._made:
            fields = [(name, hint, self.default(vars(cls), name)) for name, hint in self.hints(cls, where).items()]
            body = {
                key: value for key, value in vars(cls).items() if _belongs(key, value, {name for name, *_ in fields})
            }
            _contain_post_init(body)
            made: Any = msgspec.defstruct(
                cls.__name__,
                [(name, hint) if default is None else (name, hint, default) for name, hint, default in fields],
                bases=(Model,),
                module=cls.__module__,
                namespace=body,
                frozen=True,
                kw_only=True,
            )
            made.__doc__, made.__qualname__ = cls.__doc__, cls.__qualname__
            self._made[cls] = made
        return self._made[cls]

    def default(self, body: Mapping[str, Any], name: str) -> Any:
        """Return a field's default in msgspec's form; None if it has none."""
        if name not in body:
            return None
        value = body[name]
        if isinstance(value, (list, dict, set)) and value:
            return msgspec.field(default_factory=functools.partial(copy.deepcopy, value))
        if type(value) in self._made:
            return msgspec.field(default_factory=self._made[type(value)])
        is_field = type(value).__name__ == "Field" and type(value).__module__.startswith("msgspec")
        return value if is_field else msgspec.field(default=value)

    def replaced(self, hint: Any, where: str) -> Any:
        """Return a type with the plain classes in it replaced by structs."""
        if isinstance(hint, type) and not get_args(hint):
            return self.struct(hint, f"{where}.{hint.__name__}") if _is_plain(hint) else hint
        arguments = get_args(hint)
        if not arguments:
            return hint
        if get_origin(hint) is Annotated:
            return Annotated[(self.replaced(arguments[0], where), *hint.__metadata__)]
        new = tuple(self.replaced(each, where) for each in arguments)
        if new == arguments:
            return hint
        if isinstance(hint, types.UnionType):
            return Union[new]  # noqa: UP007 - made of a tuple
        if isinstance(hint, types.GenericAlias):
            return types.GenericAlias(get_origin(hint), new)
        return hint.copy_with(new)


def _is_plain(cls: type) -> bool:
    """Whether a class contains typed attributes and has no base class."""
    return cls.__bases__ == (object,) and "__annotations__" in vars(cls) and cls.__module__ != "builtins"


def _belongs(name: str, value: Any, fields: set[str]) -> bool:
    """Whether a member of a plain class is copied to its struct: methods, properties and constants are."""
    return name not in fields and name not in _BODY and name not in _DOCUMENTED and not isinstance(value, type)


def _contain_post_init(body: dict[str, Any]) -> None:
    """Make any exception of ``__post_init__`` an error of the object that is decoded, which is logged and skipped."""
    post_init = body.get("__post_init__")
    if post_init is None:
        return

    @functools.wraps(post_init)
    def contained(self: Any) -> None:
        try:
            post_init(self)
        except (ValueError, TypeError):
            raise
        except BaseException as error:
            contain(error)
            raise ValueError(describe(error)) from error

    body["__post_init__"] = contained


Scope = Literal["Namespaced", "Cluster"]

T = TypeVar("T")

_GROUP: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")

_VERSION: Final = re.compile(r"v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?")

_NAME: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")

_RESERVED: Final = frozenset({"api_version", "kind", "metadata"})


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """The API group, names and scope of a custom resource, and its columns in ``kubectl get``."""

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
        """The apiVersion in manifests."""
        return f"{self.group}/{self.version}"

    @property
    def namespaced(self) -> bool:
        """Whether objects have a namespace."""
        return self.scope == "Namespaced"

    @property
    def definition_name(self) -> str:
        """The name of the CustomResourceDefinition."""
        return f"{self.plural}.{self.group}"

    @property
    def event(self) -> str:
        """The resource name in a ``ClusterEvent``, as in kube-scheduler: ``plural.version.group``."""
        return f"{self.plural}.{self.version}.{self.group}"


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,))
class _Declaring(StructMeta):
    """Converts the body of a declared class to a struct."""

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
        _contain_post_init(body)
        made: Any = super().__new__(mcls, name, bases, body, frozen=True, kw_only=True, omit_defaults=True, gc=False)
        made.declaration = declaration
        return made

    def __init__(cls, *_args: Any, **_keywords: Any) -> None:
        """Ignore the keywords, which ``__new__`` has used."""


class CustomResource(KubeObject, metaclass=_Declaring, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The base class of declared custom resources.

    Class keywords: ``group`` and ``version`` (required), ``scope`` ("Namespaced" or "Cluster"), ``kind``, ``plural``,
    ``singular``, ``short_names``, ``categories``, and ``columns`` for ``kubectl get`` (heading -> field).

    Attributes:
        declaration: What the class keywords declare.
    """

    declaration: ClassVar[Declaration]

    @property
    def namespace(self) -> str:
        """The object's namespace; empty for cluster-scoped kinds."""
        return self.metadata.namespace or ("default" if self.declaration.namespaced else "")

    @property
    def key(self) -> str:
        """`namespace/name`, or the name for cluster-scoped kinds."""
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
    """Return the name of a kind in a ``ClusterEvent``."""
    if issubclass(kind, CustomResource):
        return kind.declaration.event
    return kind().kind


# Declaring


def _declared(name: str, keywords: dict[str, Any]) -> Declaration:
    """Return the checked declaration made from the keywords of a class."""
    unknown = keywords.keys() - set(Declaration.__struct_fields__)
    if unknown:
        known = ", ".join(Declaration.__struct_fields__)
        raise DeclarationError(
            f"{name}: {sorted(unknown)[0]} is not a keyword of CustomResource; the keywords are {known}"
        )
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
        raise DeclarationError(f"{name}: group {made.group!r} is not a domain name; write one such as example.com")
    if not _VERSION.fullmatch(made.version):
        raise DeclarationError(f"{name}: version {made.version!r} is invalid; write v1, v1beta1 or v1alpha1")
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
    """Return the body of the struct: fields with resolved types, nested classes as structs."""
    plain = type(name, (), {**body, "__module__": body.get("__module__", "")})
    structs = Structs({key: value for key, value in body.items() if isinstance(value, type)})
    hints = structs.hints(plain, name)
    for taken in _RESERVED & hints.keys():
        raise DeclarationError(f"{name}: {taken} is a reserved field; give the field another name")
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
    # Factories, since encoded objects must contain their kind although it is the default.
    made["api_version"] = msgspec.field(default_factory=functools.partial(_same, declaration.api_version))
    made["kind"] = msgspec.field(default_factory=functools.partial(_same, declaration.kind))
    made["__annotations__"] = {"api_version": str, "kind": str, **hints}
    return made


def _absent_status(hint: Any) -> Any:
    """Return an empty status as default, if the type allows one: manifests do not contain a status."""
    try:
        hint()
    except TypeError:
        return None
    return msgspec.field(default_factory=hint)


def _same(value: T) -> T:
    return value
