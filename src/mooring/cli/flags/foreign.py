"""Flags of kube-scheduler, of its earlier versions, and of vc-scheduler that have no effect here, and why."""

from __future__ import annotations

from typing import Final

from mooring.cli.flags.flag import Foreign

_TRUE, _FALSE = ("true", "1", "t", "True", "TRUE"), ("false", "0", "f", "False", "FALSE")
_JSON = "application/json"


def _switch(name: str, text: str, *, refused: bool = False, fine: tuple[str, ...] = ()) -> Foreign:
    return Foreign(name, text, refused=refused, takes_value=False, fine=fine)


_SERVING: Final = (
    _switch("disable-http2-serving", "the endpoints speak HTTP/1.1 only anyway", fine=_TRUE),
    Foreign("http2-max-streams-per-connection", "limits HTTP/2 streams; the endpoints speak HTTP/1.1 only"),
    Foreign(
        "tls-sni-cert-key",
        "chooses certificates by the name a client asks for; there is one certificate here: give --tls-cert-file",
        refused=True,
    ),
    Foreign(
        "tls-curve-preferences",
        "chooses key exchanges by Go's numbers; OpenSSL chooses here: set them in openssl.cnf instead",
        refused=True,
    ),
)
_READERS: Final = (
    Foreign(
        "requestheader-client-ca-file",
        "lets a proxy say who its clients are; that is not believed here: let clients show tokens, or certificates "
        "(--client-ca-file)",
        refused=True,
    ),
    *(
        Foreign(f"requestheader-{name}", "has no effect without --requestheader-client-ca-file, which is not supported")
        for name in ("allowed-names", "extra-headers-prefix", "group-headers", "uid-headers", "username-headers")
    ),
)
_PROFILING: Final = (
    _switch("profiling", "serves profiles of a Go program; use py-spy or perf on this process instead", fine=_FALSE),
    _switch("contention-profiling", "profiles locks of a Go program; there are none here", fine=_FALSE),
)
_VERSIONS: Final = (
    Foreign(
        "emulated-version",
        "makes kube-scheduler behave like an earlier version; Mooring behaves like 1.36 only: leave it out",
        refused=True,
        fine=("1.36", "kube=1.36"),
    ),
    Foreign(
        "min-compatibility-version",
        "has no effect on a scheduler, and none here",
        fine=("1.35", "kube=1.35", "1.36", "kube=1.36"),
    ),
)
_METRICS: Final = (
    Foreign("allow-metric-labels", "limits the values of labels; all are shown here: limit them where you scrape"),
    Foreign(
        "allow-metric-labels-manifest", "limits the values of labels; all are shown here: limit them where you scrape"
    ),
    Foreign("show-hidden-metrics-for-version", "shows metrics that are about to go; none are hidden here"),
)
_LOGS: Final = (
    Foreign("log-flush-frequency", "lines are written at once here"),
    Foreign("log-json-info-buffer-size", "lines are written at once here", fine=("0",)),
    Foreign("log-text-info-buffer-size", "lines are written at once here", fine=("0",)),
    _switch("log-json-split-stream", "all lines go to standard error here", fine=_FALSE),
    _switch("log-text-split-stream", "all lines go to standard error here", fine=_FALSE),
    Foreign("vmodule", "sets the verbosity by Go source file; use -v for all"),
    _switch("logtostderr", "lines go to standard error here, whatever it says; redirect them", fine=_TRUE),
    _switch("alsologtostderr", "lines go to standard error, and nowhere else", fine=_FALSE),
    _switch("one-output", "lines are written once, whatever it says", fine=_TRUE),
    _switch("add-dir-header", "lines do not name source files here", fine=_FALSE),
    _switch("skip-headers", "lines keep their head; use --logging-format=json for programs", fine=_FALSE),
    _switch("skip-log-headers", "there are no log files, so no heads of them", fine=_TRUE + _FALSE),
    Foreign("stderrthreshold", "all lines go to standard error"),
    Foreign("log-dir", "lines go to standard error and not to files: redirect them"),
    Foreign("log-file", "lines go to standard error and not to a file: redirect them"),
    Foreign("log-file-max-size", "there are no log files here"),
    Foreign("log-backtrace-at", "names a line of Go source code; there is none here"),
)
_CONTENT: Final = (
    Foreign("kube-api-content-type", "requests are JSON here, which is as fast for this client", fine=(_JSON,)),
)
#: Gone from kube-scheduler, but still in many manifests.
_EARLIER: Final = (
    Foreign("address", "was removed from kube-scheduler; use --bind-address and --secure-port", refused=True),
    Foreign(
        "port", "served plain HTTP and was removed from kube-scheduler; use --secure-port", refused=True, fine=("0",)
    ),
    Foreign("policy-config-file", "was removed from kube-scheduler 1.23; write a --config file", refused=True),
    Foreign("policy-configmap", "was removed from kube-scheduler 1.23; write a --config file", refused=True),
    Foreign("policy-configmap-namespace", "was removed from kube-scheduler 1.23; write a --config file", refused=True),
    _switch(
        "use-legacy-policy-config", "was removed from kube-scheduler 1.23; write a --config file", refused=True,
        fine=_FALSE,
    ),
    Foreign("algorithm-provider", "was removed from kube-scheduler 1.23; write a --config file", refused=True),
    Foreign(
        "hard-pod-affinity-symmetric-weight",
        "was removed from kube-scheduler; set hardPodAffinityWeight of InterPodAffinityArgs in --config",
        refused=True,
    ),
    Foreign(
        "failure-domains", "was removed from kube-scheduler; use topologyKey in pods' affinity instead", refused=True
    ),
    Foreign(
        "lock-object-name", "is the old name of --leader-elect-resource-name; write that", refused=True
    ),
    Foreign(
        "lock-object-namespace", "is the old name of --leader-elect-resource-namespace; write that", refused=True
    ),
)  # fmt: skip
_ALL_NODES = "batch sessions look at all nodes here, whatever it says"
_VOLCANO: Final = (
    _switch(
        "disable-default-scheduler-config",
        "a bad --scheduler-conf never gives way to the default here",
        fine=_TRUE + _FALSE,
    ),
    Foreign(
        "scheduler-sharding-mode",
        "divides nodes among schedulers, which there is no way to do here; leave it out",
        refused=True,
        fine=("none",),
    ),
    Foreign("scheduler-sharding-name", "has no effect without --scheduler-sharding-mode, which is not supported"),
    Foreign("node-selector", "limits vc-scheduler to some nodes; give pods a nodeSelector instead", refused=True),
    _switch("enable-pprof", "serves profiles of a Go program; use py-spy or perf on this process", fine=_FALSE),
    _switch("priority-class", "priority classes always count here", fine=_TRUE),
    Foreign("minimum-feasible-nodes", _ALL_NODES),
    Foreign("minimum-percentage-nodes-to-find", _ALL_NODES),
    Foreign("percentage-nodes-to-find", _ALL_NODES),
    Foreign("node-worker-threads", "one thread decides here, about all nodes at once"),
    Foreign("gate-removal-worker-num", "one thread decides here"),
    _switch("cache-dumper", "`mooring explain` and /decisions tell what the scheduler knows", fine=_FALSE),
    Foreign("cache-dump-dir", "`mooring explain` and /decisions tell what the scheduler knows"),
    Foreign("ignored-provisioners", "volumes are bound as kube-scheduler binds them", refused=True),
    _switch("csi-storage", "storage capacity is always looked at, as kube-scheduler does", fine=_TRUE),
    Foreign("resync-period", "watches are kept current without reading everything again", fine=("0", "0s")),
    Foreign("resource-sync-timeout", "the first read of the cluster is waited for as long as it takes"),
)

FOREIGN: Final = (
    *_SERVING, *_READERS, *_PROFILING, *_VERSIONS, *_METRICS, *_LOGS, *_CONTENT, *_EARLIER, *_VOLCANO
)  # fmt: skip
