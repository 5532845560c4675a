"""Unsupported flags of kube-scheduler, its earlier versions and vc-scheduler, each with the reason."""

from __future__ import annotations

from typing import Final

from mooring.cli.flags.go_flags import UnsupportedFlag

_TRUE, _FALSE = ("true", "1", "t", "True", "TRUE"), ("false", "0", "f", "False", "FALSE")
_JSON = "application/json"


def _switch(name: str, text: str, *, is_error: bool = False, accepted: tuple[str, ...] = ()) -> UnsupportedFlag:
    return UnsupportedFlag(name, text, is_error=is_error, takes_value=False, accepted=accepted)


_SERVING: Final = (
    _switch("disable-http2-serving", "the endpoints only support HTTP/1.1", accepted=_TRUE),
    UnsupportedFlag("http2-max-streams-per-connection", "limits HTTP/2 streams; the endpoints only support HTTP/1.1"),
    UnsupportedFlag(
        "tls-sni-cert-key",
        "selects certificates by SNI; Mooring serves a single certificate: use --tls-cert-file",
        is_error=True,
    ),
    UnsupportedFlag(
        "tls-curve-preferences",
        "selects key exchanges by Go's numbers; Mooring uses OpenSSL: configure them in openssl.cnf",
        is_error=True,
    ),
)
_AUTHENTICATION: Final = (
    UnsupportedFlag(
        "requestheader-client-ca-file",
        "authenticating proxies are not supported: clients authenticate with tokens or certificates (--client-ca-file)",
        is_error=True,
    ),
    *(
        UnsupportedFlag(
            f"requestheader-{name}", "has no effect without --requestheader-client-ca-file, which is not supported"
        )
        for name in ("allowed-names", "extra-headers-prefix", "group-headers", "uid-headers", "username-headers")
    ),
)
_PROFILING: Final = (
    _switch("profiling", "profiles a Go program; use py-spy or perf on this process instead", accepted=_FALSE),
    _switch("contention-profiling", "profiles the locks of a Go program; Mooring has none", accepted=_FALSE),
)
_VERSIONS: Final = (
    UnsupportedFlag(
        "min-compatibility-version",
        "has no effect on a scheduler",
        accepted=tuple(f"{prefix}1.{minor}" for prefix in ("", "kube=") for minor in (35, 36, 37)),
    ),
)
_METRICS: Final = (
    UnsupportedFlag(
        "allow-metric-labels", "limits the values of labels; Mooring serves all of them: drop them when scraping"
    ),
    UnsupportedFlag(
        "allow-metric-labels-manifest",
        "limits the values of labels; Mooring serves all of them: drop them when scraping",
    ),
    UnsupportedFlag("show-hidden-metrics-for-version", "shows deprecated metrics; Mooring hides none"),
)
_LOGS: Final = (
    UnsupportedFlag("log-flush-frequency", "log lines are written immediately"),
    UnsupportedFlag("log-json-info-buffer-size", "log lines are written immediately", accepted=("0",)),
    UnsupportedFlag("log-text-info-buffer-size", "log lines are written immediately", accepted=("0",)),
    _switch("log-json-split-stream", "all log lines go to standard error", accepted=_FALSE),
    _switch("log-text-split-stream", "all log lines go to standard error", accepted=_FALSE),
    UnsupportedFlag("vmodule", "sets the verbosity per Go source file; use -v"),
    _switch("logtostderr", "log lines always go to standard error; redirect them", accepted=_TRUE),
    _switch("alsologtostderr", "log lines only go to standard error", accepted=_FALSE),
    _switch("one-output", "every log line is written once", accepted=_TRUE),
    _switch("add-dir-header", "log lines do not contain source files", accepted=_FALSE),
    _switch("skip-headers", "log lines always have a header; use --logging-format=json for programs", accepted=_FALSE),
    _switch("skip-log-headers", "Mooring writes no log files", accepted=_TRUE + _FALSE),
    UnsupportedFlag("stderrthreshold", "all log lines go to standard error"),
    UnsupportedFlag("log-dir", "log lines go to standard error, not to files; redirect them"),
    UnsupportedFlag("log-file", "log lines go to standard error, not to a file; redirect them"),
    UnsupportedFlag("log-file-max-size", "Mooring writes no log files"),
    UnsupportedFlag("log-backtrace-at", "names a line of Go source code"),
)
_CONTENT: Final = (
    UnsupportedFlag(
        "kube-api-content-type", "requests are always JSON, which is as fast for this client", accepted=(_JSON,)
    ),
)
_POLICY = "was removed from kube-scheduler 1.23; write a --config file"
#: Flags that were removed from kube-scheduler, but are still used in manifests.
_EARLIER: Final = (
    UnsupportedFlag("address", "was removed from kube-scheduler; use --bind-address and --secure-port", is_error=True),
    UnsupportedFlag(
        "port",
        "served plain HTTP and was removed from kube-scheduler; use --secure-port",
        is_error=True,
        accepted=("0",),
    ),
    *(
        UnsupportedFlag(name, _POLICY, is_error=True)
        for name in ("policy-config-file", "policy-configmap", "policy-configmap-namespace", "algorithm-provider")
    ),
    _switch("use-legacy-policy-config", _POLICY, is_error=True, accepted=_FALSE),
    UnsupportedFlag(
        "hard-pod-affinity-symmetric-weight",
        "was removed from kube-scheduler; set hardPodAffinityWeight of InterPodAffinityArgs in --config",
        is_error=True,
    ),
    UnsupportedFlag(
        "failure-domains", "was removed from kube-scheduler; use topologyKey in pods' affinity instead", is_error=True
    ),
    UnsupportedFlag(
        "lock-object-name", "is the old name of --leader-elect-resource-name; use that", is_error=True
    ),
    UnsupportedFlag(
        "lock-object-namespace", "is the old name of --leader-elect-resource-namespace; use that", is_error=True
    ),
)  # fmt: skip
_ALL_NODES = "batch sessions always evaluate all nodes"
_VOLCANO: Final = (
    _switch(
        "disable-default-scheduler-config",
        "an invalid --scheduler-conf is never replaced by the default",
        accepted=_TRUE + _FALSE,
    ),
    UnsupportedFlag(
        "scheduler-sharding-mode",
        "sharding nodes among schedulers is not supported; remove the flag",
        is_error=True,
        accepted=("none",),
    ),
    UnsupportedFlag(
        "scheduler-sharding-name", "has no effect without --scheduler-sharding-mode, which is not supported"
    ),
    _switch("enable-pprof", "profiles a Go program; use py-spy or perf on this process", accepted=_FALSE),
    _switch("priority-class", "priority classes are always used", accepted=_TRUE),
    UnsupportedFlag("minimum-feasible-nodes", _ALL_NODES),
    UnsupportedFlag("minimum-percentage-nodes-to-find", _ALL_NODES),
    UnsupportedFlag("percentage-nodes-to-find", _ALL_NODES),
    UnsupportedFlag("node-worker-threads", "one thread evaluates all nodes at once"),
    UnsupportedFlag("gate-removal-worker-num", "scheduling gates are removed concurrently, without worker threads"),
    _switch("cache-dumper", "use `mooring explain` and /decisions to inspect the scheduler", accepted=_FALSE),
    UnsupportedFlag("cache-dump-dir", "use `mooring explain` and /decisions to inspect the scheduler"),
    UnsupportedFlag("ignored-provisioners", "volumes are bound as kube-scheduler binds them", is_error=True),
    _switch("csi-storage", "storage capacity is always checked, as in kube-scheduler", accepted=_TRUE),
    UnsupportedFlag("resync-period", "watches do not need a periodic resync", accepted=("0", "0s")),
    UnsupportedFlag("resource-sync-timeout", "Mooring waits for the initial list without a timeout"),
)

UNSUPPORTED_FLAGS: Final = (
    *_SERVING, *_AUTHENTICATION, *_PROFILING, *_VERSIONS, *_METRICS, *_LOGS, *_CONTENT, *_EARLIER, *_VOLCANO
)  # fmt: skip
