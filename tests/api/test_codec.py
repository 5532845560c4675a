"""Manifests and JSON become objects, or one clear message."""

import gzip
import json
from pathlib import Path

import pytest

from mooring.api.codec import (
    KINDS,
    ManifestError,
    Unknown,
    decode_json,
    decode_object,
    encode_json,
    load_manifests,
    to_dict,
)
from mooring.api.core import Service
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.policy import PodDisruptionBudget
from mooring.api.workloads import Deployment

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: web
  namespace: shop
spec:
  containers:
  - name: main
    image: nginx
    resources:
      requests:
        cpu: 100m
        nvidia.com/gpu: 1
"""


def load(text):
    return load_manifests(text, source="web.yaml")


def test_documents_lists_and_json():
    text = f"""\
# a comment only
---
{POD}
---
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {{name: n1}}
- apiVersion: v1
  kind: NodeList
  items:
  - metadata: {{name: n2}}
---
apiVersion: apps/v1
kind: DeploymentList
items:
- metadata: {{name: d}}
  spec: {{replicas: 3, template: {{metadata: {{creationTimestamp: null}}}}}}
"""
    loaded = load(text)
    assert [(type(each), each.name) for each in loaded] == [(Pod, "web"), (Node, "n1"), (Node, "n2"), (Deployment, "d")]
    assert loaded[0].requests == {"cpu": 100, "nvidia.com/gpu": 1}
    assert loaded[3].spec.replicas == 3
    assert load(json.dumps(to_dict(loaded[0])).encode()) == loaded[:1]
    assert load("{kind: Pod, apiVersion: v1, metadata: {name: flow}}")[0].name == "flow"


@pytest.mark.parametrize(
    "text", ["", "---\n---\n", "# nothing", "null", "\ufeff", "kind: List\napiVersion: v1\nitems:"]
)
def test_nothing_is_nothing(text):
    assert load(text) == []


def test_kinds_without_a_struct_come_as_they_are():
    text = (
        "apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: s, namespace: x}\nspec: {a: [1, null]}\n"
    )
    (unknown,) = load(text)
    assert isinstance(unknown, Unknown)
    assert (unknown.kind, unknown.api_version, unknown.name, unknown.namespace) == (
        "Service", "serving.knative.dev/v1", "s", "x",
    )  # fmt: skip
    assert unknown.raw["spec"] == {"a": [1, None]}
    assert KINDS["", "Service"] is Service


def test_old_versions_of_a_group_are_the_same_kind():
    (budget,) = load("apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: b}")
    assert (type(budget), budget.api_version) == (PodDisruptionBudget, "policy/v1beta1")


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"containers": None, "tolerations": None, "affinity": None}, {}),
        ({"nodeSelector": {"a": None}}, {"nodeSelector": {"a": ""}}),
        ({"overhead": {"cpu": None}}, {"overhead": {"cpu": "0"}}),
        ({"containers": [{"name": "c", "resources": None}]}, {"containers": [{"name": "c"}]}),
    ],
)
def test_null_counts_as_absent(spec, wanted):
    raw = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": None}, "spec": spec, "status": None}
    for pod in (decode_object(raw), decode_json(json.dumps(raw), Pod), load(json.dumps(raw))[0]):
        assert to_dict(pod).get("spec", {}) == wanted
        assert pod.labels == {}


def test_unknown_fields_are_ignored():
    assert decode_json(b'{"metadata":{"name":"p","managedFields":[{"x":1}]},"spec":{"dnsPolicy":"x"}}', Pod).name == "p"


WEB = "Pod shop/web: "
CPU = "Pod shop/web: spec.containers[0].resources.requests.cpu: "
GPU = "Pod shop/web: spec.containers[0].resources.requests[nvidia.com/gpu]: "
IMAGE = "Pod shop/web: spec.containers[0].image: "
WRITE = "write a number with an optional suffix, such as 250m"
WRITE_MORE = f"{WRITE}, 2, 1.5Gi or 4G"
TIME = "is not a timestamp such as 2026-01-31T12:00:00Z (with T and a time zone)"
UNNAMED = "Pod shop: metadata.name: is required"


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("cpu: 100m", "cpu: 1mi", 12, f"{CPU}'1mi' is not a quantity; unknown suffix 'mi'; {WRITE_MORE}"),
        ("gpu: 1", "gpu: one", 13, f"{GPU}'one' is not a quantity; {WRITE_MORE}"),
        ("cpu: 100m", "cpu: [1]", 12, f"{CPU}must be a quantity; {WRITE} or 1.5Gi"),
        ("image: nginx", "image: 1.25", 9, f"{IMAGE}must be text, not a number (1.25); put the value in quotes"),
        ("image: nginx", "image: yes", 9, f"{IMAGE}must be text, not true; put the value in quotes"),
        ("image: nginx", "image: []", 9, f"{IMAGE}must be text, not a list"),
        (
            "namespace: shop", "labels: {ok: a, bad: 8080}", 5,
            "Pod web: metadata.labels.bad: must be text, not a whole number (8080); put the value in quotes",
        ),
        ("  - name: main", "    name: main", 7, f"{WEB}spec.containers: must be a list, not a mapping"),
        ("spec:", "spec:\n  priority: high", 7,
         f"{WEB}spec.priority: must be a whole number, not text ('high')"),
        ("namespace: shop", "creationTimestamp: 2026-01-31", 5,
         f"Pod web: metadata.creationTimestamp: '2026-01-31' {TIME}"),
        ("name: web", "nmae: web", 3, f"{UNNAMED}; give the object a name"),
        ("name: web", "generateName: w-", 3, f"{UNNAMED}; generateName needs an API server; give the object a name"),
        ("kind: Pod", "kin: Pod", 1, "shop/web: kind: is required; add a line such as `kind: Pod`"),
        ("apiVersion: v1", "apiVersion: 1", 1,
         f"{WEB}apiVersion: is required; add a line such as `apiVersion: v1`"),
        ("kind: Pod", "kind: PodList\nitems: 3", 3, "PodList shop/web: items: must be a list, not a number"),
        (POD, "- a\n- b", 1, "must be a mapping, not a list; write an object with apiVersion, kind and metadata"),
    ],
)  # fmt: skip
def test_faults_say_where_and_what_to_do(old, new, line, message):
    assert old in POD
    with pytest.raises(ManifestError) as caught:
        load(POD.replace(old, new))
    assert str(caught.value) == f"web.yaml, document 1, line {line}: {message}"


def test_faults_of_syntax_say_where():
    with pytest.raises(ManifestError) as caught:
        load(POD.replace("name: web", "name: web: x"))
    assert str(caught.value) == "web.yaml, line 4: not valid YAML: mapping values are not allowed here"


def test_faults_in_later_documents_and_lists():
    text = POD + "---\napiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata: {name: 5}\n"
    with pytest.raises(ManifestError) as caught:
        load(text)
    error = caught.value
    assert (error.source, error.document, error.line, error.object_name) == ("web.yaml", 2, 20, "Node")
    assert (error.path, error.problem) == ("metadata.name", "must be text, not a whole number (5)")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xff\xfe", "not UTF-8 text"),
        ("\ud800", "not UTF-8 text"),
        ('{"a":' * 5000, "nested more than 200 levels deep"),
        (
            '{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"},"y":' + '{"a":' * 900 + "1" + "}" * 901,
            "nested too deeply",
        ),
        ('{"kind": "Pod",', "not valid YAML"),
    ],
)
def test_hopeless_files(data, message):
    with pytest.raises(ManifestError, match=message):
        load(data)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"\xff", b"[]", b'{"spec":3}', b'{"spec":{"containers":[3]}}', b'{"a":' * 9000]
)
def test_bad_json_is_one_message(data):
    with pytest.raises(ManifestError, match=r"^JSON: "):
        decode_json(data, Pod)


def test_checks_can_be_left_out():
    raw = {"apiVersion": "v1", "kind": "Pod", "spec": {"overhead": {"cpu": "x"}}}
    assert isinstance(decode_object(raw, check=False), Pod)
    with pytest.raises(ManifestError, match=r"^case 7: Pod: metadata\.name: is required"):
        decode_object(raw, source="case 7")


def test_labels_that_look_like_quantities_are_not_checked():
    raw = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"capacity": "lots", "startTime": "x"}},
    }
    assert decode_object(raw).labels["capacity"] == "lots"


def lost(given, kept, path=""):
    """The fields of `given` that are not in `kept` although they say something."""
    if isinstance(given, dict):
        return [
            field
            for key, value in given.items()
            for field in (
                [f"{path}.{key}"] if key not in kept and value else lost(value, kept.get(key), f"{path}.{key}")
            )
        ]
    if isinstance(given, list) and kept is not None:
        assert len(given) == len(kept)
        return [field for one, other in zip(given, kept, strict=True) for field in lost(one, other, f"{path}[]")]
    assert given == kept or (not given and kept is None), path
    return []


def test_golden_objects_keep_all_that_a_scheduler_reads():
    folder = Path(__file__).parents[1] / "golden" / "kube-scheduler-1.36-features"
    with gzip.open(folder / "cases.jsonl.gz", "rt") as lines:
        objects = [each for line in lines for case in [json.loads(line)] for each in [*case["objects"], case["pod"]]]
    missing = set()
    for raw in objects:
        decoded = decode_object(raw)
        assert not isinstance(decoded, Unknown)
        missing.update(lost(raw, json.loads(encode_json(decoded)), raw["kind"]))
    assert missing <= {"Service.spec.ports"}
