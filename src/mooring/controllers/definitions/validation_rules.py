"""CEL rules of the definitions: the part of Volcano's admission that the API server evaluates without a webhook.

The API server refuses a definition whose rules could cost too much for the longest lists that its schema allows.
Therefore lists that rules read have limits that no valid object reaches, and rules that compare each element with all
others are ValidatingAdmissionPolicies, whose costs are only limited when they are evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from mooring.apiserver.documents import deep_copy
from mooring.apiserver.volcano_admission.jobs import FIXED_FIELDS, MAX_PODS, POLICY_ACTIONS, POLICY_EVENTS, TWO_TIERS

#: The additions to the schemas of the fields of a definition, by path: `[]` is an element of a list.
Rules = Mapping[str, Mapping[str, Any]]

_STEP: Final = re.compile(r"[^.\[\]]+|\[\]")
#: A task needs 75 bytes or more and an object may have 1.5 MiB, so that no stored job has more tasks.
_MAX_TASKS: Final = 20_000
#: No event and no exit code may occur twice.
_MAX_POLICIES: Final = 256
_MAX_EVENTS: Final = 32


def with_rules(schema: dict[str, Any], rules: Rules) -> dict[str, Any]:
    """Return a schema with additions to the fields at some paths."""
    found: dict[str, Any] = deep_copy(schema)
    for path, more in rules.items():
        field = found
        for step in _STEP.findall(path):
            field = field["items"] if step == "[]" else field["properties"][step]
        field.update(more)
    return found


def _checks(*rules: tuple[str, str]) -> dict[str, Any]:
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in rules]}


def cel_list(values: tuple[str, ...]) -> str:
    """Return a list of strings in CEL."""
    return f"[{', '.join(repr(each) for each in values)}]"


def _is_kept(field: str) -> tuple[str, str]:
    """Return the rule that a field does not change. A client that omits a default does not change it."""
    return f"!has(self.{field}) || !has(oldSelf.{field}) || self.{field} == oldSelf.{field}", FIXED_FIELDS


_EVENTS: Final = cel_list(POLICY_EVENTS)
_TIERS: Final = _checks(
    ("!has(self.highestTierAllowed) || !has(self.highestTierName) || self.highestTierName == ''", TWO_TIERS)
)
#: The rules of one lifecycle policy, `p`. They are also used in ValidatingAdmissionPolicies.
POLICY_RULES: Final = (
    (
        "!has(p.exitCode) || (!has(p.event) && (!has(p.events) || p.events.size() == 0))",
        "must not specify event and exitCode simultaneously",
    ),
    (
        "has(p.exitCode) || has(p.event) || (has(p.events) && p.events.size() > 0)",
        "either event and exitCode should be specified",
    ),
    ("!has(p.exitCode) || p.exitCode != 0", "0 is not a valid error code"),
    (f"has(p.exitCode) || (has(p.action) && p.action in {cel_list(POLICY_ACTIONS)})", "invalid policy action"),
    (
        f"(!has(p.event) || p.event in {_EVENTS}) && (!has(p.events) || p.events.all(e, e in {_EVENTS}))",
        "invalid policy event",
    ),
)
#: The rules of a list of lifecycle policies, `policies`.
POLICIES_RULES: Final = (
    (
        (
            f"{_EVENTS}.all(e, policies.filter(p, (has(p.event) && p.event == e) || (has(p.events) && e in p.events))"
            ".size() <= 1)"
        ),
        "duplicate event across different policy",
    ),
    (
        (
            "policies.all(p, !has(p.exitCode) ||"
            " policies.filter(q, has(q.exitCode) && q.exitCode == p.exitCode).size() <= 1)"
        ),
        "duplicate exitCode",
    ),
    (
        (
            "!policies.exists(p, (has(p.event) && p.event == '*') || (has(p.events) && '*' in p.events)) ||"
            " !policies.exists(p, (has(p.event) && p.event != '*') || (has(p.events) && p.events.exists(e, e != '*')))"
        ),
        "if there's * here, no other policy should be here",
    ),
)
_REPLICAS: Final = "(has(self.tasks) ? self.tasks.map(t, has(t.replicas) ? t.replicas : 0).sum() : 0)"

JOB_RULES: Final[Rules] = {
    "": _checks(
        ("has(self.spec) && has(self.spec.tasks)", "No task specified in job spec"),
        (
            "size(self.metadata.name) <= 63",
            "create job with this name validate failed name part must be no more than 63 bytes",
        ),
        (
            # The index of a pod has one digit or more.
            (
                "!has(self.spec) || !has(self.spec.tasks) ||"
                " self.spec.tasks.all(t, !has(t.name) || size(self.metadata.name) + size(t.name) <= 60)"
            ),
            "create pod with the names of job and task validate failed name part must be no more than 63 bytes",
        ),
    ),
    "spec": _checks(
        (
            f"!has(self.minAvailable) || self.minAvailable <= {_REPLICAS}",
            "job 'minAvailable' should not be greater than total replicas in tasks",
        ),
        (f"{_REPLICAS} <= {MAX_PODS}", f"'replicas' must not be negative, nor greater than {MAX_PODS} in total"),
        (
            "(has(self.tasks) ? self.tasks.size() : 0) == (has(oldSelf.tasks) ? oldSelf.tasks.size() : 0)",
            "job updates may not add or remove tasks",
        ),
        *(_is_kept(each) for each in ("queue", "schedulerName", "maxRetry", "minSuccess", "ttlSecondsAfterFinished")),
        _is_kept("networkTopology"),
        (
            (
                "!has(self.tasks) || !has(oldSelf.tasks) || self.tasks.all(t, !has(t.name)) ||"
                " self.tasks.map(t, has(t.name) ? t.name : '') == oldSelf.tasks.map(t, has(t.name) ? t.name : '')"
            ),
            FIXED_FIELDS,
        ),
    ),
    "spec.networkTopology": _TIERS,
    "spec.policies": {
        "maxItems": _MAX_POLICIES,
        **_checks(*((rule.replace("policies.", "self."), message) for rule, message in POLICIES_RULES)),
    },
    "spec.policies[]": _checks(*((rule.replace("p.", "self."), message) for rule, message in POLICY_RULES)),
    "spec.policies[].events": {"maxItems": _MAX_EVENTS},
    "spec.volumes[]": _checks(
        (
            "has(self.volumeClaim) || (has(self.volumeClaimName) && self.volumeClaimName != '')",
            "either VolumeClaim or VolumeClaimName must be specified",
        )
    ),
    "spec.tasks": {"maxItems": _MAX_TASKS},
    "spec.tasks[]": _checks(
        (
            "!has(self.minAvailable) || self.minAvailable <= (has(self.replicas) ? self.replicas : 0)",
            "'minAvailable' is greater than 'replicas' in task",
        ),
        (
            (
                "!has(self.partitionPolicy) || (has(self.replicas) ? self.replicas : 0) =="
                " self.partitionPolicy.totalPartitions * self.partitionPolicy.partitionSize"
            ),
            "'Replicas' are not equal to TotalPartitions*PartitionSize in task",
        ),
        (
            (
                "!has(self.partitionPolicy) || !has(self.minAvailable) || self.partitionPolicy.minPartitions == 0 ||"
                " self.minAvailable == self.partitionPolicy.minPartitions * self.partitionPolicy.partitionSize"
            ),
            "'MinAvailable' is not equal to MinPartitions*PartitionSize in task",
        ),
    ),
    "spec.tasks[].partitionPolicy.networkTopology": _TIERS,
}
CRON_JOB_RULES: Final[Rules] = {
    "": _checks(
        (
            "size(self.metadata.name) <= 52",
            "cronJob name must be no more than 52 characters to accommodate job name suffix (max 63 total)",
        )
    ),
    "spec.schedule": _checks(
        ("size(self) > 0", "schedule is required, but got empty"),
        (
            "!self.contains('TZ')",
            "schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone field",
        ),
    ),
    "spec.timeZone": _checks(
        ("size(self) > 0", "timeZone must be nil or non-empty string, got empty string"),
        (
            "self.lowerAscii() != 'local'",
            "timeZone can't be Local, and must be defined in https://www.iana.org/time-zones",
        ),
    ),
}
QUEUE_RULES: Final[Rules] = {
    "": _checks(
        (
            (
                "!has(self.spec) || !has(self.spec.parent) || self.spec.parent == 'root' ||"
                " self.spec.parent != self.metadata.name"
            ),
            "cannot use itself as parent",
        )
    )
}
POD_GROUP_RULES: Final[Rules] = {"spec.networkTopology": _TIERS, "spec.subGroupPolicy[].networkTopology": _TIERS}
