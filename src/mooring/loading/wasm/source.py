"""Fetching a guest's module: from a file or over HTTP, with its checksum checked."""

from __future__ import annotations

import hashlib
import http.client
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final

import structlog

from mooring.loading.errors import PluginLoadError
from mooring.loading.wasm.args import GuestArgs

#: Real guests have one or two MiB; a few of Go's own have ten.
_MAX_BYTES: Final = 128 << 20
_SECONDS: Final = 30.0
_MAGIC: Final = b"\0asm"


def fetch(plugin: str, args: GuestArgs) -> bytes:
    """The module's bytes. Raises PluginLoadError with what is wrong and what to do."""
    where = f"{plugin}: guestURL {args.guest_url}"
    module = _read(where, args.guest_url)
    found = hashlib.sha256(module).hexdigest()
    if args.digest and found != args.digest:
        raise PluginLoadError(
            f"{where}: its sha256 is {found}, not {args.digest}; if the new module is the one you want, write that"
        )
    if not module.startswith(_MAGIC):
        raise PluginLoadError(f"{where}: is no WebAssembly module; give the .wasm file that your compiler wrote")
    if args.guest_url.startswith("http://") and not args.digest:
        structlog.get_logger("mooring").warning(
            "a guest came over plain http; pin it with sha256", plugin=plugin, url=args.guest_url, sha256=found
        )
    return module


def _read(where: str, url: str) -> bytes:
    scheme, _, rest = url.partition("://")
    if scheme == "file":
        return _read_file(where, Path(rest))
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS) as answer:  # the scheme was checked with the arguments
            module: bytes = answer.read(_MAX_BYTES + 1)
    except urllib.error.HTTPError as error:
        with error:
            raise PluginLoadError(f"{where}: the server answered {error.code} {error.reason}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise PluginLoadError(f"{where}: cannot be reached: {reason}") from None
    if len(module) > _MAX_BYTES:
        raise PluginLoadError(f"{where}: has more than {_MAX_BYTES >> 20} MiB")
    return module


def _read_file(where: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise PluginLoadError(f"{where}: no such file (the path in it is {path})") from None
    except OSError as error:
        raise PluginLoadError(f"{where}: {error.strerror or error}") from None
