"""Whatever is thrown at the loaders, out come objects or a ManifestError, never anything else."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.codec import KINDS, ManifestError, Unknown, decode_json, decode_object, load_manifests
from mooring.api.meta import KubeObject
from mooring.api.pod import Pod
from mooring.api.quantity import QuantityError, milli_value, value
from mooring.api.yaml_nodes import ReadError
from mooring.api.yaml_reader import read_documents

KNOWN = sorted(KINDS)
FIELDS = [
    "metadata", "name", "namespace", "labels", "annotations", "ownerReferences", "creationTimestamp", "spec",
    "status", "containers", "initContainers", "resources", "requests", "limits", "overhead", "affinity",
    "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "tolerations", "nodeSelectorTerms",
    "matchExpressions", "key", "operator", "values", "topologySpreadConstraints", "maxSkew", "labelSelector",
    "matchLabels", "volumes", "persistentVolumeClaim", "priority", "nodeSelector", "conditions", "allocatable",
    "capacity", "taints", "images", "template", "items", "kind", "apiVersion",
]  # fmt: skip
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["1", "100m", "2x", "", "a"]) | st.text()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=25,
)
BITS = [
    "a", ": ", "\n", "- ", "  ", "{", "}", "[", "]", "&x ", "*x", "<<", "|", ">", "'", '"', "!!int ", "? ", "---\n",
    "#", "1", "~", "\t", "kind: Pod", "apiVersion: v1", "metadata:", "%", "@", "\\", "\u2028", "...\n", "!",
]  # fmt: skip
YAML_BITS = st.lists(st.sampled_from(BITS) | st.text(max_size=3), max_size=40).map("".join)


@st.composite
def objects(draw):
    group, kind = draw(st.sampled_from(KNOWN))
    body = draw(st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=6))
    named = {"metadata": {"name": "x"}} if draw(st.booleans()) else {}
    return body | named | {"apiVersion": f"{group}/v1" if group else "v1", "kind": kind}


def outcome(call, *wanted):
    """What the call gives, or the error it raises if that is one of the wanted."""
    try:
        return call()
    except wanted as error:
        return error


def check_load(text):
    loaded = outcome(lambda: load_manifests(text, source="fuzz"), ManifestError)
    if isinstance(loaded, ManifestError):
        assert str(loaded).startswith("fuzz")
    else:
        assert all(isinstance(each, KubeObject | Unknown) for each in loaded)


@given(st.text() | st.binary() | YAML_BITS)
@settings(deadline=None, max_examples=300)
def test_any_text(text):
    check_load(text)


@given(objects())
@settings(deadline=None, max_examples=300)
def test_any_object(raw):
    check_load(json.dumps(raw))
    decoded = outcome(lambda: decode_object(raw), ManifestError)
    if isinstance(decoded, Pod):
        # What passed the checks can be computed with.
        assert all(isinstance(amount, int) for amount in decoded.requests.values())


@given(st.binary() | VALUES.map(lambda each: json.dumps(each).encode()))
@settings(deadline=None)
def test_any_json(data):
    decoded = outcome(lambda: decode_json(data, Pod), ManifestError)
    assert isinstance(decoded, Pod) or str(decoded).startswith("JSON: ")


@given(YAML_BITS)
@settings(deadline=None, max_examples=300)
def test_any_yaml(text):
    read = outcome(lambda: list(read_documents(text)), ReadError)
    assert isinstance(read, list) or read.line is None or read.line >= 1


@given(st.text() | st.floats() | st.integers() | st.text(alphabet="0123456789.+-eEinumkKMGTP", max_size=30))
@settings(deadline=None, max_examples=300)
def test_any_quantity(text):
    amounts = outcome(lambda: (value(text), milli_value(text)), QuantityError)
    assert isinstance(amounts, QuantityError) or all(-(2**63) <= each < 2**63 for each in amounts)
