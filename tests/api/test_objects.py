"""Structs: names on the wire, shortcuts, defaults, times."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api import Event, Lease, LeaseSpec, Node, Pod, PodSpec, format_time, parse_time
from mooring.api.codec import KINDS, decode_json, encode_json, to_dict
from mooring.api.meta import kubernetes_name


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("name", "name"),
        ("node_name", "nodeName"),
        ("host_ip", "hostIP"),
        ("pod_ip", "podIP"),
        ("volume_id", "volumeID"),
        ("disk_uri", "diskURI"),
        ("host_pid", "hostPID"),
        ("host_ipc", "hostIPC"),
        ("cluster_ip", "clusterIP"),
        ("api_version", "apiVersion"),
        ("uid", "uid"),
        ("image_id", "imageID"),
        ("pd_name", "pdName"),
        ("required_during_scheduling_ignored_during_execution", "requiredDuringSchedulingIgnoredDuringExecution"),
    ],
)
def test_field_names(field, name):
    assert kubernetes_name(field) == name


def test_objects_cannot_be_changed():
    pod = Pod(spec=PodSpec(node_name="n"))
    with pytest.raises(AttributeError):
        pod.spec = PodSpec()
    with pytest.raises(AttributeError):
        pod.spec.node_name = "m"


def test_what_was_computed_can_be_kept_on_a_pod():
    pod = Pod()
    pod.__dict__["plan"] = 1
    assert (pod.__dict__["plan"], encode_json(pod)) == (1, b'{"apiVersion":"v1","kind":"Pod"}')


def test_every_kind_says_what_it_is_when_written():
    for (group, kind), cls in KINDS.items():
        written = to_dict(cls())
        assert (written["apiVersion"].rpartition("/")[0], written["kind"]) == (group, kind)
        assert decode_json(encode_json(cls()), cls) == cls()


@pytest.mark.parametrize(
    ("given_spec", "wanted"),
    [
        ({}, ("default-scheduler", 0, True, "")),
        (
            {"schedulerName": "mine", "priority": -5, "preemptionPolicy": "Never", "nodeName": "n"},
            ("mine", -5, False, "n"),
        ),
        ({"preemptionPolicy": "PreemptLowerPriority", "priority": 0}, ("default-scheduler", 0, True, "")),
    ],
)
def test_defaults_come_from_accessors_and_are_never_written(given_spec, wanted):
    pod = msgspec.convert({"spec": given_spec}, Pod)
    assert (pod.scheduler_name, pod.priority, pod.may_preempt, pod.node_name) == wanted
    assert to_dict(pod).get("spec", {}) == given_spec


def test_shortcuts():
    pod = decode_json(
        b'{"metadata":{"name":"p","namespace":"ns","uid":"u","labels":{"a":"1"},"annotations":{"b":"2"},'
        b'"deletionTimestamp":"2026-01-01T00:00:00Z"},"status":{"phase":"Failed","conditions":[{"type":"Ready"}]}}',
        Pod,
    )
    assert (pod.name, pod.namespace, pod.key, pod.uid) == ("p", "ns", "ns/p", "u")
    assert (pod.labels, pod.annotations) == ({"a": "1"}, {"b": "2"})
    assert (pod.is_terminating, pod.is_finished) == (True, True)
    assert pod.condition("Ready") is not None
    assert pod.condition("Other") is None
    assert Pod().namespace == "default"
    assert Node().namespace == ""


def test_node_shortcuts():
    node = decode_json(
        b'{"spec":{"unschedulable":true,"taints":[{"key":"k"}]},"status":{"conditions":[{"type":"Ready"}]}}', Node
    )
    assert (node.unschedulable, node.taints[0].key, node.is_ready) == (True, "k", False)


def test_absent_is_not_empty_where_it_matters():
    specs = [msgspec.convert(each, PodSpec).node_selector for each in ({}, {"nodeSelector": {}})]
    assert specs == [None, {}]


def test_leases_and_events_write_what_kubernetes_reads():
    lease = Lease(spec=LeaseSpec(holder_identity="me", lease_duration_seconds=15, lease_transitions=0))
    wanted = {"holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": 0}
    assert json.loads(encode_json(lease))["spec"] == wanted
    assert to_dict(Event(event_time=format_time(0, micros=True)))["eventTime"] == "1970-01-01T00:00:00.000000Z"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.250000Z", 0.25),
        ("1970-01-01T01:00:00+01:00", 0),
        ("2026-01-31T12:00:00.123456789Z", 1769860800.123456),
    ],
)
def test_times(text, seconds):
    assert parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "yesterday", "2026-01-31", "2026-01-31T12:00:00", "2026-13-31T12:00:00Z"])
def test_bad_times(text):
    with pytest.raises(ValueError, match="is not a timestamp such as"):
        parse_time(text)


@given(st.integers(0, 4 * 10**9))
@settings(deadline=None)
def test_times_read_back(seconds):
    assert parse_time(format_time(seconds)) == parse_time(format_time(seconds, micros=True)) == seconds
