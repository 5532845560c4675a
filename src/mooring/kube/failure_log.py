"""A log of failed requests to an API server, with one message for each cause instead of each kind and attempt."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from mooring.kube.access import Access
from mooring.kube.client_errors import ConnectionFailed, Forbidden, Gone, KubeError, Unauthorized
from mooring.logs import get_logger

#: Kinds that are forbidden within this time are reported together.
_COLLECT_SECONDS: Final = 1.0
#: The interval between reports of a persistent failure.
_REMIND_SECONDS: Final = 60.0

log: Final = get_logger(__name__)


class FailureLog:
    """The failures of the list and watch requests to one server. Thread-safe enough for log messages."""

    def __init__(self, access: Access, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._access = access
        self._clock = clock
        #: The command that prints the missing roles.
        self.rbac_command = "mooring rbac"
        #: Kind of object whose requests fail because of the server as a whole -> the time of the first failure.
        self._failing: dict[str, float] = {}
        self._cause = ""
        self._reported_at = 0.0
        #: Kind of object that is forbidden -> whether that was reported.
        self._forbidden: dict[str, bool] = {}
        self._collecting = False
        #: Kind of object whose requests fail for another reason -> the reported error.
        self._said: dict[str, str] = {}

    def failed(self, what: str, error: KubeError) -> None:
        """Report a failed request for a kind of object that will be retried. Call this in an event loop."""
        log.debug("list/watch failed; retrying", kind=what, error=str(error))
        if isinstance(error, Gone):
            return  # normal after a long interruption
        if isinstance(error, Forbidden):
            self._forbid(what)
        elif cause := _cause(error):
            self._fail(what, cause, str(error))
        elif self._said.get(what) != str(error):
            self._said[what] = str(error)
            log.warning("list/watch failed; retrying", kind=what, error=str(error))

    def succeeded(self, what: str) -> None:
        """Record that a request for a kind of object succeeded after a failure."""
        self._said.pop(what, None)
        self._forbidden.pop(what, None)
        since = self._failing.pop(what, None)
        if since is not None and not self._failing:
            self._cause = ""
            log.info("The API server answers again", server=self._access.server, seconds=round(self._clock() - since))

    def _fail(self, what: str, cause: str, error: str) -> None:
        now = self._clock()
        self._failing.setdefault(what, now)
        if self._cause == cause and now - self._reported_at < _REMIND_SECONDS:
            return
        self._cause, self._reported_at = cause, now
        log.warning(cause, server=self._access.server, error=error, found=self._access.origin)

    def _forbid(self, what: str) -> None:
        self._forbidden.setdefault(what, False)
        if not self._collecting and not self._forbidden[what]:
            self._collecting = True
            asyncio.get_running_loop().call_later(_COLLECT_SECONDS, self._report_forbidden)

    def _report_forbidden(self) -> None:
        self._collecting = False
        names = [name for name, reported in self._forbidden.items() if not reported]
        self._forbidden.update(dict.fromkeys(names, True))
        if names:
            text = (
                f"Permissions are missing; waiting for them. `{self.rbac_command}` prints the roles that grant them, "
                "for `kubectl apply -f -` (--user NAME, or --service-account NAME)"
            )
            log.error(text, kinds=", ".join(sorted(names)), server=self._access.server)


def _cause(error: KubeError) -> str:
    """Return the message for a failure of the server as a whole; empty if it concerns one kind of object."""
    if isinstance(error, Unauthorized):
        return "The API server does not accept the credentials; retrying"
    if isinstance(error, ConnectionFailed):
        return "The API server cannot be reached; retrying"
    return "Requests to the API server fail; retrying" if error.outcome_unknown else ""
