"""ResourceClaims of pods: the claims that the controller manager creates from templates, and the defaults of claims."""

from collections.abc import Callable, Iterator
from typing import Final

from mooring.apiserver.documents import Document, deep_copy
from mooring.apiserver.workloads import owner_reference

#: The entry of `spec.resourceClaims` that a claim was created for.
POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"


def set_claim_defaults(spec: Document) -> None:
    """Set the defaults of the requests of a claim in place."""
    for request in (spec.get("devices") or {}).get("requests") or ():
        for each in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if each is not None and each.setdefault("allocationMode", "ExactCount") == "ExactCount":
                each.setdefault("count", 1)


def claims_from_templates(
    pod: Document, template: Callable[[str], Document | None]
) -> Iterator[tuple[str, Document | None]]:
    """Yield each entry of a pod that names a template and has no claim yet, with the claim to create.

    The claim is None if the template does not exist.
    """
    known = {each.get("name") for each in (pod.get("status") or {}).get("resourceClaimStatuses") or ()}
    for entry in pod["spec"].get("resourceClaims") or ():
        name, wanted = entry.get("name", ""), entry.get("resourceClaimTemplateName")
        if wanted is None or name in known:
            continue
        found = template(wanted)
        yield name, None if found is None else _claim(pod, name, found)


def _claim(pod: Document, entry: str, template: Document) -> Document:
    spec = template.get("spec") or {}
    given = spec.get("metadata") or {}
    annotations = {**(given.get("annotations") or {}), POD_CLAIM_NAME: entry}
    metadata: Document = {
        "generateName": f"{pod['metadata']['name']}-{entry}-",
        "namespace": pod["metadata"].get("namespace", "default"),
        "annotations": annotations,
        "ownerReferences": [owner_reference(pod)],
    }
    if given.get("labels"):
        metadata["labels"] = dict(given["labels"])
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": deep_copy(spec.get("spec") or {}),
    }
