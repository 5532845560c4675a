"""The claims of a pod: by name, from templates, and what is missing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.api.devices import ResourceClaim
from mooring.api.pod import PodResourceClaimStatus
from mooring.framework import Lister
from mooring.plugins.dynamic_resources.claim_tracker import ClaimTracker
from mooring.plugins.dynamic_resources.pod_claims import ClaimsNotReadyError, claims_of
from mooring.testing import make_pod
from tests.plugins.device_world import claim

BY_NAME = make_pod("p").resource_claim("gpu", "c").obj()
TEMPLATE = make_pod("p").resource_claim("gpu", template="t").obj()
OWNED = claim(metadata={"ownerReferences": [{"uid": TEMPLATE.uid, "controller": True}]})


def with_status(name: str | None) -> Any:
    entries = (PodResourceClaimStatus(name="gpu", resource_claim_name=name),)
    return msgspec.structs.replace(
        TEMPLATE, status=msgspec.structs.replace(TEMPLATE.status, resource_claim_statuses=entries)
    )


@pytest.mark.parametrize(
    ("pod", "claims", "expected"),
    [
        (BY_NAME, [claim()], ["c"]),
        (BY_NAME, [], 'could not find ResourceClaim "default/c"'),
        (
            BY_NAME,
            [claim(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            'resourceclaim "c" is being deleted',
        ),
        (TEMPLATE, [claim()], 'pod "default/p": ResourceClaim not created yet'),
        (with_status("c"), [OWNED], ["c"]),
        (with_status(None), [], []),
        (with_status("c"), [claim()], "ResourceClaim default/c was not created for Pod default/p (Pod is not owner)"),
        (
            make_pod("p").resource_claim("gpu").obj(),
            [],
            'pod "default/p", spec.resourceClaim "gpu": none of the supported fields are set',
        ),
    ],
)
def test_claims(pod: Any, claims: list[ResourceClaim], expected: list[str] | str) -> None:
    lister: Lister[ResourceClaim] = Lister(ResourceClaim)
    for each in claims:
        lister.put(each)
    if isinstance(expected, str):
        with pytest.raises(ClaimsNotReadyError) as raised:
            claims_of(pod, ClaimTracker(lister))
        assert str(raised.value) == expected
    else:
        assert [each.name for each in claims_of(pod, ClaimTracker(lister))] == expected
