"""Objects of dynamic resource allocation keep what is written back."""

from __future__ import annotations

from mooring.api.codec import decode_object, to_dict
from mooring.api.devices import ResourceClaim


def test_a_claim_survives_a_round_trip() -> None:
    given = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "n"},
        "spec": {"devices": {"config": [{"opaque": {"driver": "d", "parameters": {"a": [1, {"b": None}]}}}]}},
        "status": {
            "allocation": {
                "devices": {"results": [{"request": "r", "shareID": "s", "consumedCapacity": {"m": "1Gi"}}]}
            },
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
            "devices": [{"driver": "d", "data": {"x": 1}, "networkData": {"ips": ["10.0.0.1"]}}],
        },
    }
    decoded = decode_object(given)
    assert isinstance(decoded, ResourceClaim)
    assert to_dict(decoded) == given
    assert decoded.is_reserved_for("u")
    assert not decoded.is_reserved_for("other")
