"""Claims from templates, and the defaults of claims."""

from __future__ import annotations

from typing import Any

from mooring.apiserver.resource_claims import POD_CLAIM_NAME, claims_from_templates, set_claim_defaults

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "team", "uid": "u"},
    "spec": {
        "resourceClaims": [
            {"name": "a", "resourceClaimTemplateName": "t"},
            {"name": "b", "resourceClaimName": "given"},
            {"name": "c", "resourceClaimTemplateName": "missing"},
            {"name": "d", "resourceClaimTemplateName": "t"},
        ]
    },
    "status": {"resourceClaimStatuses": [{"name": "d", "resourceClaimName": "exists"}]},
}
TEMPLATE = {"spec": {"metadata": {"labels": {"x": "y"}}, "spec": {"devices": {"requests": [{"name": "r"}]}}}}


def test_claims_from_templates() -> None:
    found = dict(claims_from_templates(POD, {"t": TEMPLATE}.get))
    assert found.keys() == {"a", "c"}
    assert found["c"] is None
    made = found["a"]
    assert made is not None
    assert made["spec"] == TEMPLATE["spec"]["spec"]
    metadata = made["metadata"]
    assert (metadata["generateName"], metadata["namespace"]) == ("p-a-", "team")
    assert (metadata["labels"], metadata["annotations"]) == ({"x": "y"}, {POD_CLAIM_NAME: "a"})
    assert metadata["ownerReferences"][0]["uid"] == "u"


def test_defaults() -> None:
    requests: list[dict[str, Any]] = [
        {"name": "r", "exactly": {"deviceClassName": "gpu"}},
        {"name": "l", "firstAvailable": [{"name": "s"}, {"name": "all", "allocationMode": "All"}]},
    ]
    set_claim_defaults({"devices": {"requests": requests}})
    assert requests[0]["exactly"] == {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    assert [each.get("count") for each in requests[1]["firstAvailable"]] == [1, None]
