"""The webhook's certificates: created, trusted by the configurations, shared among replicas, and renewed."""

from __future__ import annotations

import base64

from mooring.certificates import Certificate
from mooring.controllers.admission.manifests import configurations
from mooring.controllers.admission.webhook_certificates import CertificateSettings, WebhookCertificates
from tests.controllers.admission.test_webhook import NAMES, secret, webhook
from tests.controllers.world import World
from tests.waiting import until


async def bundles(world: World) -> set[str]:
    """Return the CAs in the webhook configurations."""
    found = set()
    for kind in ("mutating", "validating"):
        path = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/hooks"
        for each in (await world.get(path))["webhooks"]:
            found.add(base64.b64decode(each["clientConfig"].get("caBundle", "")).decode())
    return found


async def test_certificates_are_created_trusted_and_rotated(world: World) -> None:
    client = {"service": {"namespace": "kube-system", "name": "hook", "port": 10260}}
    for document in configurations("hooks", client):
        kind = document["kind"].lower() + "s"
        await world.post(f"/apis/admissionregistration.k8s.io/v1/{kind}", **document)
    # Certificates that are valid for a few seconds are renewed when a third of the time is left.
    quick = CertificateSettings(
        service="hook", namespace="kube-system", configuration="hooks", check_seconds=0.02, settle_seconds=0.2,
        certificate_days=6 / 86400 + 5 / 1440, authority_days=365,
    )  # fmt: skip
    async with webhook(world, quick):
        first = await until(lambda: secret(world))
        await until(lambda: _all(world, first["ca.crt"]))
    # Another leader with the usual lifetime renews at once, with the same CA.
    async with webhook(world):
        second = await until(lambda: _other(world, first, "tls.crt"))
        assert second["ca.crt"] == first["ca.crt"]
    # A CA that expires before a new certificate would is replaced: first both are trusted, then the new one signs.
    long = CertificateSettings(
        service="hook", namespace="kube-system", configuration="hooks", check_seconds=0.02, settle_seconds=0.3,
        certificate_days=400,
    )  # fmt: skip
    async with webhook(world, long):
        third = await until(lambda: _other(world, second, "ca.crt"))
        assert third["ca.crt"].count("BEGIN CERTIFICATE") == 2
        await until(lambda: _all(world, third["ca.crt"]))
        fourth = await until(lambda: _other(world, second, "tls.crt"))
        assert fourth["ca.crt"] == third["ca.crt"]
    # A Secret that someone damaged is replaced.
    await world.merge("/api/v1/namespaces/kube-system/secrets/hook-certificate", {"data": {"tls.key": "eA=="}})
    async with webhook(world):
        await until(lambda: _other(world, fourth, "tls.crt"))


async def _all(world: World, authorities: str) -> bool:
    return await bundles(world) == {authorities}


async def _other(world: World, before: dict[str, str], key: str) -> dict[str, str] | None:
    found = await secret(world)
    return found if found and found[key] not in {before[key], "x"} else None


async def test_a_replica_that_does_not_lead_serves_the_stored_certificate(world: World) -> None:
    used: list[Certificate] = []

    def certificates(*, leads: bool) -> WebhookCertificates:
        return WebhookCertificates(
            world.client, NAMES, leads=lambda: leads, use=lambda _names, certificate: used.append(certificate)
        )

    follower = certificates(leads=False)
    await follower.check()
    assert used == []
    assert "no certificate yet" in (follower.problem() or "")
    await certificates(leads=True).check()
    stored = await secret(world)
    await follower.check()
    assert [each.certificate for each in used] == [stored["tls.crt"]] * 2
    assert follower.problem() is None
    assert await secret(world) == stored
