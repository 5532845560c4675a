"""What KWOK plays for nodes and pods: the least that makes them look alive to the rest of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

_READY: Final = '.status.conditions.[] | select(.type == "Ready") | .status'
_NODE_STATUS: Final = """
{{ $now := Now }}
phase: Running
conditions:
- type: Ready
  status: "True"
  reason: Played
  lastHeartbeatTime: {{ $now | Quote }}
  lastTransitionTime: {{ $now | Quote }}
"""
_POD_STATUS: Final = """
{{ $now := Now }}
phase: Running
startTime: {{ $now | Quote }}
hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
{{ $me := .metadata }}
podIP: {{ PodIPWith .spec.nodeName (or .spec.hostNetwork false) $me.uid $me.name $me.namespace | Quote }}
conditions:
{{ range $type := (list "Initialized" "ContainersReady" "Ready") }}
- {type: {{ $type | Quote }}, status: "True", lastTransitionTime: {{ $now | Quote }}}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  started: true
  restartCount: 0
  state: {running: {startedAt: {{ $now | Quote }}}}
{{ end }}
"""
_DONE_STATUS: Final = """
{{ $now := Now }}
phase: Succeeded
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: false
  started: false
  restartCount: 0
  state: {terminated: {exitCode: 0, reason: Completed, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }}}}
{{ end }}
"""


def write_stages(path: Path) -> Path:
    """Write KWOK's configuration."""
    alive = (".metadata.deletionTimestamp", "DoesNotExist")
    documents = [
        _stage("node-ready", "Node", [(_READY, "NotIn", "True")], {"statusTemplate": _NODE_STATUS}),
        _stage("pod-running", "Pod", [alive, (".status.phase", "In", "Pending")], {"statusTemplate": _POD_STATUS}),
        _stage(
            "pod-of-job-done",
            "Pod",
            [alive, (".status.phase", "In", "Running"), (".metadata.ownerReferences.[].kind", "In", "Job")],
            {"statusTemplate": _DONE_STATUS},
        ),
        _stage("pod-gone", "Pod", [(".metadata.deletionTimestamp", "Exists")], {"delete": True}),
    ]
    path.write_text(yaml.safe_dump_all(documents, sort_keys=False))
    return path


def _stage(name: str, kind: str, conditions: list[tuple[str, ...]], following: dict[str, Any]) -> dict[str, Any]:
    expressions: list[dict[str, Any]] = []
    for key, operator, *values in conditions:
        expressions.append({"key": key, "operator": operator, **({"values": values} if values else {})})
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": expressions},
            "next": following,
        },
    }
