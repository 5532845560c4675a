"""A client for the endpoints of a running scheduler."""

from __future__ import annotations

import base64
import http.client
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlsplit

import click
import msgspec

from mooring.certificates import is_expired_error
from mooring.cli.cluster_access import ClusterChoice
from mooring.loading.plugin_rows import PluginRow
from mooring.observe.explanation import Explanation

T = TypeVar("T")
DEFAULT_URL = "https://127.0.0.1:10259"
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_TIMEOUT_SECONDS = 10.0


class NoAnswer(Exception):
    """An error: the running scheduler did not respond. The message contains the reason."""


def read_token(token: str, file: str) -> str:
    """Return the given token, or the one in a file. Ends the command if the file cannot be read."""
    if token and file:
        raise click.UsageError("--token and --token-file exclude each other: give one")
    if not file:
        return token
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror or error}") from None
    except UnicodeError:
        raise click.ClickException(f"{file}: not a text file; give a file that contains a token") from None


class _SchedulerExtension(msgspec.Struct, rename="kebab"):
    """The entry for the scheduler that `mooring up` writes into the kubeconfig."""

    server: str
    certificate_authority_data: str


def client_from_kubeconfig(choice: ClusterChoice) -> SchedulerClient | None:
    """Return a client for the scheduler in a kubeconfig, with the kubeconfig's token; None if there is none."""
    from mooring.kube import AccessError

    try:
        access = choice.load()
        served = msgspec.convert(access.extensions["mooring.dev/scheduler"], _SchedulerExtension)
        authority = base64.b64decode(served.certificate_authority_data).decode()
    except (AccessError, KeyError, ValueError):
        return None
    return SchedulerClient(served.server, token=access.user.token, authority_data=authority)


class _Plugins(msgspec.Struct):
    plugins: list[PluginRow]


class SchedulerClient:
    """A client for the endpoints of a scheduler. The default URL is this machine with the default port."""

    def __init__(
        self,
        url: str | None,
        *,
        token: str = "",
        authority: str = "",
        authority_data: str = "",
        verify: bool = True,
    ) -> None:
        self._guessed = not url
        self._url = (url or DEFAULT_URL).rstrip("/")
        split = urlsplit(self._url)
        if split.scheme not in ("http", "https") or not split.hostname:
            raise click.BadParameter(f"{url!r}: give a URL such as {DEFAULT_URL}", param_hint="--scheduler")
        self._local = split.hostname in _LOOPBACK
        if split.scheme == "http" and not self._local and token:
            raise click.BadParameter("a token is not sent unencrypted: give an https URL", param_hint="--scheduler")
        self._token = token
        verify = verify and not (self._local and not authority and not authority_data)
        self._opener = self._open_with(_context(authority, authority_data, verify=verify))

    def _open_with(self, context: ssl.SSLContext) -> urllib.request.OpenerDirector:
        handlers: list[urllib.request.BaseHandler] = [urllib.request.HTTPSHandler(context=context), _NoRedirects()]
        if self._local:
            handlers.append(urllib.request.ProxyHandler({}))
        return urllib.request.build_opener(*handlers)

    def explanation(self, key: str) -> Explanation:
        """Return the explanation of a pod (namespace/name). Raises NoAnswer."""
        return self._get(f"/decisions/{quote(key)}", Explanation)

    def plugins(self) -> list[PluginRow]:
        """Return the status of the scheduler's plugins. Raises NoAnswer."""
        return self._get("/plugins", _Plugins).plugins

    def _get(self, path: str, kind: type[T]) -> T:
        request = urllib.request.Request(f"{self._url}{path}", headers=self._headers())
        try:
            with self._opener.open(request, timeout=_TIMEOUT_SECONDS) as answer:
                return msgspec.json.decode(answer.read(), type=kind)
        except urllib.error.HTTPError as error:
            with error:
                text = error.read(500).decode("utf-8", "replace").strip()
            raise NoAnswer(self._refused(error.code, text)) from None
        except msgspec.DecodeError as error:
            raise NoAnswer(f"The server at {self._url} is not Mooring ({error}).") from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            if is_expired_error(reason):
                reason = "its certificate, or that of its CA, has expired"
            if self._guessed:
                raise NoAnswer(f"No running Mooring answers at {self._url}.") from None
            raise NoAnswer(f"No running Mooring answers at {self._url}: {reason}.") from None

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        return headers

    def _refused(self, code: int, text: str) -> str:
        line = text.splitlines()[0] if text else str(code)
        if code in (401, 403):
            return f"Mooring at {self._url} denied access ({line}); give --token or --token-file."
        return f"Mooring at {self._url} has no answer: {line}."


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A handler that follows no redirects, because a redirect could send the token to another server."""

    def redirect_request(self, *_args: object, **_kwargs: object) -> None:
        return None


def _context(authority: str, data: str, *, verify: bool) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=authority or None, cadata=data or None)
    except (OSError, ssl.SSLError) as error:
        raise click.ClickException(f"{authority}: contains no PEM certificates ({error})") from None
    # Python 3.13 rejects CAs without certain extensions by default. Go, kubectl and older versions accept them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
