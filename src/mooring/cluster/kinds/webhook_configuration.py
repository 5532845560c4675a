"""Webhook configurations and admission policies. They are stored, and nothing is called or evaluated."""

from typing import Any, Final

from mooring.apiserver.documents import Document, nested_field
from mooring.cluster.api_resource import Resource
from mooring.cluster.kind import ALL_METADATA, Kind, stored_only_warning
from mooring.cluster.table_printer import UNSET, age, columns

_GROUP: Final = "admissionregistration.k8s.io"
_NO_WEBHOOKS: Final = "calls no webhooks"
_NO_POLICIES: Final = "does not evaluate admission policies"


def _set_webhook_defaults(document: Document) -> None:
    for webhook in document.get("webhooks", ()):
        webhook.setdefault("failurePolicy", "Fail")
        webhook.setdefault("matchPolicy", "Equivalent")
        webhook.setdefault("namespaceSelector", {})
        webhook.setdefault("objectSelector", {})
        webhook.setdefault("timeoutSeconds", 10)
        if document["kind"] == "MutatingWebhookConfiguration":
            webhook.setdefault("reinvocationPolicy", "Never")
        for rule in webhook.get("rules", ()):
            rule.setdefault("scope", "*")
        service = nested_field(webhook, "clientConfig", "service")
        if service is not None:
            service.setdefault("port", 443)


def _webhook_row(document: Document, now: float) -> list[Any]:
    return [document["metadata"]["name"], len(document.get("webhooks", ())), age(document, now)]


def _set_policy_defaults(document: Document) -> None:
    spec = document["spec"]
    spec.setdefault("failurePolicy", "Fail")
    constraints = spec.get("matchConstraints")
    if constraints is not None:
        constraints.setdefault("matchPolicy", "Equivalent")
        constraints.setdefault("namespaceSelector", {})
        constraints.setdefault("objectSelector", {})
        for rule in constraints.get("resourceRules", ()):
            rule.setdefault("scope", "*")


def _param_kind(document: Document) -> str:
    kind = nested_field(document, "spec", "paramKind")
    return f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else UNSET


def _policy_row(document: Document, now: float) -> list[Any]:
    count = len(nested_field(document, "spec", "validations") or ())
    return [document["metadata"]["name"], count, _param_kind(document), age(document, now)]


def _policy_binding_row(document: Document, now: float) -> list[Any]:
    reference = nested_field(document, "spec", "paramRef") or {}
    place = [reference[key] for key in ("namespace", "name") if reference.get(key)]
    policy = nested_field(document, "spec", "policyName") or ""
    return [document["metadata"]["name"], policy, "/".join(place) or UNSET, age(document, now)]


def _webhooks(plural: str, kind: str) -> Kind:
    return Kind(
        Resource(_GROUP, "v1", plural, kind, namespaced=False, categories=("api-extensions",)),
        set_defaults=_set_webhook_defaults,
        warnings=stored_only_warning(_NO_WEBHOOKS),
        columns=columns("Name Webhooks:integer Age", _webhook_row),
        counts_generation=True,
    )


MUTATING_WEBHOOK_CONFIGURATION: Final = _webhooks("mutatingwebhookconfigurations", "MutatingWebhookConfiguration")
VALIDATING_WEBHOOK_CONFIGURATION: Final = _webhooks("validatingwebhookconfigurations", "ValidatingWebhookConfiguration")
VALIDATING_ADMISSION_POLICY: Final = Kind(
    Resource(
        _GROUP,
        "v1",
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        namespaced=False,
        categories=("api-extensions",),
        subresources=("status",),
    ),
    set_defaults=_set_policy_defaults,
    status_protects=ALL_METADATA,
    warnings=stored_only_warning(_NO_POLICIES),
    columns=columns("Name Validations:integer ParamKind Age", _policy_row),
    counts_generation=True,
)
VALIDATING_ADMISSION_POLICY_BINDING: Final = Kind(
    Resource(
        _GROUP,
        "v1",
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
        namespaced=False,
        categories=("api-extensions",),
    ),
    warnings=stored_only_warning(_NO_POLICIES),
    columns=columns("Name PolicyName ParamRef Age", _policy_binding_row),
    counts_generation=True,
)
