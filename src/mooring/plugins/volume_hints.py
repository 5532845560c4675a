"""Queueing hints that several volume plugins share."""

from __future__ import annotations

from mooring.api.pod import Pod
from mooring.api.storage import PersistentVolumeClaim
from mooring.framework import Hint
from mooring.plugins.pod_volumes import uses_claim


def own_named_claim(pod: Pod, _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> Hint:
    """Queue when it is about a claim that the pod names; ephemeral volumes' claims do not count."""
    names = (v.persistent_volume_claim.claim_name for v in pod.spec.volumes if v.persistent_volume_claim is not None)
    return Hint.QUEUE if new.namespace == pod.namespace and new.name in names else Hint.SKIP


def own_claim(pod: Pod, _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> Hint:
    """Queue when it is about one of the pod's claims."""
    return Hint.QUEUE if new.namespace == pod.namespace and uses_claim(pod, new.name) else Hint.SKIP
