"""WebhookCertificates: creates and rotates the webhook's certificate, and writes its CA to the webhook configurations.

The CA and the certificate are in a Secret that all replicas read. Only the leader writes it. A renewed certificate is
signed by the same CA. If the CA is renewed, the configurations trust both CAs before the first certificate of the new
one is used, so that no request of the API server fails.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from mooring.certificates import (
    Authority,
    Certificate,
    certificate_blocks,
    certificate_names,
    is_key_pair,
    is_signed_by,
    make_authority,
    seconds_left,
    sign_certificate,
)
from mooring.kube import AlreadyExists, Client, Conflict, KubeError, NotFound, NotLeading
from mooring.live.endpoints.endpoint_tls import CertificateError
from mooring.logs import get_logger
from mooring.unexpected_errors import report_unexpected

log: Final = get_logger("mooring.controller")

KINDS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_GROUP: Final = "/apis/admissionregistration.k8s.io/v1"
_DAY: Final = 86400.0
_SUBJECT: Final = "mooring-admission"
_MAX_AUTHORITIES: Final = 2


class CertificateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the certificate is stored, for which Service it is, and how long it is valid."""

    namespace: str = "kube-system"
    #: The name of the Service. The Secret has the same name with ``-certificate``.
    service: str = "mooring-controller"
    #: The name of the webhook configurations.
    configuration: str = "mooring-admission"
    certificate_days: float = 90.0
    authority_days: float = 3650.0
    #: The time between two checks, and after the configurations trust a new CA until it is used.
    check_seconds: float = 10.0
    settle_seconds: float = 30.0

    @property
    def secret(self) -> str:
        """The name of the Secret."""
        return f"{self.service}-certificate"

    @property
    def names(self) -> tuple[str, ...]:
        """The DNS names of the webhook."""
        full = f"{self.service}.{self.namespace}.svc"
        return (full, f"{full}.cluster.local", "localhost")


class _Stored(msgspec.Struct, frozen=True):
    """The content of the Secret. The first CA signs certificates; clients trust all of them."""

    authorities: str
    authority_key: str
    certificate: str
    key: str

    @property
    def authority(self) -> Authority:
        first = certificate_blocks(self.authorities.encode())[:1]
        return Authority(first[0].decode() + "\n" if first else "", self.authority_key)

    def has_valid_certificate(self, settings: CertificateSettings, *, enough: float) -> bool:
        """Return whether the certificate can be used for some more seconds."""
        pem = self.certificate.encode()
        return (
            seconds_left(pem) > enough
            and certificate_names(pem) >= set(settings.names)
            and is_key_pair(pem, self.key.encode())
            and any(is_signed_by(pem, block) for block in certificate_blocks(self.authorities.encode()))
        )


class WebhookCertificates:
    """Keeps the certificate of the webhook valid and trusted."""

    def __init__(
        self,
        client: Client,
        settings: CertificateSettings,
        *,
        leads: Callable[[], bool],
        use: Callable[[frozenset[str], Certificate], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._settings = settings
        self._leads = leads
        self._use = use
        self._clock = clock
        self._path = f"/api/v1/namespaces/{settings.namespace}/secrets"
        #: The CAs that all configurations trust, and since when.
        self._trusted = ("", 0.0)
        self._in_use = False
        self._problem = ""

    def problem(self) -> str | None:
        """Return why the webhook has no certificate yet, as a readiness check does."""
        return None if self._in_use else self._problem or "the webhook has no certificate yet"

    async def run(self) -> None:
        """Check the certificate again and again, until cancelled."""
        while True:
            try:
                await self.check()
            except NotLeading:
                pass
            except (KubeError, CertificateError) as error:
                if str(error) != self._problem:
                    log.warning("Failed to renew the webhook's certificate; trying again", error=str(error))
                self._problem = str(error)
            except Exception as error:
                report_unexpected("renewing the webhook's certificate failed", error)
            # The first leader has to create the certificate soon.
            await asyncio.sleep(
                self._settings.check_seconds if self._in_use else min(self._settings.check_seconds, 1.0)
            )

    async def check(self) -> None:
        """Read the Secret, renew what expires, serve the certificate, and write the CAs to the configurations."""
        document = await self._read()
        stored = _read(document)
        if self._leads():
            fresh = await asyncio.to_thread(self._renewed, stored)
            if fresh != stored:
                document = await self._write(document, fresh)
                stored = _read(document)
        if stored is None or not stored.has_valid_certificate(self._settings, enough=0.0):
            return
        certificate = Certificate(stored.authorities, stored.certificate, stored.key)
        self._use(frozenset(self._settings.names), certificate)
        if self._leads():
            await self._trust(stored.authorities)
        self._in_use, self._problem = True, ""

    # The Secret

    def _renewed(self, stored: _Stored | None) -> _Stored:
        """Return the content that the Secret should have."""
        settings = self._settings
        least = settings.certificate_days * _DAY
        if stored is None or not _can_sign(stored.authority) or seconds_left(stored.authorities.encode()) < least:
            made = make_authority(days=settings.authority_days)
            usable = stored is not None and stored.has_valid_certificate(settings, enough=settings.settle_seconds)
            if stored is None or not usable:
                return _signed(made.certificate, made, settings)
            log.info("Created a new CA for the webhook; it is used when the configurations trust it")
            others = [each.decode() for each in certificate_blocks(stored.authorities.encode())]
            authorities = "".join(f"{each.strip()}\n" for each in (made.certificate, *others[: _MAX_AUTHORITIES - 1]))
            return msgspec.structs.replace(stored, authorities=authorities, authority_key=made.key)
        valid = stored.has_valid_certificate(settings, enough=least / 3)
        by_first = is_signed_by(stored.certificate.encode(), stored.authority.certificate.encode())
        if not valid or (not by_first and self._is_trusted(stored.authorities)):
            log.info("Renewed the webhook's certificate", secret=f"{settings.namespace}/{settings.secret}")
            return _signed(stored.authorities, stored.authority, settings)
        return stored

    def _is_trusted(self, authorities: str) -> bool:
        trusted, since = self._trusted
        return trusted == authorities and self._clock() - since >= self._settings.settle_seconds

    async def _read(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = await self._client.send("GET", f"{self._path}/{self._settings.secret}")
        except NotFound:
            return None
        return found

    async def _write(self, document: dict[str, Any] | None, fresh: _Stored) -> dict[str, Any] | None:
        """Write the Secret. Return it, or what another process wrote meanwhile."""
        parts = {
            "ca.crt": fresh.authorities,
            "ca.key": fresh.authority_key,
            "tls.crt": fresh.certificate,
            "tls.key": fresh.key,
        }
        data = {name: base64.b64encode(text.encode()).decode() for name, text in parts.items()}
        metadata = {"name": self._settings.secret, "namespace": self._settings.namespace}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/tls", "data": data}
        method, path = "POST", self._path
        if document is not None:
            method, path, body = "PUT", f"{self._path}/{self._settings.secret}", {**document, "data": data}
        try:
            found: dict[str, Any] = await self._client.send(method, path, body)
        except (AlreadyExists, Conflict):
            return await self._read()
        return found

    # The configurations

    async def _trust(self, authorities: str) -> None:
        """Write the CAs to all webhooks of the configurations."""
        bundle = base64.b64encode(authorities.encode()).decode()
        for kind in KINDS:
            path = f"{_GROUP}/{kind}/{self._settings.configuration}"
            try:
                found = await self._client.send("GET", path)
            except NotFound:
                continue
            patch: list[dict[str, Any]] = []
            for number, webhook in enumerate(found.get("webhooks") or ()):
                if (webhook.get("clientConfig") or {}).get("caBundle") != bundle:
                    patch.append({"op": "test", "path": f"/webhooks/{number}/name", "value": webhook["name"]})
                    patch.append({"op": "add", "path": f"/webhooks/{number}/clientConfig/caBundle", "value": bundle})
            if patch:
                await self._client.send("PATCH", path, patch, type="application/json-patch+json")
                log.info("Wrote the webhook's CA", configuration=f"{kind}/{self._settings.configuration}")
        if self._trusted[0] != authorities:
            self._trusted = (authorities, self._clock())


def _read(document: dict[str, Any] | None) -> _Stored | None:
    """Return the content of the Secret; None if it has none, or it cannot be read."""
    data = (document or {}).get("data") or {}
    try:
        parts = [base64.b64decode(data[name]).decode() for name in ("ca.crt", "ca.key", "tls.crt", "tls.key")]
    except (KeyError, TypeError, UnicodeDecodeError, binascii.Error):
        return None
    return _Stored(*parts)


def _can_sign(authority: Authority) -> bool:
    return is_key_pair(authority.certificate.encode(), authority.key.encode())


def _signed(authorities: str, authority: Authority, settings: CertificateSettings) -> _Stored:
    made = sign_certificate(authority, settings.names, ("127.0.0.1",), subject=_SUBJECT, days=settings.certificate_days)
    return _Stored(authorities, authority.key, made.certificate, made.key)
