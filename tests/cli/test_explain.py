"""`mooring explain`: from manifests, from a running scheduler, and what it says when neither will do."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result

from mooring.cli.main import main
from mooring.observe.explanation import Explanation
from tests.docs.commands import ROOT

CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "2", memory: 4Gi, pods: "10"}}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
---
apiVersion: v1
kind: Node
metadata: {name: n3}
spec: {taints: [{key: k, value: v, effect: NoSchedule}]}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: placed, namespace: shop}
spec: {nodeName: n1, containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: big}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "100"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: gated}
spec: {schedulingGates: [{name: example.com/wait}], containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: foreign}
spec: {schedulerName: other, containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: picky}
spec: {nodeSelector: {never: mind}, containers: [{name: c, image: i}]}
"""


@pytest.fixture
def manifests(tmp_path):
    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER)
    return str(file)


def explain(*arguments: str, **env: str) -> Result:
    return CliRunner().invoke(
        main, ["explain", "pod", *arguments], env={"KUBECONFIG": "/nonexistent/kubeconfig", **env}
    )


@pytest.mark.parametrize(
    ("pod", "says"),
    [
        (
            "web",
            ["Pod default/web is pending.", "what would be decided now", "Chosen: n2", "3 node(s) evaluated"],
        ),
        ("web", ["NodeResourcesFit", "2 feasible"]),
        ("shop/placed", ["Pod shop/placed is on node n1.", "taken off its node", "Chosen: n2"]),
        (
            "big",
            ["0/3 nodes are available", "Insufficient cpu", "n1, n2", "untolerated taint", "Preemption does not help"],
        ),
        ("big", ["Retried for NodeResourcesFit on", "Node added, allocatable changed"]),
        ("gated", ["is gated", "Gated by SchedulingGates", "example.com/wait"]),
        ("picky", ["node(s) didn't match Pod's node affinity/selector (evicting pods would not help)"]),
    ],
)
def test_decided_again_from_manifests(manifests, pod, says):
    result = explain(pod, "-f", manifests)
    assert result.exit_code == 0, result.output
    for text in says:
        assert text in result.stdout


def test_it_says_that_extenders_are_left_out(manifests, tmp_path):
    config = tmp_path / "scheduler.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "extenders: [{urlPrefix: 'http://nowhere.invalid', filterVerb: filter}]\n"
    )
    result = explain("web", "-f", manifests, "--config", str(config))
    assert "Chosen: n2" in result.stdout
    assert "Extenders were not called." in result.stdout


@pytest.mark.parametrize(("output", "load"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_for_programs(manifests, output, load):
    result = explain("web", "-f", manifests, "-o", output)
    found = load(result.stdout)
    assert found["state"] == "pending"
    assert found["decision"]["candidates"][0]["node"] == found["decision"]["node"] == "n2"
    for each in found["decision"]["candidates"]:
        assert each["total"] == sum(each["scores"].values())
    assert msgspec.convert(found, Explanation).pod == "default/web"


CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c}
spec:
  devices:
    requests:
      - name: r
        exactly:
          deviceClassName: gpu
          selectors: [{cel: {expression: "device.attributes['gpu.example.com'].model == 'huge'"}}]
---
apiVersion: v1
kind: Pod
metadata: {name: needs-huge}
spec:
  resourceClaims: [{name: gpu, resourceClaimName: c}]
  containers: [{name: c, image: i}]
"""


def test_it_says_which_device_failed_which_selector(tmp_path):
    (tmp_path / "claim.yaml").write_text(CLAIM)
    given = ("needs-huge", "-f", str(ROOT / "examples/devices"), "-f", str(tmp_path / "claim.yaml"))
    (found,) = json.loads(explain(*given, "-o", "json").stdout)["decision"]["devices"]
    reason = "claim default/c: selector #0 does not match: device.attributes['gpu.example.com'].model == 'huge'"
    examples = ["gpu.example.com/node-gpu/gpu-0", "gpu.example.com/node-gpu/gpu-1"]
    where = {"node": "node-gpu", "claim": "default/c", "request": "r"}
    assert found == {**where, "reason": reason, "count": 2, "examples": examples}
    shown = explain(*given).stdout
    assert "DEVICES THAT WERE NOT ALLOCATED" in shown
    assert reason in shown


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("nobody", "-f", "{}"), 1, "pod default/nobody is not there"),
        (("web", "-n", "shop", "-f", "{}"), 1, "pod shop/web is not there"),
        (("foreign", "-f", "{}"), 1, 'is for scheduler "other", and there are only profiles for default-scheduler'),
        (("a/b/c", "-f", "{}"), 2, "give NAMESPACE/NAME"),
        (("/c", "-f", "{}"), 2, "give NAMESPACE/NAME"),
        (("web", "-f", "/nonexistent.yaml"), 1, "/nonexistent.yaml: no such file"),
        (("web", "--scheduler", "ftp://x"), 2, "give a URL such as"),
        (("web", "--scheduler", "http://example.com", "--token", "t"), 2, "not sent unencrypted"),
        (("web", "--token", "t", "--token-file", "f"), 2, "exclude each other"),
        (("web", "--token-file", "/nonexistent"), 1, "/nonexistent: No such file"),
        (("web", "--certificate-authority", "/nonexistent"), 1, "/nonexistent: contains no PEM certificates"),
        (("web", "--scheduler", "http://127.0.0.1:1"), 1, "No running Mooring answers at http://127.0.0.1:1"),
    ],
)
def test_what_cannot_be_told(manifests, arguments, code, says):
    result = explain(*(manifests if each == "{}" else each for each in arguments))
    assert (result.exit_code, says in result.output) == (code, True), result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)


class Scheduler(HTTPServer):
    """A scheduler that knows one pod, for bearers of one token."""

    def __init__(self, answer: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Scheduler

    def do_GET(self):
        allowed = self.headers.get("Authorization") == "Bearer letmein"
        known = self.path == "/decisions/default/web"
        self.send_response(401 if not allowed else 200 if known else 404)
        self.end_headers()
        self.wfile.write(b"Unauthorized: no token\n" if not allowed else self.server.answer if known else b"unknown\n")

    def log_message(self, format, *args):
        pass


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    server = Scheduler(msgspec.json.encode(Explanation(pod="default/web", state="bound", node="n7")))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_running_scheduler_is_asked(scheduler, tmp_path):
    token = tmp_path / "token"
    token.write_text("letmein\n")
    for arguments in (["--token", "letmein"], ["--token-file", str(token)]):
        result = explain("web", "--scheduler", scheduler.url, *arguments)
        assert (result.exit_code, result.stdout) == (0, "Pod default/web is on node n7.\n")


@pytest.mark.parametrize(
    ("pod", "token", "says"),
    [
        ("web", "wrong", "denied access (Unauthorized: no token); give --token or --token-file"),
        ("nobody", "letmein", "has no answer: unknown"),
    ],
)
def test_a_scheduler_that_does_not_tell(scheduler, pod, token, says):
    result = explain(pod, "--scheduler", scheduler.url, "--token", token)
    assert result.exit_code == 1
    assert says in result.output
    assert "The cluster cannot be read either" in result.output


def test_what_answers_may_be_something_else(scheduler):
    scheduler.answer = b"<html>"
    result = explain("web", "--scheduler", scheduler.url, "--token", "letmein")
    assert (result.exit_code, "is not Mooring" in result.output) == (1, True)


def test_a_server_that_is_not_there_is_told_in_two_lines(tmp_path, monkeypatch):
    monkeypatch.setattr("mooring.kube.rest._TRIES", 0)
    config = tmp_path / "config"
    config.write_text(
        "current-context: c\ncontexts: [{name: c, context: {cluster: c}}]\n"
        "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n"
    )
    result = explain("web", "--scheduler", "http://127.0.0.1:1", "--kubeconfig", str(config))
    assert (result.exit_code, result.stdout, len(result.stderr.splitlines())) == (1, "", 2), result.output
    assert "The cluster cannot be read either: https://127.0.0.1:1 cannot be reached" in result.stderr


async def test_one_who_may_not_read_the_cluster_is_told_who_may(tmp_path):
    import asyncio

    from tests.kube.server import Api, Fault

    file = tmp_path / "kubeconfig"
    async with Api() as api:
        api.fault = lambda _request: Fault(status=403, body={"message": "nodes is forbidden", "reason": "Forbidden"})
        file.write_text(
            "current-context: c\ncontexts: [{name: c, context: {cluster: c}}]\n"
            f"clusters: [{{name: c, cluster: {{server: '{api.url}'}}}}]\n"
        )
        result = await asyncio.to_thread(explain, "web", "--scheduler", "http://127.0.0.1:1", "--kubeconfig", str(file))
    assert result.exit_code == 1
    assert "nodes is forbidden (403 Forbidden); use a --context or --kubeconfig that can list nodes" in result.stderr


async def test_the_cluster_is_read_where_no_scheduler_answers(tmp_path):
    """The listed objects are decided about, and why they are is said."""
    import asyncio

    from tests.kube.server import Api

    async with Api() as api:
        for raw in yaml.safe_load_all(CLUSTER):
            kind, meta = raw["kind"], raw["metadata"]
            meta.setdefault("uid", meta["name"])
            if kind == "Pod":
                meta.setdefault("namespace", "default")
                path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
            else:
                path = f"/api/v1/nodes/{meta['name']}"
            api.put(path, raw)
        file = tmp_path / "kubeconfig"
        cluster = {"name": "c", "cluster": {"server": str(api.url)}}
        context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
        document = {
            "apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [cluster], "contexts": [context],
            "users": [{"name": "u", "user": {}}],
        }  # fmt: skip
        file.write_text(yaml.safe_dump(document))
        result = await asyncio.to_thread(explain, "web", "--scheduler", "http://127.0.0.1:1", "--kubeconfig", str(file))
    assert result.exit_code == 0, result.output
    assert "No running Mooring answers at http://127.0.0.1:1" in result.stdout
    assert "Chosen: n2" in result.stdout
    # This server does not have all kinds; they are in one line.
    (note,) = [line for line in result.stderr.splitlines() if line.startswith("note: ")]
    assert re.match("note: ignored, because they cannot be read: Namespace, Service, .*, StorageClass, ", note)


def test_a_watch_prints_the_explanation_when_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    from mooring.cli.scheduler_client import NoAnswer, SchedulerClient
    from mooring.observe.explanation import Explanation

    pending, bound = (Explanation(pod="default/web", state=state, node="n1") for state in ("pending", "bound"))
    answers = iter([pending, pending, bound, bound])

    def explanation(_client: SchedulerClient, key: str) -> Explanation:
        assert key == "default/web"
        found = next(answers, None)
        if found is None:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr("mooring.cli.explain._WATCH_SECONDS", 0.0)
    monkeypatch.setattr(SchedulerClient, "explanation", explanation)
    result = explain("web", "--watch")
    assert result.exit_code == 130
    assert result.stdout == (
        "Pod default/web is pending. There was no scheduling attempt yet.\n\nPod default/web is on node n1.\n"
    )

    def silent(_client: SchedulerClient, key: str) -> Explanation:
        raise NoAnswer("No running Mooring answers.")

    monkeypatch.setattr(SchedulerClient, "explanation", silent)
    result = explain("web", "-w")
    assert (result.exit_code, result.stderr) == (1, "No running Mooring answers.\n")
    assert explain("web", "-w", "-f", "x").exit_code == 2


@pytest.mark.parametrize(
    ("enabled", "enforced"),
    [(["gang", "proportion"], True), (["gang", "capacity"], True), (["gang", "drf"], False), ([], None), (None, None)],
)
def test_whether_queue_limits_count_depends_on_the_plugins_of_the_running_scheduler(
    enabled: list[str] | None, enforced: bool | None
) -> None:
    from mooring.cli.explain import _with_plugins
    from mooring.cli.scheduler_client import NoAnswer, SchedulerClient
    from mooring.controllers.gang_explanation import Facts
    from mooring.loading.plugin_rows import PluginRow

    class Client(SchedulerClient):
        def __init__(self) -> None: ...

        def plugins(self) -> list[PluginRow]:
            if enabled is None:
                raise NoAnswer("no scheduler")
            names = dict.fromkeys(enabled, "volcano")
            return [
                PluginRow(name=name, profile=profile, source="built in", state="running", points=("session",))
                for name, profile in names.items()
            ]

    assert _with_plugins(Facts(None), Client()).enforces_capability is enforced


# Plugins that hold pods, from manifests

HOLDING = """
from mooring.framework import PermitWait, Plugin, Status


class Holding(Plugin):
    def pre_enqueue(self, pod):
        return Status.unresolvable("not approved yet") if pod.name == "picky" else None

    def permit(self, state, pod, node_name):
        return PermitWait(90)
"""


@pytest.mark.parametrize(
    ("pod", "text", "field"),
    [
        ("web", "At Permit it would wait for Holding (timeout 1m30s).", {"plugin": "Holding", "timeoutSeconds": 90.0}),
        ("picky", "Pod default/picky is gated: the PreEnqueue plugin Holding holds it.", "not approved yet"),
    ],
)
def test_plugins_that_would_hold_a_pod(manifests, tmp_path, pod, text, field):
    (tmp_path / "holding.py").write_text(HOLDING)
    plugin = ("--plugin", f"Holding={tmp_path / 'holding.py'}")
    assert text in explain(pod, "-f", manifests, *plugin).stdout
    found = json.loads(explain(pod, "-f", manifests, *plugin, "-o", "json").stdout)
    if isinstance(field, dict):
        assert field.items() <= found["decision"]["permit"][0].items()
        assert "heldBy" not in found
    else:
        assert (found["waiting"]["gatedBy"], found["waiting"]["gateReasons"]) == ("Holding", [field])


def test_the_victims_of_a_pod_that_would_preempt(manifests, tmp_path):
    more = tmp_path / "more.yaml"
    more.write_text(
        "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 10\n---\n"
        "apiVersion: v1\nkind: Pod\nmetadata: {name: vip}\nspec: {priorityClassName: high, nodeSelector: {n: a},"
        " containers: [{name: c, image: i, resources: {requests: {cpu: '4'}}}]}\n---\n"
        "apiVersion: v1\nkind: Pod\nmetadata: {name: low}\nspec: {nodeName: only,"
        " containers: [{name: c, image: i, resources: {requests: {cpu: '3'}}}]}\n---\n"
        "apiVersion: v1\nkind: Node\nmetadata: {name: only, labels: {n: a}}\n"
        "status: {allocatable: {cpu: '4', memory: 4Gi, pods: '10'}}\n"
    )
    result = explain("vip", "-f", manifests, "-f", str(more))
    assert "Preempting pods on only\n  evicting default/low" in result.stdout
    found = json.loads(explain("vip", "-f", manifests, "-f", str(more), "-o", "json").stdout)
    assert found["decision"]["victims"] == found["decision"]["preemption"]["victims"] == ["default/low"]
