"""Options that several commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mooring.cli.cluster_access import ClusterChoice
from mooring.cli.flags.go_flags import FlagType

if TYPE_CHECKING:
    from mooring.cli.scheduler_client import SchedulerClient
    from mooring.releases import Release

F = TypeVar("F", bound=Callable[..., Any])

context_option = click.option(
    "--context", default="", metavar="NAME", help="Context of the kubeconfig. By default the current one."
)
namespace_option = click.option(
    "-n",
    "--namespace",
    default="",
    help="The namespace, if the argument does not name one. By default that of the context.",
)


def named(parameter: str, metavar: str, option: str, *, required: bool = True) -> Callable[[F], F]:
    """Accept a name as an argument, or with `--name` as vcctl does; the command receives it as ``parameter``."""

    def decorate(command: F) -> F:
        @functools.wraps(command)
        def with_name(*args: Any, name_argument: str | None, name_option: str | None, **kwargs: Any) -> Any:
            given = [each for each in (name_argument, name_option) if each]
            if len(given) > 1 or (required and not given):
                raise click.UsageError(f"Give one name: {metavar}, or --name.")
            return command(*args, **{parameter: given[0] if given else ""}, **kwargs)

        text = f"The name, instead of {metavar}."
        options = (
            click.argument("name_argument", metavar=f"[{metavar}]", required=False),
            click.option(option, "--name", "name_option", metavar="NAME", help=text),
        )
        return _decorate(with_name, options)  # type: ignore[no-any-return]  # click returns the same function

    return decorate


watch_option = click.option("-w", "--watch", is_flag=True, help="After listing, print what changes, until Ctrl-C.")
config_option = click.option(
    "--config",
    "config_file",
    metavar="FILE",
    type=click.Path(),
    help="A KubeSchedulerConfiguration file (v1, v1beta3 or v1beta2).",
)


#: The output formats of commands that list objects.
LIST_FORMATS = ("table", "wide", "json", "yaml", "name")
#: The output formats of commands that show one object.
VIEW_FORMATS = ("table", "wide", "json", "yaml")


def output_option(*formats: str) -> Callable[[F], F]:
    """Return the option -o with these formats. The first one is the default."""
    return click.option(
        "-o", "--output", type=click.Choice(formats), default=formats[0], show_default=True, help="Output format."
    )


def filename_option(text: str) -> Callable[[F], F]:
    """Add ``-f``: manifests, as many as given. ``text`` says what they are for."""
    return click.option("-f", "--filename", "files", multiple=True, metavar="MANIFEST", help=text)


def cluster_options(command: F) -> F:
    """Add the options that select a cluster to a command, which receives them as ``choice``."""

    @functools.wraps(command)
    def with_choice(*args: Any, kubeconfig: str, context: str, **kwargs: Any) -> Any:
        return command(*args, choice=ClusterChoice(kubeconfig, context), **kwargs)

    return _decorate(with_choice, _CLUSTER_OPTIONS)  # type: ignore[no-any-return]  # click returns the same function


_CLUSTER_OPTIONS = (
    click.option(
        "--kubeconfig",
        default="",
        metavar="FILE",
        type=click.Path(),
        help="Path to the kubeconfig file. By default the files of $KUBECONFIG, then ~/.kube/config.",
    ),
    context_option,
)


def _decorate(command: Callable[..., Any], options: Iterable[Callable[[Any], Any]]) -> Any:
    for option in reversed(tuple(options)):
        command = option(command)
    return command


_PLUGIN_OPTIONS = (
    click.option(
        "--plugin",
        "named_plugins",
        multiple=True,
        metavar="NAME=FILE",
        help="Load plugin NAME from a Python file or package. Repeatable.",
    ),
    click.option(
        "--plugins-dir",
        "plugin_folders",
        multiple=True,
        metavar="DIR",
        type=click.Path(path_type=Path),
        help="Load all plugins in a directory. Repeatable.",
    ),
    click.option(
        "--allow-writable-plugins",
        is_flag=True,
        help="Load plugin files and directories even if users other than root and the current one can change or "
        "replace them. Such users can run code in the scheduler.",
    ),
)


def plugin_options(command: F) -> F:
    """Add the options that name plugins to a command, which receives them as ``requested``."""

    @functools.wraps(command)
    def with_request(
        *args: Any,
        named_plugins: tuple[str, ...],
        plugin_folders: tuple[Path, ...],
        allow_writable_plugins: bool,
        **kwargs: Any,
    ) -> Any:
        # Imported here to keep --help fast.
        from mooring.loading import PluginLoadError, Requested, parse_plugin_option

        named: dict[str, Path] = {}
        for option in named_plugins:
            try:
                name, path = parse_plugin_option(option)
            except PluginLoadError as error:
                raise click.BadParameter(str(error), param_hint="--plugin") from None
            if name in named:
                raise click.BadParameter(f"{name} is given twice: leave one out", param_hint="--plugin")
            named[name] = path
        requested = Requested(tuple(named.items()), plugin_folders, allow_writable_plugins)
        return command(*args, requested=requested, **kwargs)

    return _decorate(with_request, _PLUGIN_OPTIONS)  # type: ignore[no-any-return]  # click returns the same function


_RELEASE_OPTIONS = (
    click.option(
        "--emulated-version",
        default="",
        metavar="VERSION",
        help="Release of kube-scheduler to emulate: 1.36 or 1.37. By default that of the API server, or the newest.",
    ),
    click.option(
        "--feature-gates",
        "feature_gates",
        multiple=True,
        type=FlagType("map"),
        help="Feature gates of the emulated release, such as StorageCapacityScoring=false. Repeatable.",
    ),
)


class ReleaseChoice:
    """The release of kube-scheduler and the feature gates, as given by options."""

    def __init__(self, version: str, gates: tuple[tuple[str, str], ...]) -> None:
        from mooring.cli.flags.scheduler_settings import emulated_release

        #: The release that the options name; None if they name none.
        self.named = emulated_release(version)
        self._gates = gates

    def release(self, server_minor: int | None = None) -> Release:
        """Return the release with its gates: the named one, that of the API server, or the newest."""
        from mooring.cli.flags.scheduler_settings import gate_notes, gated_release
        from mooring.releases import NEWEST, release_for_server

        found = self.named
        if found is None:
            found = NEWEST if server_minor is None else release_for_server(server_minor)
        for note in gate_notes(found, self._gates):
            click.echo(f"note: {note}", err=True)
        return gated_release(found, self._gates)


def release_options(command: F) -> F:
    """Add the options that select a release to a command, which receives them as ``emulated``."""

    @functools.wraps(command)
    def with_release(
        *args: Any, emulated_version: str, feature_gates: tuple[tuple[tuple[str, str], ...], ...], **kwargs: Any
    ) -> Any:
        gates = tuple(pair for pairs in feature_gates for pair in pairs)
        return command(*args, emulated=ReleaseChoice(emulated_version, gates), **kwargs)

    return _decorate(with_release, _RELEASE_OPTIONS)  # type: ignore[no-any-return]  # click returns the same function


_SCHEDULER_OPTIONS = (
    click.option(
        "--scheduler", metavar="URL", envvar="MOORING_SCHEDULER", help="URL of the running scheduler's endpoints."
    ),
    click.option("--token", envvar="MOORING_TOKEN", default="", help="Bearer token to authenticate with."),
    click.option("--token-file", metavar="FILE", default="", help="File that contains the bearer token."),
    click.option(
        "--certificate-authority",
        metavar="FILE",
        default="",
        help="CA certificates (PEM) to verify the scheduler's certificate with.",
    ),
    click.option("--insecure-skip-tls-verify", is_flag=True, help="Do not verify the scheduler's certificate."),
)


class SchedulerAddress:
    """The address and credentials of a running scheduler, as given by options."""

    def __init__(self, scheduler: str | None, token: str, token_file: str, authority: str, *, verify: bool) -> None:
        self.scheduler = scheduler
        self._token, self._token_file = token, token_file
        self._authority, self._verify = authority, verify

    @property
    def is_given(self) -> bool:
        """Whether an option names a scheduler or credentials."""
        return bool(self.scheduler or self._token or self._token_file)

    def client(self, choice: ClusterChoice) -> SchedulerClient:
        """Return a client for the scheduler that the options name, or for the one in the kubeconfig."""
        from mooring.cli.scheduler_client import SchedulerClient, client_from_kubeconfig, read_token

        found = None if self.is_given else client_from_kubeconfig(choice)
        token = read_token(self._token, self._token_file)
        return found or SchedulerClient(self.scheduler, token=token, authority=self._authority, verify=self._verify)


def scheduler_options(command: F) -> F:
    """Add the options that name a running scheduler to a command, which receives them as ``address``."""

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
        address = SchedulerAddress(
            scheduler, token, token_file, certificate_authority, verify=not insecure_skip_tls_verify
        )
        return command(*args, address=address, **kwargs)

    return _decorate(with_address, _SCHEDULER_OPTIONS)  # type: ignore[no-any-return]  # click returns the same function
