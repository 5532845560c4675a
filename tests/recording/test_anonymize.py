"""Anonymized recordings: no name of a tenant is left, and selectors match the same objects."""

from __future__ import annotations

import msgspec

from mooring.api.codec import decode_object, to_dict
from mooring.api.pod import Pod
from mooring.recording.anonymize import Anonymizer
from mooring.recording.records import Attempt, Kind

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "secret-name", "namespace": "secret-space", "uid": "u1", "labels": {"secret-key": "secret"}},
    "spec": {
        "containers": [{"name": "secret-c", "image": "secret-i:1", "resources": {"requests": {"cpu": "1"}}}],
        "nodeSelector": {"topology.kubernetes.io/zone": "secret-zone", "secret-key": "secret"},
        "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"secret-key": "secret"}},
            }
        ],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [{"key": "secret-size", "operator": "Gt", "values": ["5"]}],
                            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["secret-node"]}],
                        }
                    ]
                }
            }
        },
    },
    "status": {"phase": "Pending", "message": "secret words", "conditions": [{"type": "Ready", "reason": "secretive"}]},
}


def test_no_name_is_left_and_equal_names_stay_equal() -> None:
    anonymize = Anonymizer(b"key")
    document = anonymize(to_dict(decode_object(POD)))  # type: ignore[arg-type]  # a known kind
    assert "secret" not in msgspec.json.encode(document).decode()
    pod = msgspec.convert(document, Pod)
    constraint = pod.spec.topology_spread_constraints[0]
    assert constraint.label_selector is not None
    assert dict(constraint.label_selector.match_labels) == dict(pod.labels)
    assert constraint.topology_key == "topology.kubernetes.io/zone"
    assert pod.requests == {"cpu": 1000}
    assert pod.spec.tolerations[0].key == "node.kubernetes.io/not-ready"
    assert pod.spec.affinity is not None
    assert pod.spec.affinity.node_affinity is not None
    required = pod.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    assert required is not None
    term = required.node_selector_terms[0]
    assert term.match_expressions[0].values == ("5",)
    assert (term.match_fields[0].key, term.match_fields[0].values) == (
        "metadata.name",
        (anonymize.text("secret-node"),),
    )


def test_the_replacement_differs_between_recordings() -> None:
    assert Anonymizer().text("name") != Anonymizer().text("name")


def test_decisions_are_anonymized_as_objects_are() -> None:
    anonymize = Anonymizer()
    record = anonymize.record((Kind.ATTEMPT, 1.0, Attempt("u1", "space/name", "placed", "node", 1, message="secret")))
    attempt = record[2]
    assert attempt.pod == f"{anonymize.text('space')}/{anonymize.text('name')}"
    assert (attempt.node, attempt.uid, attempt.message) == (anonymize.text("node"), anonymize.text("u1"), "")
    assert anonymize.record((Kind.PREEMPTING, 1.0, "u1", None)) == (Kind.PREEMPTING, 1.0, anonymize.text("u1"), None)
