"""The declaration of a kind: its resource, and the rules to create, update and print its objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mooring.apiserver.documents import Document
from mooring.apiserver.field_errors import FieldError
from mooring.apiserver.object_names import NameRule, dns_subdomain
from mooring.cluster.api_resource import Resource
from mooring.cluster.selectors import Reader
from mooring.cluster.store import Store
from mooring.cluster.table_printer import NAME_AND_AGE, Columns

if TYPE_CHECKING:
    from mooring.cluster.controllers.controller import Controller


def _do_nothing(_document: Document) -> None:
    pass


def _admit(_store: Store, _document: Document) -> None:
    pass


def _no_errors(_document: Document) -> list[FieldError]:
    return []


def _no_update_errors(_new: Document, _old: Document) -> list[FieldError]:
    return []


def _no_warnings(_document: Document) -> list[str]:
    return []


def _no_subresource_errors(_subresource: str, _new: Document, _old: Document) -> list[FieldError]:
    return []


#: All metadata that users can change. Kinds whose `status` subresource does not write metadata protect it.
ALL_METADATA: Final = ("annotations", "finalizers", "labels", "ownerReferences")


class Kind(NamedTuple):
    """A kind of object. Functions that take one document either change it in place or only read it."""

    resource: Resource
    #: Other group versions that serve the same objects.
    aliases: tuple[Resource, ...] = ()
    set_defaults: Callable[[Document], None] = _do_nothing
    #: Sets the fields of a new object that only the server writes, such as its status. The number is the current time.
    prepare: Callable[[Document, Store, float], None] | None = None
    #: The status of a new object, for a kind without `prepare`.
    initial_status: Mapping[str, Any] = MappingProxyType({})
    #: Whether a new object keeps the status that the client sends.
    keeps_status: bool = False
    #: Completes a new object from other objects, or raises ApiError.
    admit: Callable[[Store, Document], None] = _admit
    validate: Callable[[Document], list[FieldError]] = _no_errors
    #: Returns errors for changes that are not allowed. The new object has already passed `validate`.
    validate_update: Callable[[Document, Document], list[FieldError]] = _no_update_errors
    #: The same for the `status` subresource.
    validate_status: Callable[[Document, Document], list[FieldError]] = _no_update_errors
    #: The same for other subresources that change the spec. The text is the name of the subresource.
    validate_subresource: Callable[[str, Document, Document], list[FieldError]] = _no_subresource_errors
    #: The metadata that a write to the `status` subresource cannot change.
    status_protects: tuple[str, ...] = ()
    name_errors: NameRule = dns_subdomain
    #: Returns warnings about a new object.
    warnings: Callable[[Document], list[str]] = _no_warnings
    #: Raises ApiError for an object that cannot be deleted.
    check_deletion: Callable[[Document], None] = _do_nothing
    columns: Columns = NAME_AND_AGE
    #: The fields that field selectors can use in addition to the name and the namespace.
    fields: Mapping[str, Reader] = MappingProxyType({})
    #: Whether `metadata.generation` counts changes, except those of metadata and status.
    counts_generation: bool = False
    #: Whether it counts changes of annotations too.
    counts_annotations: bool = False
    #: Whether an update may omit the resource version.
    unconditional_update: bool = True
    #: Whether the response to a deletion is the deleted object instead of a Status.
    returns_deleted: bool = False
    controllers: tuple[type[Controller], ...] = ()

    @property
    def has_status(self) -> bool:
        """Whether `status` can be written only through a subresource."""
        return "status" in self.resource.subresources


def no_controller_warning(plural: str) -> Callable[[Document], list[str]]:
    """Return a function that warns that no controller handles objects of a kind."""
    return stored_only_warning(f"has no controller for {plural}")


def stored_only_warning(why: str) -> Callable[[Document], list[str]]:
    """Return a function that warns that objects of a kind have no effect."""
    message = f"the embedded cluster {why}: it is stored, and nothing happens"
    return lambda _document: [message]
