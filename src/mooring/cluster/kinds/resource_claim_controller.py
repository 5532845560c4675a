"""The controller of ResourceClaims: creates claims from templates, and releases the claims of finished pods."""

from collections.abc import Iterable
from typing import Final

from mooring.api.devices import CLAIM_FINALIZER
from mooring.apiserver.documents import Document, nested_field
from mooring.apiserver.resource_claims import claims_from_templates
from mooring.cluster.controllers.controller import Controller, Key
from mooring.cluster.store import DELETED, Change

CLAIMS: Final = "resourceclaims.resource.k8s.io"
TEMPLATES: Final = "resourceclaimtemplates.resource.k8s.io"
#: Marks the key of a pod. It cannot be part of a name.
_POD: Final = "pod/"


class ResourceClaimController(Controller):
    """A controller of the claims of pods. The keys are those of claims, and of pods with a prefix."""

    name = "resourceclaim-controller"
    watched = frozenset({"pods", CLAIMS, TEMPLATES})

    def keys_for(self, storage: str, change: Change) -> Iterable[Key]:
        """Return changed claims, pods with claims, and pods that wait for a template."""
        document = change.stored.document
        metadata = document["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        if storage == CLAIMS:
            return [] if change.kind == DELETED else [(namespace, name)]
        if storage == TEMPLATES:
            return self._waiting(namespace, name)
        if storage != "pods":
            return []
        keys = [(namespace, each) for each in _claims_of(document)]
        if change.kind != DELETED and document["spec"].get("resourceClaims"):
            keys.append((namespace, _POD + name))
        return keys

    def _waiting(self, namespace: str, template: str) -> list[Key]:
        """Return the pods that name a template."""
        return [
            (namespace, _POD + each.document["metadata"]["name"])
            for each in self.tools.store.objects("pods")
            if each.document["metadata"].get("namespace") == namespace
            and any(
                entry.get("resourceClaimTemplateName") == template
                for entry in each.document["spec"].get("resourceClaims") or ()
            )
        ]

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Take the next step for a pod or a claim."""
        if name.startswith(_POD):
            pod = self.tools.find("pods", namespace, name.removeprefix(_POD))
            if pod is not None and not _is_done(pod):
                self._create_claims(pod, namespace)
            return None
        claim = self.tools.find(CLAIMS, namespace, name)
        if claim is not None:
            self._release(claim, namespace, name)
        return None

    def _create_claims(self, pod: Document, namespace: str) -> None:
        made = []
        for entry, claim in claims_from_templates(pod, lambda name: self.tools.find(TEMPLATES, namespace, name)):
            stored = None if claim is None else self.tools.create(CLAIMS, namespace, claim)
            if stored is not None:
                made.append({"name": entry, "resourceClaimName": stored.document["metadata"]["name"]})
        if made:
            status = pod.get("status") or {}
            known = status.get("resourceClaimStatuses") or []
            self.tools.set_status("pods", pod, {**status, "resourceClaimStatuses": [*known, *made]})

    def _release(self, claim: Document, namespace: str, name: str) -> None:
        """Remove the reservations of pods that are done, deallocate an unused claim, and let it be deleted."""
        status = claim.get("status") or {}
        reserved = status.get("reservedFor") or []
        left = [each for each in reserved if self._uses(namespace, each)]
        if len(left) < len(reserved):
            kept = {**status, "reservedFor": left} if left else {}
            self.tools.set_status(CLAIMS, claim, kept)
        if left:
            return
        metadata = claim["metadata"]
        if metadata.get("deletionTimestamp"):
            if not reserved and nested_field(claim, "status", "allocation"):
                self.tools.set_status(CLAIMS, claim, {})
            self._remove_finalizer(namespace, name)
        elif any(self._is_done_owner(namespace, each) for each in metadata.get("ownerReferences") or ()):
            self.tools.delete(CLAIMS, namespace, name)

    def _uses(self, namespace: str, user: Document) -> bool:
        if user.get("resource", "pods") != "pods":
            return True  # the embedded cluster does not know when a group of pods is done
        pod = self.tools.find("pods", namespace, user.get("name", ""))
        return pod is not None and pod["metadata"].get("uid") == user.get("uid") and not _is_done(pod)

    def _is_done_owner(self, namespace: str, owner: Document) -> bool:
        if owner.get("kind") != "Pod" or not owner.get("controller"):
            return False
        pod = self.tools.find("pods", namespace, owner.get("name", ""))
        return pod is not None and pod["metadata"].get("uid") == owner.get("uid") and _is_done(pod)

    def _remove_finalizer(self, namespace: str, name: str) -> None:
        def without(claim: Document) -> Document:
            finalizers = [each for each in claim["metadata"].get("finalizers") or () if each != CLAIM_FINALIZER]
            return {**claim, "metadata": {**claim["metadata"], "finalizers": finalizers}}

        claim = self.tools.find(CLAIMS, namespace, name)
        if claim is not None and CLAIM_FINALIZER in (claim["metadata"].get("finalizers") or ()):
            self.tools.registry.modify(CLAIMS, namespace, name, without)


def _claims_of(pod: Document) -> list[str]:
    """Return the names of the claims of a pod."""
    status = pod.get("status") or {}
    extended = (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
    entries = (*(pod["spec"].get("resourceClaims") or ()), *(status.get("resourceClaimStatuses") or ()))
    names = [each.get("resourceClaimName") for each in entries]
    return [each for each in (*names, extended) if each]


def _is_done(pod: Document) -> bool:
    return nested_field(pod, "status", "phase") in ("Succeeded", "Failed")
