"""Defaults of workloads."""

from mooring.apiserver.documents import Document
from mooring.apiserver.pod_defaults import set_template_defaults


def set_deployment_defaults(document: Document) -> None:
    """Set the defaults of a Deployment in place."""
    spec = document["spec"]
    spec.setdefault("replicas", 1)
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    set_template_defaults(spec["template"])


def set_replica_set_defaults(document: Document) -> None:
    """Set the defaults of a ReplicaSet in place."""
    document["spec"].setdefault("replicas", 1)
    set_template_defaults(document["spec"].setdefault("template", {}))
    document["status"].setdefault("replicas", 0)


def set_replication_controller_defaults(document: Document) -> None:
    """Set the defaults of a ReplicationController in place."""
    spec = document["spec"]
    spec.setdefault("replicas", 1)
    set_template_defaults(spec.setdefault("template", {}))
    labels = spec["template"]["metadata"].get("labels")
    if labels:
        spec.setdefault("selector", dict(labels))
        document["metadata"].setdefault("labels", dict(labels))
    document["status"].setdefault("replicas", 0)


def set_stateful_set_defaults(document: Document) -> None:
    """Set the defaults of a StatefulSet in place."""
    spec = document["spec"]
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    if "type" not in strategy:
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        strategy["rollingUpdate"].setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("serviceName", "")
    set_template_defaults(spec["template"])
    for claim in spec.get("volumeClaimTemplates", ()):
        claim["spec"].setdefault("volumeMode", "Filesystem")
        claim["status"].setdefault("phase", "Pending")
    document["status"].setdefault("replicas", 0)
    document["status"].setdefault("availableReplicas", 0)


def set_daemon_set_defaults(document: Document) -> None:
    """Set the defaults of a DaemonSet in place."""
    spec = document["spec"]
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    set_template_defaults(spec["template"])
    for key in ("currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"):
        document["status"].setdefault(key, 0)


def set_job_defaults(document: Document) -> None:
    """Set the defaults of a Job in place."""
    spec = document["spec"]
    _set_job_spec_defaults(spec)
    labels = spec["template"]["metadata"].get("labels")
    if labels and not document["metadata"].get("labels"):
        document["metadata"]["labels"] = dict(labels)


def _set_job_spec_defaults(spec: Document) -> None:
    if "parallelism" not in spec:
        spec["parallelism"] = 1
        spec.setdefault("completions", 1)
    spec.setdefault("backoffLimit", 2**31 - 1 if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)
    for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
        for pattern in rule.get("onPodConditions", ()):
            pattern.setdefault("status", "True")
    set_template_defaults(spec["template"])


def set_cron_job_defaults(document: Document) -> None:
    """Set the defaults of a CronJob in place."""
    spec = document["spec"]
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    spec["jobTemplate"].setdefault("metadata", {})
    inner = spec["jobTemplate"].setdefault("spec", {}).setdefault("template", {})
    set_template_defaults(inner)
