"""The supported flags, which work as in kube-scheduler and vc-scheduler."""

from __future__ import annotations

from typing import Final

from mooring.cli.flags.go_flags import Flag
from mooring.config.durations import SECOND

_CLUSTER: Final = "Cluster and configuration"
_SERVING: Final = "Endpoints"
_AUTH: Final = "Authentication and authorization of endpoint clients"
_ELECTION: Final = "Leader election (overrides --config)"
_LOGS: Final = "Logs and metrics"
_GROUP: Final = "Active-active (the group is named by --leader-elect-resource-name and -namespace)"
_BATCH: Final = "Batch sessions (flags of vc-scheduler)"
_OLD: Final = "Deprecated in kube-scheduler (--config takes precedence)"

SUPPORTED_FLAGS: Final = (
    Flag("kubeconfig", _CLUSTER, "text", "Path to the kubeconfig file, unless --config names one.", None),
    Flag(
        "config", _CLUSTER, "text", "KubeSchedulerConfiguration file (v1, v1beta3 or v1beta2), or - for standard input."
    ),
    Flag("master", _CLUSTER, "text", "Address of the API server. Overrides the kubeconfig.", ""),
    Flag("write-config-to", _CLUSTER, "text", "Write the effective configuration to this file and exit.", ""),
    Flag(
        "emulated-version",
        _CLUSTER,
        "text",
        "Release of kube-scheduler to emulate: 1.36 or 1.37. By default that of the API server.",
        "",
    ),
    Flag(
        "feature-gates",
        _CLUSTER,
        "map",
        "Feature gates of the emulated release. Gates that change decisions and are not supported are refused.",
        (),
    ),
    Flag("bind-address", _SERVING, "text", "Address to serve health, metrics and decisions on.", "0.0.0.0"),
    Flag("secure-port", _SERVING, "int", "Port to serve on; 0 disables the endpoints.", 10259),
    Flag("tls-cert-file", _SERVING, "text", "Serving certificate. By default self-signed.", ""),
    Flag("tls-private-key-file", _SERVING, "text", "Private key of the serving certificate.", ""),
    Flag("cert-dir", _SERVING, "text", "Directory for the self-signed certificate. By default in memory.", ""),
    Flag("tls-min-version", _SERVING, "text", "Minimum TLS version: VersionTLS12 or VersionTLS13.", "", "VersionTLS12"),
    Flag("tls-cipher-suites", _SERVING, "list", "Cipher suites for TLS 1.2, by Go's names.", ()),
    Flag("permit-address-sharing", _SERVING, "bool", "Bind with SO_REUSEADDR.", False),
    Flag("permit-port-sharing", _SERVING, "bool", "Bind with SO_REUSEPORT.", False),
    Flag(
        "authentication-kubeconfig",
        _AUTH,
        "text",
        "Kubeconfig for TokenReviews. By default the scheduler's own access.",
        "",
    ),
    Flag("authentication-skip-lookup", _AUTH, "bool", "Do not read the client CA from the cluster.", False),
    Flag("authentication-tolerate-lookup-failure", _AUTH, "bool", "Continue if the client CA cannot be read.", True),
    Flag(
        "authentication-token-webhook-cache-ttl",
        _AUTH,
        "duration",
        "How long a TokenReview is cached.",
        10 * SECOND,
        "10s",
    ),
    Flag("client-ca-file", _AUTH, "text", "CA certificates to authenticate clients with.", ""),
    Flag(
        "authorization-kubeconfig",
        _AUTH,
        "text",
        "Kubeconfig for SubjectAccessReviews. By default the scheduler's own access.",
        "",
    ),
    Flag(
        "authorization-always-allow-paths",
        _AUTH,
        "list",
        "Paths that need no authorization.",
        ("/healthz", "/readyz", "/livez"),
    ),
    Flag(
        "authorization-webhook-cache-authorized-ttl",
        _AUTH,
        "duration",
        "How long an allowed decision is cached.",
        10 * SECOND,
        "10s",
    ),
    Flag(
        "authorization-webhook-cache-unauthorized-ttl",
        _AUTH,
        "duration",
        "How long a denied decision is cached.",
        10 * SECOND,
        "10s",
    ),
    Flag("leader-elect", _ELECTION, "bool", "Schedule only while holding the lease.", None, "true"),
    Flag(
        "leader-elect-lease-duration",
        _ELECTION,
        "duration",
        "How long other instances wait for a leader that does not renew.",
        None,
        "15s",
    ),
    Flag(
        "leader-elect-renew-deadline", _ELECTION, "duration", "How long a leader tries to renew the lease.", None, "10s"
    ),
    Flag(
        "leader-elect-retry-period",
        _ELECTION,
        "duration",
        "Time between two attempts to acquire or renew the lease.",
        None,
        "2s",
    ),
    Flag(
        "leader-elect-resource-lock",
        _ELECTION,
        "text",
        "Resource used for locking; only leases is supported.",
        None,
        "leases",
    ),
    Flag("leader-elect-resource-name", _ELECTION, "text", "Name of the lease.", None, "kube-scheduler"),
    Flag("leader-elect-resource-namespace", _ELECTION, "text", "Namespace of the lease.", None, "kube-system"),
    Flag(
        "active-active",
        _GROUP,
        "bool",
        "Schedule side by side with the other schedulers of this group, instead of leader election.",
        False,
    ),
    Flag(
        "active-active-lease-duration",
        _GROUP,
        "duration",
        "How long the others wait for a member that does not renew its lease.",
        6 * SECOND // 10,
        "600ms",
    ),
    Flag("scheduler-conf", _BATCH, "text", "A volcano-scheduler.conf: run batch sessions.", None),
    Flag(
        "scheduler-name",
        _BATCH,
        "list",
        "Schedule pods with this schedulerName in sessions. Repeatable.",
        (),
        "volcano",
    ),
    Flag(
        "schedule-period",
        _BATCH,
        "duration",
        "Time between sessions; a session also starts after a change.",
        SECOND,
        "1s",
    ),
    Flag("default-queue", _BATCH, "text", "Queue of PodGroups that name none.", "default"),
    Flag(
        "node-selector",
        _BATCH,
        "list",
        "Only use nodes with one of these labels (key:value) in sessions. Repeatable.",
        (),
    ),
    Flag("enable-healthz", _BATCH, "bool", "Also serve /healthz over plain HTTP at --healthz-address.", False),
    Flag("healthz-address", _BATCH, "text", "Address of the plain HTTP /healthz.", ":11251"),
    Flag("enable-metrics", _BATCH, "bool", "Also serve /metrics over plain HTTP at --listen-address.", False),
    Flag("listen-address", _BATCH, "text", "Address of the plain HTTP /metrics.", ":8080"),
    Flag("v", _LOGS, "int", "Log verbosity; 5 logs every step of each decision.", 2),
    Flag("logging-format", _LOGS, "text", "Log format: text or json.", "text"),
    Flag("disabled-metrics", _LOGS, "list", "Metrics to leave out.", ()),
    Flag("kube-api-qps", _OLD, "number", "Maximum requests per second to the API server.", None, "50"),
    Flag("kube-api-burst", _OLD, "int", "Maximum burst of requests to the API server.", None, "100"),
    Flag(
        "pod-max-in-unschedulable-pods-duration",
        _OLD,
        "duration",
        "Maximum time in the unschedulable pods pool before a pod is retried.",
        300 * SECOND,
        "5m0s",
    ),
)
