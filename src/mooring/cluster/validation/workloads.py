"""What is wrong with ReplicaSets, Deployments, Jobs and the like."""

from typing import Final

from mooring.apiserver.documents import Document, look
from mooring.cluster.errors import FieldError, forbidden_field, invalid, not_supported, required
from mooring.cluster.selectors import selector_of
from mooring.cluster.validation.common import (
    at_most_all,
    choice,
    immutable,
    int_or_percent,
    is_usable,
    label_selector,
    not_negative,
    scaled,
)
from mooring.cluster.validation.pods import template_errors

_TEMPLATE: Final = "spec.template"
_UID: Final = "batch.kubernetes.io/controller-uid"
_MISMATCH: Final = "`selector` does not match template `labels`"


def _selected_template(spec: Document, *, restarts: tuple[str, ...] = ("Always",)) -> list[FieldError]:
    """A selector that takes the pods of its own template, and the template."""
    selector = spec.get("selector")
    template = spec.get("template") or {}
    labels = look(template, "metadata", "labels") or {}
    errors: list[FieldError] = []
    if selector is None:
        errors.append(required("spec.selector"))
    else:
        errors += label_selector(selector, "spec.selector")
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            errors.append(invalid("spec.selector", selector, "empty selector is invalid for deployment"))
        elif is_usable(selector) and not selector_of(selector).matches(labels):
            errors.append(invalid(f"{_TEMPLATE}.metadata.labels", dict(sorted(labels.items())), _MISMATCH))
    if selector is None and labels:
        errors.append(invalid(f"{_TEMPLATE}.metadata.labels", dict(sorted(labels.items())), _MISMATCH))
    errors += template_errors(template, _TEMPLATE)
    policy = look(template, "spec", "restartPolicy")
    if policy == "Always" and "Always" not in restarts:
        # Nobody says Always for a Job: it is what saying nothing means.
        shown = ", ".join(f'"{each}"' for each in restarts)
        errors.append(required(f"{_TEMPLATE}.spec.restartPolicy", f"valid values: {shown}"))
    elif policy and policy not in restarts:
        errors.append(not_supported(f"{_TEMPLATE}.spec.restartPolicy", policy, restarts))
    return errors


def replica_set_errors(document: Document) -> list[FieldError]:
    """All that is wrong with a ReplicaSet."""
    spec = document["spec"]
    errors = not_negative(spec.get("replicas"), "spec.replicas")
    errors += not_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    return errors + _selected_template(spec)


def deployment_errors(document: Document) -> list[FieldError]:
    """All that is wrong with a Deployment."""
    spec = document["spec"]
    errors = not_negative(spec.get("replicas"), "spec.replicas") + _selected_template(spec)
    strategy = spec.get("strategy") or {}
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind not in {"Recreate", "RollingUpdate"}:
        shown = {"Type": kind or "", "RollingUpdate": rolling}
        errors.append(not_supported("spec.strategy", shown, ("Recreate", "RollingUpdate")))
    if kind == "Recreate" and rolling is not None:
        detail = "may not be specified when strategy `type` is 'Recreate'"
        errors.append(forbidden_field("spec.strategy.rollingUpdate", detail))
    elif rolling is not None:
        errors += _rolling(rolling)
    for key in ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
        errors += not_negative(spec.get(key), f"spec.{key}")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        errors.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    return errors


def _rolling(rolling: Document) -> list[FieldError]:
    path = "spec.strategy.rollingUpdate"
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    errors = int_or_percent(unavailable, f"{path}.maxUnavailable") + int_or_percent(surge, f"{path}.maxSurge")
    if not errors and not scaled(unavailable, 100, round_up=True) and not scaled(surge, 100, round_up=True):
        errors.append(invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
    return errors + at_most_all(unavailable, f"{path}.maxUnavailable")


def selector_update_errors(new: Document, old: Document) -> list[FieldError]:
    """A workload's selector may not change."""
    return immutable(new["spec"].get("selector"), old["spec"].get("selector"), "spec.selector")


def controller_errors(document: Document) -> list[FieldError]:
    """All that is wrong with a ReplicationController."""
    spec = document["spec"]
    errors = not_negative(spec.get("replicas"), "spec.replicas")
    selector, labels = spec.get("selector") or {}, look(spec, "template", "metadata", "labels") or {}
    if not selector:
        errors.append(required("spec.selector"))
    elif any(labels.get(key) != value for key, value in selector.items()):
        errors.append(invalid(f"{_TEMPLATE}.metadata.labels", dict(sorted(labels.items())), _MISMATCH))
    return errors + template_errors(spec.get("template") or {}, _TEMPLATE)


def stateful_set_errors(document: Document) -> list[FieldError]:
    """All that is wrong with a StatefulSet."""
    spec = document["spec"]
    return not_negative(spec.get("replicas"), "spec.replicas") + _selected_template(spec)


def stateful_set_update_errors(new: Document, old: Document) -> list[FieldError]:
    """Nearly nothing of a StatefulSet may change."""
    free = ("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
            "persistentVolumeClaimRetentionPolicy", "minReadySeconds")  # fmt: skip

    def fixed(document: Document) -> Document:
        return {key: value for key, value in document["spec"].items() if key not in free}

    if fixed(new) == fixed(old):
        return []
    shown = (
        "'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit',"
        " 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds'"
    )
    return [forbidden_field("spec", f"updates to statefulset spec for fields other than {shown} are forbidden")]


def daemon_set_errors(document: Document) -> list[FieldError]:
    """All that is wrong with a DaemonSet."""
    return _selected_template(document["spec"])


def job_errors(document: Document) -> list[FieldError]:
    """All that is wrong with a Job."""
    spec = document["spec"]
    errors: list[FieldError] = []
    for key in ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"):
        errors += not_negative(spec.get(key), f"spec.{key}")
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
        errors.append(required("spec.completions", "when completion mode is Indexed"))
    if (
        spec.get("selector")
        and not spec.get("manualSelector")
        and set(spec["selector"].get("matchLabels", {})) != {_UID}
    ):
        errors.append(invalid("spec.selector", spec["selector"], "`selector` not auto-generated"))
    errors += choice(spec.get("completionMode"), "spec.completionMode", ("NonIndexed", "Indexed"))
    return errors + _selected_template(spec, restarts=("OnFailure", "Never"))


def job_update_errors(new: Document, old: Document) -> list[FieldError]:
    """What of a Job may not change."""
    fresh, before = new["spec"], old["spec"]
    errors: list[FieldError] = []
    if before.get("completionMode") != "Indexed" or fresh.get("completions") != fresh.get("parallelism"):
        errors += immutable(fresh.get("completions"), before.get("completions"), "spec.completions")
    for key in ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"):
        errors += immutable(fresh.get(key), before.get(key), f"spec.{key}")
    if not (before.get("suspend") and not look(old, "status", "startTime")):
        errors += immutable(fresh.get("template"), before.get("template"), _TEMPLATE)
    return errors


def cron_job_errors(document: Document) -> list[FieldError]:
    """All that is wrong with a CronJob."""
    spec = document["spec"]
    errors: list[FieldError] = []
    schedule = spec.get("schedule", "")
    if not schedule:
        errors.append(required("spec.schedule"))
    elif not schedule.startswith("@") and len(schedule.split()) != 5:
        found = schedule.split()
        detail = f"expected exactly 5 fields, found {len(found)}: [{' '.join(found)}]"
        errors.append(invalid("spec.schedule", schedule, detail))
    inner = look(spec, "jobTemplate", "spec", "template") or {}
    return errors + template_errors(inner, "spec.jobTemplate.spec.template")
