"""Who asks for something, and how it is to be done."""

from typing import Final, NamedTuple

from mooring.apiserver.documents import Document


class User(NamedTuple):
    """Who makes a request."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""

    @property
    def is_admin(self) -> bool:
        """Whether everything is allowed."""
        return "system:masters" in self.groups


class Call:
    """One request's options. Warnings gather here and go out with the answer."""

    __slots__ = ("dry_run", "entries", "force", "manager", "patching", "user", "validation", "warnings")

    def __init__(
        self, user: User, *, manager: str = "", dry_run: bool = False, validation: str = "Warn", force: bool = False
    ) -> None:
        self.user = user
        #: Under which name changed fields are booked; empty books nothing.
        self.manager = manager
        self.dry_run = dry_run
        #: What to do about unknown fields: `Strict`, `Warn` or `Ignore`.
        self.validation = validation
        self.force = force
        #: Whether the object was made from the stored one by a patch.
        self.patching = False
        self.warnings: list[str] = []
        #: What `managedFields` of a new object says, where server-side apply has worked it out already.
        self.entries: list[Document] | None = None


#: The cluster's own controllers and kubelets.
SYSTEM: Final = User("system:mooring", ("system:masters", "system:authenticated"))


def system_call() -> Call:
    """A call by the cluster itself."""
    return Call(SYSTEM, validation="Ignore")
