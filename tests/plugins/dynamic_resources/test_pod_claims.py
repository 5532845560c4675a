"""The claims of a pod: by name, from templates, and what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.api.codec import fit
from mooring.api.devices import ResourceClaim, ResourceClaimConsumerReference
from mooring.api.pod import Pod, PodResourceClaimStatus
from mooring.api.scheduling import NativePodGroup
from mooring.framework import Lister
from mooring.plugins.dynamic_resources.claim_tracker import ClaimTracker
from mooring.plugins.dynamic_resources.pod_claims import (
    ClaimsNotReadyError,
    claims_of,
    group_claim_name,
    group_name,
    owns,
    users_of,
)
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


RECORDED = Path(__file__).parents[2] / "golden" / "dra-1.37-groups"


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (RECORDED / name).read_text().splitlines()]


def text_of(call: Any) -> Any:
    try:
        return call()
    except ClaimsNotReadyError as error:
        return str(error)


@pytest.mark.parametrize(
    ("case", "expected"), list(zip(rows("cases.jsonl"), rows("expected.jsonl"), strict=True)), ids=lambda row: row["id"]
)
def test_claims_of_groups_are_as_upstream(case: dict[str, Any], expected: dict[str, Any]) -> None:
    pod, made = fit(case["pod"], Pod), fit(case["claim"], ResourceClaim)
    group = fit(case["group"], NativePodGroup) if case["group"] else None
    assert made.is_reserved_for(pod.uid, group_name(pod)) == expected["reserved"]
    # The claim of a template that the pod names must belong to the pod or its group.
    owned = fit(case["pod"] | {"spec": case["pod"]["spec"] | {"resourceClaims": [TEMPLATE_ENTRY]}}, Pod)
    status = msgspec.structs.replace(
        owned.status, resource_claim_statuses=(PodResourceClaimStatus(name="x", resource_claim_name="made"),)
    )
    owned = msgspec.structs.replace(owned, status=status)
    lister: Lister[ResourceClaim] = Lister(ResourceClaim)
    lister.put(made)
    found = text_of(lambda: claims_of(owned, ClaimTracker(lister), of_groups=True))
    assert found == (expected["isForPod"] or [made])
    for entry, user in zip(pod.spec.resource_claims, expected["users"], strict=True):
        if entry.resource_claim_name is None and entry.resource_claim_template_name is None:
            continue  # there is no claim
        alone = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, resource_claims=(entry,)))
        ours = text_of(lambda alone=alone: users_of(alone, group))
        assert ours == (user if isinstance(user, str) else (fit(user, ResourceClaimConsumerReference),))
    if group is not None:
        assert owns(group, made) == expected["owned"]
        for each, name in zip(group.spec.resource_claims, expected["names"], strict=True):
            ours = text_of(lambda each=each: group_claim_name(group, each))
            assert ours == (name["error"] if isinstance(name, dict) else name)


TEMPLATE_ENTRY = {"name": "x", "resourceClaimTemplateName": "t"}
