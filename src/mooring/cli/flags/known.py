"""The flags that work as they do in kube-scheduler 1.36."""

from __future__ import annotations

from typing import Final

from mooring.cli.flags.flag import Flag
from mooring.config.durations import SECOND

_CLUSTER: Final = "Cluster and configuration"
_SERVING: Final = "Endpoints"
_READERS: Final = "Who may read the endpoints"
_ELECTION: Final = "Leader election (these also override --config)"
_LOGS: Final = "Logs and metrics"
_BATCH: Final = "Batch sessions, as vc-scheduler has them"
_OLD: Final = "Deprecated by kube-scheduler: with --config, the file counts"

FLAGS: Final = (
    Flag("config", _CLUSTER, "text", "A KubeSchedulerConfiguration (v1, v1beta3, v1beta2); - for standard input."),
    Flag("master", _CLUSTER, "text", "Address of the API server, instead of the kubeconfig's.", ""),
    Flag("write-config-to", _CLUSTER, "text", "Write the configuration in force to this file, and end.", ""),
    Flag("feature-gates", _CLUSTER, "map", "Feature gates of kube-scheduler 1.36; only defaults can be had.", ()),
    Flag("bind-address", _SERVING, "text", "Where health, metrics and decisions are served.", "0.0.0.0"),
    Flag("secure-port", _SERVING, "int", "Their port; 0 serves nothing.", 10259),
    Flag("tls-cert-file", _SERVING, "text", "Their certificate; self-signed unless given.", ""),
    Flag("tls-private-key-file", _SERVING, "text", "Its key.", ""),
    Flag("cert-dir", _SERVING, "text", "Where a self-signed certificate is kept; in memory unless given.", ""),
    Flag("tls-min-version", _SERVING, "text", "VersionTLS12 or VersionTLS13.", "", "VersionTLS12"),
    Flag("tls-cipher-suites", _SERVING, "list", "Cipher suites of TLS 1.2, by Go's names.", ()),
    Flag("permit-address-sharing", _SERVING, "bool", "Bind with SO_REUSEADDR.", False),
    Flag("permit-port-sharing", _SERVING, "bool", "Bind with SO_REUSEPORT.", False),
    Flag(
        "authentication-kubeconfig", _READERS, "text", "How to ask who a token belongs to; as the scheduler itself.", ""
    ),
    Flag(
        "authentication-skip-lookup", _READERS, "bool", "Do not look in the cluster for the clients' authority.", False
    ),
    Flag("authentication-tolerate-lookup-failure", _READERS, "bool", "Go on where that cannot be looked up.", True),
    Flag(
        "authentication-token-webhook-cache-ttl", _READERS, "duration", "How long that is believed.", 10 * SECOND, "10s"
    ),
    Flag("client-ca-file", _READERS, "text", "Authorities whose certificates identify clients.", ""),
    Flag(
        "authorization-kubeconfig", _READERS, "text", "How to ask what a client may read; as the scheduler itself.", ""
    ),
    Flag(
        "authorization-always-allow-paths",
        _READERS,
        "list",
        "What everybody may read.",
        ("/healthz", "/readyz", "/livez"),
    ),
    Flag(
        "authorization-webhook-cache-authorized-ttl",
        _READERS,
        "duration",
        "How long a yes is believed.",
        10 * SECOND,
        "10s",
    ),
    Flag(
        "authorization-webhook-cache-unauthorized-ttl",
        _READERS,
        "duration",
        "How long a no is believed.",
        10 * SECOND,
        "10s",
    ),
    Flag("leader-elect", _ELECTION, "bool", "Schedule only while holding a lease.", None, "true"),
    Flag(
        "leader-elect-lease-duration", _ELECTION, "duration", "How long others wait for a silent leader.", None, "15s"
    ),
    Flag("leader-elect-renew-deadline", _ELECTION, "duration", "How long a leader tries to renew.", None, "10s"),
    Flag("leader-elect-retry-period", _ELECTION, "duration", "How often it is tried.", None, "2s"),
    Flag("leader-elect-resource-lock", _ELECTION, "text", "leases is the only kind.", None, "leases"),
    Flag("leader-elect-resource-name", _ELECTION, "text", "Name of the lease.", None, "kube-scheduler"),
    Flag("leader-elect-resource-namespace", _ELECTION, "text", "Its namespace.", None, "kube-system"),
    Flag("scheduler-conf", _BATCH, "text", "A volcano-scheduler.conf: run batch sessions as it says.", None),
    Flag("scheduler-name", _BATCH, "list", "Whose pods sessions are about; repeatable.", (), "volcano"),
    Flag("schedule-period", _BATCH, "duration", "Sessions start so often, and when something changed.", SECOND, "1s"),
    Flag("default-queue", _BATCH, "text", "The queue of PodGroups that name none.", "default"),
    Flag("enable-healthz", _BATCH, "bool", "Serve health also at --healthz-address, in plain HTTP.", False),
    Flag("healthz-address", _BATCH, "text", "Where that is, at /healthz.", ":11251"),
    Flag("enable-metrics", _BATCH, "bool", "Serve metrics also at --listen-address, in plain HTTP.", False),
    Flag("listen-address", _BATCH, "text", "Where that is, at /metrics.", ":8080"),
    Flag("v", _LOGS, "int", "How much to log; 5 tells the whole story of each decision.", 2),
    Flag("logging-format", _LOGS, "text", "text or json.", "text"),
    Flag("disabled-metrics", _LOGS, "list", "Metrics that are not to be shown.", ()),
    Flag("kubeconfig", _OLD, "text", "How to reach the cluster; counts where --config names none.", None),
    Flag("kube-api-qps", _OLD, "number", "Requests a second.", None, "50"),
    Flag("kube-api-burst", _OLD, "int", "Requests at once.", None, "100"),
    Flag(
        "pod-max-in-unschedulable-pods-duration",
        _OLD,
        "duration",
        "Pods are tried again after this.",
        300 * SECOND,
        "5m0s",
    ),
)
