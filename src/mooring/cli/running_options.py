"""The options with which commands are told where a running scheduler is, and how to be let in."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from mooring.cli.running import Running

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--scheduler", metavar="URL", envvar="MOORING_SCHEDULER", help="Where the running Mooring is served."),
    click.option("--token", envvar="MOORING_TOKEN", default="", help="A token of the cluster, to be let in with."),
    click.option("--token-file", metavar="FILE", default="", help="A file that holds it."),
    click.option(
        "--certificate-authority", metavar="FILE", default="", help="What the scheduler's certificate is checked with."
    ),
    click.option("--insecure-skip-tls-verify", is_flag=True, help="Do not check the scheduler's certificate."),
)


class Address:
    """Where a scheduler is, as the options say."""

    def __init__(self, scheduler: str | None, token: str, token_file: str, authority: str, *, verify: bool) -> None:
        self.scheduler = scheduler
        self._token, self._token_file = token, token_file
        self._authority, self._verify = authority, verify

    @property
    def is_given(self) -> bool:
        """Whether some option says where."""
        return bool(self.scheduler or self._token or self._token_file)

    def running(self, kubeconfig: str) -> Running:
        """The scheduler that the options name, or else the one that a kubeconfig knows of."""
        from mooring.cli.running import Running, read_token, scheduler_of

        known = None if self.is_given else scheduler_of(kubeconfig)
        token = read_token(self._token, self._token_file)
        return known or Running(self.scheduler, token=token, authority=self._authority, verify=self._verify)


def running_options(command: F) -> F:
    """Give a command the options about a running scheduler; it gets what they say as ``address``."""

    @functools.wraps(command)
    def with_address(
        *args: Any,
        scheduler: str | None,
        token: str,
        token_file: str,
        certificate_authority: str,
        insecure_skip_tls_verify: bool,
        **kwargs: Any,
    ) -> Any:
        address = Address(scheduler, token, token_file, certificate_authority, verify=not insecure_skip_tls_verify)
        return command(*args, address=address, **kwargs)

    decorated: Any = with_address
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]  # click's decorators keep the function they are given
