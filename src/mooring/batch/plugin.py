"""BatchPlugin: what has a say in batch sessions."""

from __future__ import annotations

from typing import ClassVar

from mooring.batch.arguments import Arguments
from mooring.batch.session import Session


class BatchPlugin:
    """Base of the built-in plugins. A new object is made for every session.

    >>> class Magic(BatchPlugin):
    ...     name = "magic"
    ...
    ...     def on_session_open(self, session):
    ...         session.add_node_order(lambda task, node: 10.0 if "magic" in node.labels else 0.0)
    """

    #: The name in the configuration.
    name: ClassVar[str] = ""

    def __init__(self, arguments: Arguments) -> None:
        self.arguments = arguments

    def on_session_open(self, session: Session) -> None:
        """A session begins: register callbacks."""

    def on_session_close(self, session: Session) -> None:
        """The actions are done; statuses are not written yet."""
