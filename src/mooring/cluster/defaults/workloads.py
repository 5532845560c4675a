"""What workloads mean where they say nothing."""

from mooring.cluster.defaults.pods import template
from mooring.cluster.documents import Document


def deployment(document: Document) -> None:
    """Complete a Deployment."""
    spec = document["spec"]
    spec.setdefault("replicas", 1)
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    template(spec["template"])


def replica_set(document: Document) -> None:
    """Complete a ReplicaSet."""
    document["spec"].setdefault("replicas", 1)
    template(document["spec"].setdefault("template", {}))
    document["status"].setdefault("replicas", 0)


def replication_controller(document: Document) -> None:
    """Complete a ReplicationController."""
    spec = document["spec"]
    spec.setdefault("replicas", 1)
    template(spec.setdefault("template", {}))
    labels = spec["template"]["metadata"].get("labels")
    if labels:
        spec.setdefault("selector", dict(labels))
        document["metadata"].setdefault("labels", dict(labels))
    document["status"].setdefault("replicas", 0)


def stateful_set(document: Document) -> None:
    """Complete a StatefulSet."""
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
    template(spec["template"])
    for claim in spec.get("volumeClaimTemplates", ()):
        claim["spec"].setdefault("volumeMode", "Filesystem")
        claim["status"].setdefault("phase", "Pending")
    document["status"].setdefault("replicas", 0)
    document["status"].setdefault("availableReplicas", 0)


def daemon_set(document: Document) -> None:
    """Complete a DaemonSet."""
    spec = document["spec"]
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    template(spec["template"])
    for key in ("currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"):
        document["status"].setdefault(key, 0)


def job(document: Document) -> None:
    """Complete a Job."""
    spec = document["spec"]
    job_spec(spec)
    labels = spec["template"]["metadata"].get("labels")
    if labels and not document["metadata"].get("labels"):
        document["metadata"]["labels"] = dict(labels)


def job_spec(spec: Document) -> None:
    """Complete what Jobs and CronJobs share."""
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
    template(spec["template"])


def cron_job(document: Document) -> None:
    """Complete a CronJob."""
    spec = document["spec"]
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    spec["jobTemplate"].setdefault("metadata", {})
    inner = spec["jobTemplate"].setdefault("spec", {}).setdefault("template", {})
    template(inner)
