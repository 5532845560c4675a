"""Asking a running scheduler over its endpoints."""

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

from mooring.loading.listing import PluginRow
from mooring.observe.explanation import Explanation

T = TypeVar("T")
DEFAULT_URL = "https://127.0.0.1:10259"
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_SECONDS = 10.0


class NoAnswer(Exception):
    """The running scheduler did not tell; the text says why, as a sentence."""


def read_token(token: str, file: str) -> str:
    """A token given as such or in a file. Ends the command if the file cannot be read."""
    if token and file:
        raise click.UsageError("--token and --token-file exclude each other: give one")
    if not file:
        return token
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror or error}") from None
    except UnicodeError:
        raise click.ClickException(f"{file}: not a text file; give one that holds a token") from None


class _Served(msgspec.Struct, rename="kebab"):
    """What `mooring up` writes about its scheduler into the kubeconfig."""

    server: str
    certificate_authority_data: str


def scheduler_of(kubeconfig: str) -> Running | None:
    """The scheduler that a kubeconfig knows of, asked with the kubeconfig's own token; None where it knows none."""
    from mooring.kube import AccessError, load_access

    try:
        access = load_access(kubeconfig=kubeconfig)
        served = msgspec.convert(access.extensions["mooring.dev/scheduler"], _Served)
        authority = base64.b64decode(served.certificate_authority_data).decode()
    except (AccessError, KeyError, ValueError):
        return None
    return Running(served.server, token=access.user.token, authority_data=authority)


class _Plugins(msgspec.Struct):
    plugins: list[PluginRow]


class Running:
    """A scheduler that is served at some address; without an address, perhaps one on this machine."""

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
            raise click.BadParameter("a token is not sent in the clear: give an https URL", param_hint="--scheduler")
        self._token = token
        verify = verify and not (self._local and not authority and not authority_data)
        self._opener = self._open_with(_context(authority, authority_data, verify=verify))

    def _open_with(self, context: ssl.SSLContext) -> urllib.request.OpenerDirector:
        handlers: list[urllib.request.BaseHandler] = [urllib.request.HTTPSHandler(context=context), _NoRedirects()]
        if self._local:
            handlers.append(urllib.request.ProxyHandler({}))
        return urllib.request.build_opener(*handlers)

    def explanation(self, key: str) -> Explanation:
        """What the scheduler knows of a pod (namespace/name). Raises NoAnswer."""
        return self._get(f"/decisions/{quote(key)}", Explanation)

    def plugins(self) -> list[PluginRow]:
        """The scheduler's plugins and how they fare. Raises NoAnswer."""
        return self._get("/plugins", _Plugins).plugins

    def _get(self, path: str, kind: type[T]) -> T:
        request = urllib.request.Request(f"{self._url}{path}", headers=self._headers())
        try:
            with self._opener.open(request, timeout=_SECONDS) as answer:
                return msgspec.json.decode(answer.read(), type=kind)
        except urllib.error.HTTPError as error:
            with error:
                text = error.read(500).decode("utf-8", "replace").strip()
            raise NoAnswer(self._refused(error.code, text)) from None
        except msgspec.DecodeError as error:
            raise NoAnswer(f"What answers at {self._url} is no Mooring ({error}).") from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
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
            return f"The Mooring at {self._url} does not let you in ({line}); give --token or --token-file."
        return f"The Mooring at {self._url} cannot tell: {line}."


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A token goes where it was meant to go and nowhere else."""

    def redirect_request(self, *_args: object, **_kwargs: object) -> None:
        return None


def _context(authority: str, data: str, *, verify: bool) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=authority or None, cadata=data or None)
    except (OSError, ssl.SSLError) as error:
        raise click.ClickException(f"{authority}: no certificates in PEM form can be read from it ({error})") from None
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
