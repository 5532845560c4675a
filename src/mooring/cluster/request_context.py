"""The user and the options of a request."""

from typing import Final, NamedTuple

from mooring.apiserver.documents import Document


class User(NamedTuple):
    """The user of a request."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""

    @property
    def is_admin(self) -> bool:
        """Whether the user is an administrator, who is always authorized."""
        return "system:masters" in self.groups


class RequestContext:
    """The options of one request, and the warnings for its response."""

    __slots__ = ("dry_run", "entries", "force", "manager", "patching", "user", "validation", "warnings")

    def __init__(
        self, user: User, *, manager: str = "", dry_run: bool = False, validation: str = "Warn", force: bool = False
    ) -> None:
        self.user = user
        #: The field manager that owns changed fields; empty if fields are not tracked.
        self.manager = manager
        self.dry_run = dry_run
        #: How to handle unknown fields: `Strict`, `Warn` or `Ignore`.
        self.validation = validation
        self.force = force
        #: Whether the object is a patched stored object.
        self.patching = False
        self.warnings: list[str] = []
        #: The `managedFields` of a new object, if server-side apply has computed them.
        self.entries: list[Document] | None = None


#: The user of controllers and kubelets.
SYSTEM: Final = User("system:mooring", ("system:masters", "system:authenticated"))


def system_context() -> RequestContext:
    """Return the context of a request by a controller or a kubelet."""
    return RequestContext(SYSTEM, validation="Ignore")
