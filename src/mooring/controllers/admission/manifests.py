"""The webhook configurations and the ValidatingAdmissionPolicies of admission."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mooring.api.volcano import QUEUE_GATE, SCHEDULING_GROUP
from mooring.api.volcano_jobs import FLOW_GROUP, JOB_GROUP
from mooring.apiserver.volcano_admission.queues import HIERARCHY, HIERARCHY_WEIGHTS
from mooring.apiserver.volcano_admission.review import (
    CREATE,
    DELETE,
    EXEMPT_NAMESPACES,
    HOOKS,
    UPDATE,
    Hook,
    hook_name,
)
from mooring.controllers.definitions.validation_rules import POLICIES_RULES, POLICY_RULES
from mooring.framework.plugin import Rule

_GROUP: Final = "admissionregistration.k8s.io"
#: The paths that are served by default, as in Volcano's chart. The rules of pods are policies: a webhook for all pods
#: would stop every pod while no controller is running.
DEFAULT_PATHS: Final = tuple(each.path for each in HOOKS if each.resource != "pods")
_TIMEOUT_SECONDS: Final = 10
#: The default names of the webhook configurations and of the Service.
WEBHOOK_CONFIGURATION: Final = "mooring-admission"
WEBHOOK_SERVICE: Final = "mooring-controller"
#: The match condition of a webhook that only adds the scheduling gate of queue admission.
QUEUE_GATE_CONDITION: Final = {
    "name": "queue-gate",
    "expression": f"object.metadata.?annotations[?'{QUEUE_GATE}'].orValue('') == 'true'",
}
_BUDGETS: Final = ("volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable")


def webhooks(hooks: Iterable[Hook]) -> list[dict[str, Any]]:
    """Return the webhooks of a configuration, except their client configurations."""
    return [_webhook(hook) for hook in hooks]


def _webhook(hook: Hook) -> dict[str, Any]:
    rule = {
        "apiGroups": [hook.group],
        "apiVersions": [hook.version],
        "operations": list(hook.operations),
        "resources": [hook.resource],
        "scope": "*",
    }
    found = {
        "name": hook_name(hook),
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": _TIMEOUT_SECONDS,
        "namespaceSelector": {"matchExpressions": [exempt(*EXEMPT_NAMESPACES)]},
        "rules": [rule],
    }
    return {**found, "reinvocationPolicy": "Never"} if hook.mutates else found


def exempt(*namespaces: str) -> dict[str, Any]:
    """Return the expression of a namespace selector that leaves out namespaces."""
    return {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(namespaces)}


def configurations(name: str, client: dict[str, Any], paths: Iterable[str] = DEFAULT_PATHS) -> list[dict[str, Any]]:
    """Return the mutating and the validating configuration.

    ``client`` is a client configuration: {service: {namespace, name, port}}, or {url} without the path.
    """
    wanted, found = set(paths), []
    for mutates, kind in ((True, "Mutating"), (False, "Validating")):
        hooks = [each for each in HOOKS if each.path in wanted and each.mutates == mutates]
        made = [
            {**each, "clientConfig": _client(client, hook.path)}
            for each, hook in zip(webhooks(hooks), hooks, strict=True)
        ]
        metadata = {"name": name}
        document = {"apiVersion": f"{_GROUP}/v1", "kind": f"{kind}WebhookConfiguration", "metadata": metadata}
        found += [{**document, "webhooks": made}] if made else []
    return found


def _client(client: dict[str, Any], path: str) -> dict[str, Any]:
    if "url" in client:
        return {"url": f"{client['url']}{path}"}
    return {"service": {**client["service"], "path": path}}


def cluster_rules(configuration: str) -> list[Rule]:
    """Return the permissions to write the CA to the configurations."""
    kinds = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
    return [Rule((_GROUP,), kinds, ("get", "patch"), (configuration,))]


def secret_rules(name: str) -> list[Rule]:
    """Return the permissions for the Secret with the certificate, in its namespace."""
    # RBAC cannot restrict create by name.
    return [Rule(("",), ("secrets",), ("create",)), Rule(("",), ("secrets",), ("get", "update"), (name,))]


# Policies: rules that hold without a running controller, in the API server itself. They are those that the rules of
# the definitions cannot express, or that would cost too much there.


def policies(name: str, scheduler_names: Iterable[str] = ("volcano",)) -> list[dict[str, Any]]:
    """Return ValidatingAdmissionPolicies and their bindings: for jobs, flows, queues and pods."""
    names = ", ".join(f"'{each}'" for each in scheduler_names)
    changes = (CREATE, UPDATE)
    made = (
        _policy(f"{name}-jobs", JOB_GROUP, "v1alpha1", "jobs", (CREATE,), _JOB_RULES, variables=_JOB_VARIABLES),
        _policy(
            f"{name}-jobflows", FLOW_GROUP, "v1alpha1", "jobflows", changes, _FLOW_RULES, variables=_FLOW_VARIABLES
        ),
        _policy(f"{name}-queues", SCHEDULING_GROUP, "v1beta1", "queues", (DELETE,), _QUEUE_RULES),
        _policy(
            f"{name}-queue-amounts", SCHEDULING_GROUP, "v1beta1", "queues", changes, _AMOUNT_RULES,
            variables=_AMOUNT_VARIABLES,
        ),
        _policy(
            f"{name}-pods", "", "v1", "pods", (CREATE,), _POD_RULES,
            condition=f"has(object.spec.schedulerName) && object.spec.schedulerName in [{names}]",
        ),
    )  # fmt: skip
    return [each for policy in made for each in (policy, _binding(policy["metadata"]["name"]))]


#: Longer lists are compared by the webhook only: the API server refuses an object whose rules cost too much.
_MAX_COMPARED: Final = 300
_QUEUE_RULES: Final = tuple(
    (f"request.name != '{each}'", f"`{each}` queue can not be deleted") for each in ("root", "default")
)
_JOB_VARIABLES: Final = {
    "tasks": "object.spec.?tasks.orValue([])",
    "names": "variables.tasks.map(t, t.?name.orValue(''))",
    "volumes": "object.spec.?volumes.orValue([])",
    "paths": "variables.volumes.map(v, v.mountPath)",
}
_TASK_POLICIES: Final = "t.?policies.orValue([])"


def _are_unique(names: str) -> str:
    names = f"variables.{names}"
    return f"{names}.size() > {_MAX_COMPARED} || {names}.all(n, n == '' || {names}.filter(m, m == n).size() == 1)"


_JOB_RULES: Final = (
    (_are_unique("names"), "duplicated task name"),
    *(
        (f"variables.tasks.all(t, {_TASK_POLICIES}.all(p, {rule}))", f"{message} (spec.tasks.policies)")
        for rule, message in POLICY_RULES
    ),
    *(
        (
            f"variables.tasks.all(t, {rule.replace('policies.', f'{_TASK_POLICIES}.')})",
            f"{message} (spec.tasks.policies)",
        )
        for rule, message in POLICIES_RULES
    ),
    (_are_unique("paths"), "duplicated mountPath"),
    (
        "variables.volumes.all(v, !has(v.volumeClaim) || v.?volumeClaimName.orValue('') == '')",
        (
            "conflict: If you want to use an existing PVC, just specify VolumeClaimName."
            "If you want to create a new PVC, you do not need to specify VolumeClaimName"
        ),
    ),
    (
        (
            f"variables.names.size() > {_MAX_COMPARED} || '' in variables.names ||"
            " variables.tasks.all(t, t.?dependsOn.name.orValue([]).all(n, n in variables.names))"
        ),
        "a task depends on another, which is not a task of the job",
    ),
)
_FLOW_VARIABLES: Final = {
    "flows": "object.spec.?flows.orValue([])",
    "names": "variables.flows.map(f, f.name)",
}
_FLOW_RULES: Final = (
    (
        (
            f"variables.names.size() > {_MAX_COMPARED} ||"
            " variables.flows.all(f, f.?dependsOn.targets.orValue([]).all(n, n in variables.names))"
        ),
        "jobflow Flow is not DAG: vertex is not defined",
    ),
    (
        "variables.flows.all(f, !(f.name in f.?dependsOn.targets.orValue([])))",
        "jobflow Flow is not DAG",
    ),
)
_AMOUNT_VARIABLES: Final = {
    "capability": "object.?spec.capability.orValue({})",
    "deserved": "object.?spec.deserved.orValue({})",
    "guarantee": "object.?spec.guarantee.resource.orValue({})",
    "path": f"object.metadata.?annotations[?'{HIERARCHY}'].orValue('')",
    "weights": f"object.metadata.?annotations[?'{HIERARCHY_WEIGHTS}'].orValue('')",
}


def _quantity(field: str) -> str:
    return f"quantity(string(variables.{field}[r]))"


_AMOUNT_RULES: Final = (
    *(
        (
            f"variables.{field}.all(r, {_quantity(field)}.compareTo(quantity('0')) >= 0)",
            f"{field} must be greater than or equal to 0",
        )
        for field in ("capability", "deserved", "guarantee")
    ),
    (
        (
            "variables.guarantee.all(r, r in variables.deserved &&"
            f" {_quantity('deserved')}.compareTo({_quantity('guarantee')}) >= 0)"
        ),
        "deserved must be >= guarantee",
    ),
    (
        (
            "variables.deserved.all(r, !(r in variables.capability) ||"
            f" {_quantity('deserved')}.compareTo({_quantity('capability')}) <= 0)"
        ),
        "deserved must be <= capability",
    ),
    (
        "variables.path.split('/').size() == variables.weights.split('/').size()",
        f"{HIERARCHY} must have the same length with {HIERARCHY_WEIGHTS}",
    ),
    (
        (
            "(variables.path == '' && variables.weights == '') ||"
            " (variables.weights != '' && variables.weights.split('/').all(w, double(w) > 0.0))"
        ),
        f"{HIERARCHY_WEIGHTS} must be larger than 0",
    ),
)
_ANNOTATIONS: Final = "object.metadata.?annotations.orValue({})"
_POD_RULES: Final = (
    *(
        (
            f"!('{key}' in {_ANNOTATIONS}) || {_ANNOTATIONS}['{key}'].matches('^([+]?0*[1-9][0-9]*|0*[1-9][0-9]?%)$')",
            f"{key} must be a positive integer or a valid percentage which between 1% ~ 99%",
        )
        for key in _BUDGETS
    ),
    (
        " || ".join(f"!('{key}' in {_ANNOTATIONS})" for key in _BUDGETS),
        "not allow configure multiple annotations at same time",
    ),
)


def _policy(
    name: str,
    group: str,
    version: str,
    resource: str,
    operations: Iterable[str],
    rules: Iterable[tuple[str, str]],
    *,
    condition: str = "",
    variables: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    matched = {"apiGroups": [group], "apiVersions": [version], "operations": list(operations), "resources": [resource]}
    spec: dict[str, Any] = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "namespaceSelector": {"matchExpressions": [exempt(*EXEMPT_NAMESPACES)]},
            "resourceRules": [matched],
        },
        "validations": [{"expression": expression, "message": message} for expression, message in rules],
    }
    if variables:
        spec["variables"] = [{"name": name, "expression": expression} for name, expression in variables.items()]
    if condition:
        spec["matchConditions"] = [{"name": "scheduler", "expression": condition}]
    kind = "ValidatingAdmissionPolicy"
    return {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _binding(name: str) -> dict[str, Any]:
    kind, spec = "ValidatingAdmissionPolicyBinding", {"policyName": name, "validationActions": ["Deny"]}
    return {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
