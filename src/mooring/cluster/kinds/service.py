"""Services, Endpoints and EndpointSlices."""

from typing import Any, Final

from mooring.apiserver.documents import Document, nested_field
from mooring.apiserver.field_errors import FieldError, duplicate, invalid, required
from mooring.apiserver.field_rules import choice, port_number
from mooring.apiserver.object_names import dns_label
from mooring.cluster.api_resource import Resource
from mooring.cluster.kind import Kind
from mooring.cluster.selectors import field_reader
from mooring.cluster.store import Store
from mooring.cluster.table_printer import NONE, UNKNOWN, UNSET, age, columns, labels_text


def _set_service_defaults(document: Document) -> None:
    spec = document["spec"]
    if spec.setdefault("sessionAffinity", "None") == "ClientIP":
        spec.setdefault("sessionAffinityConfig", {"clientIP": {"timeoutSeconds": 10800}})
    else:
        spec.pop("sessionAffinityConfig", None)
    kind = spec.setdefault("type", "ClusterIP")
    for port in spec.get("ports", ()):
        port.setdefault("protocol", "TCP")
        if not port.get("targetPort"):
            port["targetPort"] = port.get("port")
    if kind in {"NodePort", "LoadBalancer"}:
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def _prepare(document: Document, store: Store, _now: float) -> None:
    document["status"] = {"loadBalancer": {}}
    spec = document["spec"]
    if spec.get("type") == "ExternalName":
        return
    if not spec.get("clusterIP"):
        spec["clusterIP"] = _free_cluster_ip(store)
    spec["clusterIPs"] = spec.get("clusterIPs") or [spec["clusterIP"]]
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    if spec.get("type") in {"NodePort", "LoadBalancer"}:
        _assign_node_ports(spec, store)


def _free_cluster_ip(store: Store) -> str:
    """Return an unused address of 10.96.0.0/16."""
    taken = {
        nested_field
        for each in store.objects("services")
        for nested_field in each.document["spec"].get("clusterIPs", ())
    }
    number = 10
    while (address := f"10.96.{number >> 8}.{number & 255}") in taken:
        number += 1
    return address


def _assign_node_ports(spec: Document, store: Store) -> None:
    taken: set[Any] = {
        port.get("nodePort") for each in store.objects("services") for port in each.document["spec"].get("ports", ())
    }
    for port in spec.get("ports", ()):
        if not port.get("nodePort"):
            port["nodePort"] = next(number for number in range(30000, 32768) if number not in taken)
            taken.add(port["nodePort"])


def _service_errors(document: Document) -> list[FieldError]:
    spec = document["spec"]
    errors: list[FieldError] = []
    ports = spec.get("ports") or ()
    if not ports and spec.get("type") != "ExternalName" and spec.get("clusterIP") != "None":
        errors.append(required("spec.ports"))
    names: set[str] = set()
    for index, each in enumerate(ports):
        place = f"spec.ports[{index}]"
        if len(ports) > 1 and not each.get("name"):
            errors.append(required(f"{place}.name"))
        elif each.get("name") and each["name"] in names:
            errors.append(duplicate(f"{place}.name", each["name"]))
        names.add(each.get("name", ""))
        errors += port_number(each.get("port", 0), f"{place}.port")
        if isinstance(each.get("targetPort"), int):
            errors += port_number(each["targetPort"], f"{place}.targetPort")
        errors += choice(each.get("protocol"), f"{place}.protocol", ("SCTP", "TCP", "UDP"), needed=True)
    kinds = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
    return errors + choice(spec.get("type"), "spec.type", kinds, needed=True)


def _service_update_errors(new: Document, old: Document) -> list[FieldError]:
    before, after = old["spec"], new["spec"]
    if before.get("type") == "ExternalName" or after.get("type") == "ExternalName":
        return []
    if after.get("clusterIP") == before.get("clusterIP"):
        return []
    detail = "field is immutable" if after.get("clusterIP") else "primary clusterIP can not be unset"
    return [invalid("spec.clusterIPs[0]", after.get("clusterIP", ""), detail)]


def _service_row(document: Document, now: float) -> list[Any]:
    spec = document["spec"]
    ports = [
        f"{each['port']}:{each['nodePort']}/{each['protocol']}"
        if each.get("nodePort")
        else f"{each['port']}/{each['protocol']}"
        for each in spec.get("ports", ())
    ]
    return [
        document["metadata"]["name"],
        spec.get("type", ""),
        (spec.get("clusterIPs") or [NONE])[0],
        _external(document),
        ",".join(ports) or NONE,
        age(document, now),
        labels_text(spec.get("selector")),
    ]


def _external(document: Document) -> str:
    spec = document["spec"]
    given = list(spec.get("externalIPs", ()))
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(given) or NONE
        case "LoadBalancer":
            ingress = nested_field(document, "status", "loadBalancer", "ingress") or ()
            found = sorted({each.get("ip") or each.get("hostname", "") for each in ingress} - {""})
            return ",".join([*found, *given]) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
    return UNKNOWN


def _set_endpoints_defaults(document: Document) -> None:
    for subset in document.get("subsets", ()):
        for port in subset.get("ports", ()):
            port.setdefault("protocol", "TCP")


def _endpoints_row(document: Document, now: float) -> list[Any]:
    found = [
        f"{address['ip']}:{port['port']}"
        for subset in document.get("subsets", ())
        for port in subset.get("ports", ())
        for address in subset.get("addresses", ())
    ]
    shown = ",".join(found[:3]) + (f" + {len(found) - 3} more..." if len(found) > 3 else "")
    return [document["metadata"]["name"], shown or NONE, age(document, now)]


def _set_endpoint_slice_defaults(document: Document) -> None:
    for port in document.get("ports", ()):
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def _endpoint_slice_row(document: Document, now: float) -> list[Any]:
    ports = ",".join(str(each.get("port", "*")) for each in document.get("ports", ()))
    found = ",".join(address for each in document.get("endpoints", ()) for address in each.get("addresses", ()))
    name = document["metadata"]["name"]
    return [name, document.get("addressType", ""), ports or UNSET, found or UNSET, age(document, now)]


SERVICE: Final = Kind(
    Resource("", "v1", "services", "Service", short_names=("svc",), categories=("all",), subresources=("status",)),
    set_defaults=_set_service_defaults,
    prepare=_prepare,
    validate=_service_errors,
    validate_update=_service_update_errors,
    name_errors=dns_label,
    columns=columns("Name Type Cluster-IP External-IP Port(s) Age +Selector", _service_row),
    fields={"spec.clusterIP": field_reader("spec", "clusterIP"), "spec.type": field_reader("spec", "type")},
    returns_deleted=True,
)
ENDPOINTS: Final = Kind(
    Resource("", "v1", "endpoints", "Endpoints", short_names=("ep",)),
    set_defaults=_set_endpoints_defaults,
    columns=columns("Name Endpoints Age", _endpoints_row),
)
ENDPOINT_SLICE: Final = Kind(
    Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"),
    set_defaults=_set_endpoint_slice_defaults,
    columns=columns("Name AddressType Ports Endpoints Age", _endpoint_slice_row),
    counts_generation=True,
)
