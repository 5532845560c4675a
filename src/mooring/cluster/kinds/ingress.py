"""Ingresses, IngressClasses and NetworkPolicies."""

from typing import Any, Final

from mooring.apiserver.documents import Document, nested_field
from mooring.cluster.api_resource import Resource
from mooring.cluster.kind import Kind, no_controller_warning
from mooring.cluster.table_printer import NONE, age, columns, selector_text


def _set_ingress_defaults(document: Document) -> None:
    document["status"].setdefault("loadBalancer", {})


def _ingress_row(document: Document, now: float) -> list[Any]:
    spec = document["spec"]
    hosts = [each["host"] for each in spec.get("rules", ()) if each.get("host")]
    shown = ",".join(hosts[:3]) + (f" + {len(hosts) - 3} more..." if len(hosts) > 3 else "")
    addresses = nested_field(document, "status", "loadBalancer", "ingress") or ()
    return [
        document["metadata"]["name"],
        spec.get("ingressClassName", NONE),
        shown or "*",
        ",".join(each.get("ip") or each.get("hostname", "") for each in addresses),
        "80, 443" if spec.get("tls") else "80",
        age(document, now),
    ]


def _ingress_class_row(document: Document, now: float) -> list[Any]:
    parameters = nested_field(document, "spec", "parameters")
    shown = (
        f"{parameters.get('kind', '')}.{parameters.get('apiGroup', '')}/{parameters.get('name', '')}"
        if parameters
        else NONE
    )
    return [document["metadata"]["name"], nested_field(document, "spec", "controller") or "", shown, age(document, now)]


def _set_network_policy_defaults(document: Document) -> None:
    spec = document["spec"]
    spec.setdefault("podSelector", {})
    spec.setdefault("policyTypes", ["Ingress", "Egress"] if "egress" in spec else ["Ingress"])
    for rule in (*spec.get("ingress", ()), *spec.get("egress", ())):
        for port in rule.get("ports", ()):
            port.setdefault("protocol", "TCP")


def _network_policy_row(document: Document, now: float) -> list[Any]:
    return [document["metadata"]["name"], selector_text(document["spec"].get("podSelector")), age(document, now)]


INGRESS: Final = Kind(
    Resource("networking.k8s.io", "v1", "ingresses", "Ingress", short_names=("ing",), subresources=("status",)),
    set_defaults=_set_ingress_defaults,
    warnings=no_controller_warning("Ingresses"),
    columns=columns("Name Class Hosts Address Ports Age", _ingress_row),
    counts_generation=True,
)
INGRESS_CLASS: Final = Kind(
    Resource("networking.k8s.io", "v1", "ingressclasses", "IngressClass", namespaced=False),
    columns=columns("Name Controller Parameters Age", _ingress_class_row),
    counts_generation=True,
)
NETWORK_POLICY: Final = Kind(
    Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", short_names=("netpol",)),
    set_defaults=_set_network_policy_defaults,
    warnings=no_controller_warning("NetworkPolicies"),
    columns=columns("Name Pod-Selector Age", _network_policy_row),
    counts_generation=True,
)
