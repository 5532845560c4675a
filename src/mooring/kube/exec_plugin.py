"""Credential plugins: programs that print credentials, as defined by client.authentication.k8s.io."""

import asyncio
import base64
import contextlib
import itertools
import os
import signal
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from mooring.api import parse_time
from mooring.kube.access import Access, ExecPlugin
from mooring.kube.client_errors import AccessError
from mooring.kube.identity import MIN_SECRET, Identity

_TIMEOUT: Final = 60.0


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    status: _Status | None = None


class ExecIdentity:
    """An identity from a credential plugin, which runs again when the identity expires or the server rejects it."""

    def __init__(
        self, plugin: ExecPlugin, access: Access, *, now: Callable[[], float] = time.time, timeout: float = _TIMEOUT
    ) -> None:
        self._plugin = plugin
        self._access = access
        self._now = now
        self._timeout = timeout
        self._identity: Identity | None = None
        self._expires: float | None = None
        self._lock = asyncio.Lock()

    def fresh(self) -> Identity | None:
        """Return the identity if it has not expired."""
        if self._expires is not None and self._now() > self._expires:
            return None
        return self._identity

    async def get(self) -> Identity:
        """Return the identity; run the plugin if necessary. Concurrent callers share one run. Raises AccessError."""
        async with self._lock:
            known = self.fresh()
            if known is not None:
                return known
            self._identity, self._expires = self._read(await self._run())
            return self._identity

    def reject(self, identity: Identity) -> None:
        """Discard the identity, unless it was already replaced."""
        if identity is self._identity:
            self._identity = None

    async def _run(self) -> bytes:
        plugin = self._plugin
        env = {**os.environ, **dict(plugin.env), "KUBERNETES_EXEC_INFO": self._info()}
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.args,
                env=env,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise self._error(f"cannot be run: {error.strerror}", hint=True) from None
        try:
            async with asyncio.timeout(self._timeout):
                output, stderr = await process.communicate()
        except TimeoutError:
            raise self._error(f"did not finish within {self._timeout:g} s") from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # with the processes that it started
                await process.wait()
        if process.returncode != 0:
            reason = " ".join(self._hide_settings(stderr.decode("utf-8", "replace")).split())[:300]
            raise self._error(f"failed with status {process.returncode}" + (f": {reason}" if reason else ""), hint=True)
        return output

    def _hide_settings(self, text: str) -> str:
        """Remove the values that the kubeconfig passes to the plugin: they may be secrets."""
        args = self._plugin.args
        values = [value for _, value in self._plugin.env]
        values += [arg.partition("=")[2] for arg in args if arg.startswith("-")]
        values += [arg for option, arg in itertools.pairwise(args) if option.startswith("-")]
        for value in values:
            if len(value) >= MIN_SECRET:
                text = text.replace(value, "<hidden>")
        return text

    def _read(self, output: bytes) -> tuple[Identity, float | None]:
        try:
            credential = msgspec.json.decode(output, type=_ExecCredential)
        except (msgspec.DecodeError, UnicodeError):
            # Do not show the output: it may contain a secret.
            raise self._error("did not print an ExecCredential as JSON") from None
        if credential.api_version != self._plugin.api_version:
            raise self._error(
                f"printed {credential.api_version or 'no version'}, but the kubeconfig has apiVersion: "
                f"{self._plugin.api_version}; use the same version in both"
            )
        status = credential.status
        if status is None or not (status.token or status.client_certificate_data or status.client_key_data):
            raise self._error("printed no token and no certificate")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise self._error("printed a certificate without a key, or a key without a certificate")
        authorization = f"Bearer {status.token.strip()}" if status.token else ""
        identity = Identity(authorization, status.client_certificate_data.encode(), status.client_key_data.encode())
        try:
            expires = parse_time(status.expiration_timestamp) if status.expiration_timestamp else None
        except ValueError as error:
            raise self._error(f"expirationTimestamp: {error}") from None
        return identity, expires

    def _info(self) -> str:
        spec: dict[str, Any] = {"interactive": False}
        if self._plugin.provide_cluster_info:
            spec["cluster"] = self._cluster()
        info = {"apiVersion": self._plugin.api_version, "kind": "ExecCredential", "spec": spec}
        return msgspec.json.encode(info).decode()

    def _cluster(self) -> dict[str, Any]:
        access = self._access
        cluster: dict[str, Any] = {"server": access.server}
        if access.tls_server_name:
            cluster["tls-server-name"] = access.tls_server_name
        if access.insecure:
            cluster["insecure-skip-tls-verify"] = True
        if access.ca is not None:
            cluster["certificate-authority-data"] = base64.b64encode(access.ca).decode()
        if access.proxy:
            cluster["proxy-url"] = access.proxy
        if self._plugin.cluster_config is not None:
            cluster["config"] = self._plugin.cluster_config
        return cluster

    def _error(self, problem: str, *, hint: bool = False) -> AccessError:
        text = f"{self._access.origin}: the credential plugin {self._plugin.command} {problem}"
        return AccessError(f"{text}; {self._plugin.install_hint}" if hint and self._plugin.install_hint else text)
