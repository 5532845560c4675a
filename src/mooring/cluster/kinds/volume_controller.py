"""The controllers that bind, provision and release volumes, and create the claims of ephemeral volumes."""

from collections.abc import Iterable
from typing import Final

from mooring.api.quantity import parse_quantity
from mooring.apiserver.documents import Document, nested_field, rfc3339, with_metadata
from mooring.apiserver.workloads import ephemeral_claims
from mooring.cluster.controllers.controller import Controller, Key
from mooring.cluster.selectors import selector_of
from mooring.cluster.store import ADDED, Change

CLAIMS: Final = "persistentvolumeclaims"
VOLUMES: Final = "persistentvolumes"
STORAGE_CLASSES: Final = "storageclasses.storage.k8s.io"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
_PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_CLAIM_PROTECTION: Final = "kubernetes.io/pvc-protection"
_VOLUME_PROTECTION: Final = "kubernetes.io/pv-protection"
_COMPONENT: Final = "persistentvolume-controller"


class VolumeController(Controller):
    """A controller that binds claims and volumes. The key of a volume has an empty namespace."""

    name = "persistentvolume-binder-controller"
    watched = frozenset({CLAIMS, VOLUMES, "pods"})

    def keys_for(self, storage: str, change: Change) -> Iterable[Key]:
        """Return changed claims and volumes, and the claims of pods."""
        metadata = change.stored.document["metadata"]
        if storage == CLAIMS:
            name = change.stored.document["spec"].get("volumeName")
            return [(metadata["namespace"], metadata["name"]), *([("", name)] if name else [])]
        if storage == VOLUMES:
            return [("", metadata["name"]), *self._waiting(change.stored.document)]
        if storage == "pods":
            volumes = change.stored.document["spec"].get("volumes") or ()
            claims = [each["persistentVolumeClaim"]["claimName"] for each in volumes if "persistentVolumeClaim" in each]
            return [(metadata["namespace"], name) for name in claims]
        return []

    def _waiting(self, volume: Document) -> list[Key]:
        """Return the claims that a volume could be bound to."""
        reference = volume["spec"].get("claimRef")
        if reference is not None:
            return [(reference.get("namespace", ""), reference.get("name", ""))]
        return [
            (each.document["metadata"]["namespace"], each.document["metadata"]["name"])
            for each in self.tools.store.objects(CLAIMS)
            if not each.document["spec"].get("volumeName")
        ]

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Take the next step for one claim or volume."""
        if not namespace:
            volume = self.tools.find(VOLUMES, "", name)
            if volume is not None:
                self._volume(volume)
            return None
        claim = self.tools.find(CLAIMS, namespace, name)
        if claim is not None:
            self._claim(claim)
        return None

    def _claim(self, claim: Document) -> None:
        metadata = claim["metadata"]
        if metadata.get("deletionTimestamp"):
            if not self._in_use(claim):
                self._unprotect(CLAIMS, claim, _CLAIM_PROTECTION)
            return
        predicate = claim["spec"].get("volumeName")
        if predicate:
            volume = self.tools.find(VOLUMES, "", predicate)
            if volume is None:
                if nested_field(claim, "status", "phase") == "Bound":
                    self._phase(CLAIMS, claim, "Lost")
            elif _refers(volume, claim) or "claimRef" not in volume["spec"]:
                self._bind(volume, claim)
            return
        volume = self._prebound(claim)
        if volume is not None:
            self._bind(volume, claim)
            return
        self._find_or_make(claim)

    def _find_or_make(self, claim: Document) -> None:
        name = claim["spec"].get("storageClassName", "")
        kind = self.tools.find(STORAGE_CLASSES, "", name) if name else None
        node = (claim["metadata"].get("annotations") or {}).get(_SELECTED_NODE)
        waits = kind is not None and kind.get("volumeBindingMode") == "WaitForFirstConsumer"
        if waits and not node:
            message = "waiting for first consumer to be created before binding"
            self.tools.recorder.record(_COMPONENT, claim, "Normal", "WaitForFirstConsumer", message)
            return
        volume = None if waits else self._match(claim)
        if volume is not None:
            self._bind(volume, claim)
        elif kind is not None and kind.get("provisioner") != _NO_PROVISIONER:
            self._provision(claim, kind)
        else:
            message = "no persistent volumes available for this claim and no storage class is set"
            if kind is None and name:
                message = f'storageclass.storage.k8s.io "{name}" not found'
            reason = "ProvisioningFailed" if kind is None and name else "FailedBinding"
            event = "Warning" if reason == "ProvisioningFailed" else "Normal"
            self.tools.recorder.record(_COMPONENT, claim, event, reason, message)

    def _prebound(self, claim: Document) -> Document | None:
        """Return the volume that is reserved for a claim, for example by a scheduler."""
        for stored in self.tools.store.objects(VOLUMES):
            if _refers(stored.document, claim):
                return stored.document
        return None

    def _match(self, claim: Document) -> Document | None:
        """Return the smallest available volume that satisfies a claim."""
        spec = claim["spec"]
        wanted = parse_quantity(nested_field(spec, "resources", "requests", "storage") or "0")
        selector = selector_of(spec["selector"]) if "selector" in spec else None
        fitting = []
        for stored in self.tools.store.objects(VOLUMES):
            volume = stored.document
            size = parse_quantity(nested_field(volume, "spec", "capacity", "storage") or "0")
            if (
                "claimRef" not in volume["spec"]
                and not volume["metadata"].get("deletionTimestamp")
                and volume["spec"].get("storageClassName", "") == spec.get("storageClassName", "")
                and volume["spec"].get("volumeMode") == spec.get("volumeMode")
                and set(spec["accessModes"]) <= set(volume["spec"].get("accessModes", ()))
                and not wanted.exceeds(size)
                and (selector is None or selector.matches(volume["metadata"].get("labels") or {}))
            ):
                fitting.append((size.scaled(0), volume["metadata"]["name"], volume))
        return min(fitting, key=lambda each: each[:2])[2] if fitting else None

    def _provision(self, claim: Document, kind: Document) -> None:
        metadata, spec = claim["metadata"], claim["spec"]
        name = f"pvc-{metadata['uid']}"
        driver = kind["provisioner"]
        document: Document = {
            "metadata": {"name": name, "annotations": {_PROVISIONED_BY: driver}},
            "spec": {
                "capacity": {"storage": nested_field(spec, "resources", "requests", "storage")},
                "accessModes": list(spec["accessModes"]),
                "persistentVolumeReclaimPolicy": kind.get("reclaimPolicy", "Delete"),
                "storageClassName": kind["metadata"]["name"],
                "volumeMode": spec.get("volumeMode", "Filesystem"),
                "csi": {"driver": driver, "volumeHandle": name},
                "claimRef": _claim_reference(claim),
            },
        }
        terms = [
            {"matchExpressions": [
                {"key": each["key"], "operator": "In", "values": list(each["values"])}
                for each in term.get("matchLabelExpressions", ())
            ]}
            for term in kind.get("allowedTopologies", ())
        ]  # fmt: skip
        if terms:
            document["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        stored = self.tools.create(VOLUMES, "", document)
        if stored is not None:
            message = f"Successfully provisioned volume {name}"
            self.tools.recorder.record(driver, claim, "Normal", "ProvisioningSucceeded", message)
            self._annotate(claim, {_PROVISIONER: driver})
            self._bind(stored.document, claim)

    def _bind(self, volume: Document, claim: Document) -> None:
        """Bind a volume and a claim to each other."""
        fresh = self.tools.find(CLAIMS, claim["metadata"]["namespace"], claim["metadata"]["name"]) or claim
        name = volume["metadata"]["name"]
        reference = _claim_reference(fresh)
        given = volume["spec"].get("claimRef")
        if given is None or given.get("uid") != reference["uid"]:
            volume = {**volume, "spec": {**volume["spec"], "claimRef": reference}}
            if given is None:
                notes = {**volume["metadata"].get("annotations", {}), _BOUND_BY_CONTROLLER: "yes"}
                volume = with_metadata(volume, annotations=notes)
        status = {**volume.get("status", {}), "phase": "Bound"}
        if nested_field(volume, "status", "phase") != "Bound":
            status["lastPhaseTransitionTime"] = rfc3339(self.tools.now())
        self.tools.registry.modify(VOLUMES, "", name, lambda _: {**volume, "status": status})
        self._bind_claim(fresh, volume)

    def _bind_claim(self, claim: Document, volume: Document) -> None:
        notes = {**claim["metadata"].get("annotations", {}), _BIND_COMPLETED: "yes"}
        if claim["spec"].get("volumeName") != volume["metadata"]["name"]:
            notes[_BOUND_BY_CONTROLLER] = "yes"
        bound = {
            **with_metadata(claim, annotations=notes),
            "spec": {**claim["spec"], "volumeName": volume["metadata"]["name"]},
            "status": {
                **claim.get("status", {}),
                "phase": "Bound",
                "accessModes": list(volume["spec"].get("accessModes", ())),
                "capacity": dict(volume["spec"].get("capacity", {})),
            },
        }
        self.tools.registry.modify(CLAIMS, claim["metadata"]["namespace"], claim["metadata"]["name"], lambda _: bound)

    def _annotate(self, claim: Document, notes: Document) -> None:
        metadata = claim["metadata"]
        self.tools.registry.modify(
            CLAIMS,
            metadata["namespace"],
            metadata["name"],
            lambda each: with_metadata(each, annotations={**each["metadata"].get("annotations", {}), **notes}),
        )

    def _volume(self, volume: Document) -> None:
        metadata = volume["metadata"]
        reference = volume["spec"].get("claimRef")
        claim = None
        if reference is not None:
            claim = self.tools.find(CLAIMS, reference.get("namespace", ""), reference.get("name", ""))
            if claim is not None and reference.get("uid") not in {None, "", claim["metadata"]["uid"]}:
                claim = None
        if metadata.get("deletionTimestamp"):
            if claim is None:
                self._unprotect(VOLUMES, volume, _VOLUME_PROTECTION)
        elif reference is None:
            self._phase(VOLUMES, volume, "Available")
        elif claim is None and reference.get("uid"):
            if (
                volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete"
                and nested_field(volume, "status", "phase") != "Failed"
            ):
                self.tools.delete(VOLUMES, "", metadata["name"])
            else:
                self._phase(VOLUMES, volume, "Released")

    def _phase(self, storage: str, document: Document, phase: str) -> None:
        if nested_field(document, "status", "phase") == phase:
            return
        status = {**document.get("status", {}), "phase": phase}
        if storage == VOLUMES:
            status["lastPhaseTransitionTime"] = rfc3339(self.tools.now())
        self.tools.set_status(storage, document, status)

    def _in_use(self, claim: Document) -> bool:
        name = claim["metadata"]["name"]
        for stored in self.tools.store.objects("pods", claim["metadata"]["namespace"]):
            pod = stored.document
            if nested_field(pod, "status", "phase") in {"Succeeded", "Failed"} or not pod["spec"].get("nodeName"):
                continue
            if any(
                nested_field(each, "persistentVolumeClaim", "claimName") == name
                for each in pod["spec"].get("volumes") or ()
            ):
                return True
        return False

    def _unprotect(self, storage: str, document: Document, finalizer: str) -> None:
        metadata = document["metadata"]
        rest = [each for each in metadata.get("finalizers", ()) if each != finalizer]
        self.tools.registry.modify(
            storage,
            metadata.get("namespace", ""),
            metadata["name"],
            lambda each: with_metadata(each, finalizers=rest or None) if "finalizers" in each["metadata"] else each,
        )


def _refers(volume: Document, claim: Document) -> bool:
    reference = volume["spec"].get("claimRef") or {}
    metadata = claim["metadata"]
    return (
        reference.get("namespace") == metadata["namespace"]
        and reference.get("name") == metadata["name"]
        and reference.get("uid", metadata["uid"]) in {"", metadata["uid"]}
    )


def _claim_reference(claim: Document) -> Document:
    metadata = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"],
    }


class EphemeralClaimController(Controller):
    """A controller that creates the claims of generic ephemeral volumes."""

    name = "ephemeral-volume-controller"
    watched = frozenset({"pods"})

    def keys_for(self, storage: str, change: Change) -> Iterable[Key]:
        """Return new pods with ephemeral volumes."""
        document = change.stored.document
        if storage != "pods" or change.kind != ADDED:
            return []
        metadata = document["metadata"]
        has = any("ephemeral" in each for each in document["spec"].get("volumes") or ())
        return [(metadata["namespace"], metadata["name"])] if has else []

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Create missing claims."""
        pod = self.tools.find("pods", namespace, name)
        if pod is None or pod["metadata"].get("deletionTimestamp"):
            return None
        for claim in ephemeral_claims(pod):
            if self.tools.find(CLAIMS, namespace, claim["metadata"]["name"]) is None:
                self.tools.create(CLAIMS, namespace, claim)
        return None
