"""What people do with kubectl, step by step: commands, what is piped in, and what to wait for."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from tests.e2e.embedded.other_cases import definition
from tests.e2e.embedded.pod_cases import named, pod


class Step(NamedTuple):
    """One command. `until` makes it be repeated until its output holds that text; then the output is compared."""

    command: str
    stdin: str | None = None
    until: str = ""
    #: Run for its effect; its output depends on chance or on the second.
    quiet: bool = False


def _yaml(*objects: dict[str, Any]) -> str:
    return "\n---\n".join(json.dumps(each) for each in objects)


def _node(name: str, zone: str) -> dict[str, Any]:
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    node = named("v1", "Node", name, status={"capacity": amounts, "allocatable": amounts})
    node["metadata"]["labels"] = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
    # What KWOK looks for; the embedded cluster's kubelets care for every node.
    node["metadata"]["annotations"] = {"kwok.x-k8s.io/node": "fake"}
    return node


def _deployment(image: str = "nginx:1.25") -> dict[str, Any]:
    container = {
        "name": "nginx",
        "image": image,
        "resources": {"requests": {"cpu": "100m"}},
        "ports": [{"containerPort": 80}],
    }
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    return named(
        "apps/v1",
        "Deployment",
        "web",
        spec={"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    )


def _workload(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    return named("apps/v1", kind, name, spec={"selector": {"matchLabels": labels}, "template": template, **spec})


def _list() -> dict[str, Any]:
    items = [named("v1", "ConfigMap", name, data={"a": "b"}) for name in ("in-list", "also-in-list")]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _budget() -> dict[str, Any]:
    return named(
        "policy/v1", "PodDisruptionBudget", "web", spec={"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    )


SCRIPT: tuple[Step, ...] = (
    Step("version -o json", quiet=True),
    Step("api-resources --api-group=apps"),
    Step("api-versions", quiet=True),
    Step("auth can-i create pods"),
    Step("get nodes"),
    Step("apply -f -", _yaml(_node("n1", "a"), _node("n2", "b"), _node("n3", "b"))),
    Step("wait --for=condition=Ready nodes --all --timeout=60s"),
    Step("get nodes --no-headers -o custom-columns=N:.metadata.name,CPU:.status.capacity.cpu"),
    Step("create namespace play"),
    Step("get ns play -o jsonpath={.status.phase}"),
    Step("apply -f -", _yaml(_deployment(), _budget())),
    Step("apply -f -", _yaml(_deployment(), _budget())),
    Step("rollout status deployment/web --timeout=60s", quiet=True),
    Step("get deployment web", until="3/3"),
    Step("get deployment web -o wide", until="3/3"),
    Step("get pdb web", until="3"),
    Step("get pods -l app=web -o name", quiet=True),
    Step("describe deployment web"),
    Step("describe pdb web", quiet=True),
    Step("get deployment web -o jsonpath={.spec}"),
    Step("get deployment web -o go-template={{.status.readyReplicas}}"),
    Step("get deployment web -o name"),
    Step("scale deployment web --replicas=5"),
    Step("rollout status deployment/web --timeout=60s", quiet=True),
    Step("get deployment web", until="5/5"),
    Step("scale deployment web --replicas=2 --current-replicas=3"),
    Step("scale deployment web --replicas=2"),
    Step("get deployment web", until="2/2"),
    Step("apply -f -", _yaml(_deployment("nginx:1.26"))),
    Step("rollout status deployment/web --timeout=60s", quiet=True),
    Step("get deployment web -o custom-columns=I:.spec.template.spec.containers[0].image", until="1.26"),
    Step("rollout history deployment/web"),
    Step("rollout undo deployment/web"),
    Step("rollout status deployment/web --timeout=60s", quiet=True),
    Step("set image deployment/web nginx=nginx:1.27"),
    Step("set resources deployment web --limits=cpu=200m"),
    Step("rollout pause deployment/web"),
    Step("rollout resume deployment/web"),
    Step("rollout restart deployment/web", quiet=True),
    Step("rollout status deployment/web --timeout=60s", quiet=True),
    Step("apply --server-side -f -", _yaml(named("v1", "ConfigMap", "ssa", data={"a": "1"}))),
    Step("apply --server-side --field-manager=other -f -", _yaml(named("v1", "ConfigMap", "ssa", data={"a": "2"}))),
    Step(
        "apply --server-side --field-manager=other --force-conflicts -f -",
        _yaml(named("v1", "ConfigMap", "ssa", data={"a": "2"})),
    ),
    Step("get configmap ssa -o jsonpath={.data}"),
    Step("diff -f -", _yaml(named("v1", "ConfigMap", "ssa", data={"a": "2"})), quiet=True),
    Step("create configmap cm --from-literal=k=v"),
    Step("get configmap cm"),
    Step("describe configmap cm"),
    Step("create configmap cm --from-literal=k=v"),
    Step('patch configmap cm -p {"data":{"x":"y"}}'),
    Step('patch configmap cm --type=json -p [{"op":"remove","path":"/data/k"}]'),
    Step('patch configmap cm --type=merge -p {"data":{"z":"1"}}'),
    Step("get configmap cm -o jsonpath={.data}"),
    Step("edit configmap cm"),
    Step("get configmap cm -o jsonpath={.data}"),
    Step("label configmap cm a=b"),
    Step("label configmap cm a=c"),
    Step("label configmap cm a=c --overwrite"),
    Step("annotate configmap cm note=hello"),
    Step("get configmap cm --show-labels"),
    Step("replace -f -", _yaml(named("v1", "ConfigMap", "cm", data={"new": "1"}))),
    Step("delete configmap cm"),
    Step("get configmap cm"),
    Step("create secret generic s --from-literal=a=b"),
    Step("get secret s"),
    Step("create service clusterip svc --tcp=80:8080"),
    Step("create serviceaccount robot"),
    Step("create role r --verb=get,list --resource=pods"),
    Step("create rolebinding rb --role=r --serviceaccount=default:robot"),
    Step("auth can-i list pods --as=system:serviceaccount:default:robot"),
    Step("auth can-i delete pods --as=system:serviceaccount:default:robot"),
    Step("get rolebinding rb -o wide"),
    Step("create priorityclass high --value=1000"),
    Step("get priorityclass high"),
    Step("create quota q --hard=configmaps=100"),
    Step("run one --image=busybox --restart=Never"),
    Step("wait --for=jsonpath={.status.phase}=Running pod/one --timeout=60s"),
    Step("get pod one", until="Running"),
    Step("get pod one -o jsonpath={.status.conditions[?(@.type=='Ready')].status}"),
    Step("delete pod one"),
    Step(
        "apply -f -",
        _yaml(pod("huge", containers=[{"name": "c", "image": "x", "resources": {"requests": {"cpu": "100"}}}])),
    ),
    Step("wait --for=condition=PodScheduled=False pod/huge --timeout=60s"),
    Step("get pod huge -o jsonpath={.status.conditions[0].message}"),
    Step(
        "get events --field-selector involvedObject.name=huge -o jsonpath={.items[*].reason}", until="FailedScheduling"
    ),
    Step("describe pod huge", until="FailedScheduling"),
    Step("delete pod huge --now"),
    Step("apply -f -", _yaml(pod("bad", restartPolicy="Sometimes"))),
    Step("apply -f -", _yaml(pod("bad", foo="bar"))),
    Step("apply -f - --validate=warn --dry-run=server", _yaml(pod("bad", foo="bar"))),
    Step("taint nodes n1 k=v:NoSchedule"),
    Step("taint nodes n1 k=v:NoSchedule"),
    Step("taint nodes n1 k-"),
    Step("cordon n2"),
    Step("get node n2 --no-headers -o custom-columns=U:.spec.unschedulable"),
    Step("uncordon n2"),
    Step("drain n3 --force --ignore-daemonsets --delete-emptydir-data --timeout=60s", quiet=True),
    Step("get node n3 -o jsonpath={.spec.unschedulable}"),
    Step("uncordon n3"),
    Step("create job j --image=busybox -- sleep 1", quiet=True),
    Step("get job j -o jsonpath={.spec.backoffLimit}"),
    Step("delete job j"),
    Step("apply -f -", _yaml(_workload("StatefulSet", "db", replicas=2, serviceName="db"))),
    Step("rollout status statefulset/db --timeout=60s", quiet=True),
    Step("get statefulset db", until="2/2"),
    Step("get pods -l app=db -o name"),
    Step("get pod db-1 -o jsonpath={.spec.hostname}.{.spec.subdomain}"),
    Step("scale statefulset db --replicas=1"),
    Step("get pods -l app=db -o name", until="pod/db-0\n"),
    Step("get statefulset db -o jsonpath={.status.readyReplicas}", until="1"),
    Step("set image statefulset/db c=y"),
    Step("rollout status statefulset/db --timeout=60s", quiet=True),
    Step("rollout history statefulset/db", until="2"),
    Step("rollout undo statefulset/db"),
    Step("rollout status statefulset/db --timeout=60s", quiet=True),
    Step("rollout history statefulset/db", until="3"),
    Step("get pod db-0 -o jsonpath={.spec.containers[0].image}", until="x"),
    Step("delete statefulset db"),
    Step("apply -f -", _yaml(_workload("DaemonSet", "agent"))),
    Step("rollout status daemonset/agent --timeout=60s", quiet=True),
    Step("get daemonset agent"),
    Step("set image daemonset/agent c=y"),
    Step("rollout status daemonset/agent --timeout=60s", quiet=True),
    Step("get daemonset agent -o wide", until="y"),
    Step("get daemonset agent -o jsonpath={.status.updatedNumberScheduled}", until="3"),
    Step("rollout history daemonset/agent", until="2"),
    Step("rollout undo daemonset/agent --to-revision=1"),
    Step("rollout status daemonset/agent --timeout=60s", quiet=True),
    Step("rollout history daemonset/agent", until="3"),
    Step("get daemonset agent -o wide", until=" x "),
    Step("delete daemonset agent"),
    Step("apply -f -", _yaml(definition())),
    Step("wait --for=condition=Established crd/foos.ex.io --timeout=60s"),
    Step("apply -f -", _yaml(named("ex.io/v1", "Foo", "f", spec={"n": 3}))),
    Step("get foos"),
    Step("apply -f -", _yaml(named("ex.io/v1", "Foo", "g", spec={"n": 9}))),
    Step("explain foos.spec --recursive"),
    Step("delete foo f"),
    Step("delete crd foos.ex.io"),
    Step("create deployment lone --image=x --replicas=1 --dry-run=client -o yaml"),
    Step("apply -f -", _yaml(named("ex.io/v9", "Nonsense", "x"))),
    Step("apply -f -", _yaml(named("v1", "Nonsense", "x"))),
    Step("apply -f -", _yaml(_list())),
    Step("create -f -", _yaml(_list())),
    Step("get configmaps in-list also-in-list -o name"),
    Step("apply -f -", _yaml(_deployment(), _list())),
    Step('patch deployment web -p {"spec":{"template":{"spec":{"containers":[{"name":"new","image":"x"}]}}}}'),
    Step("get deployment web -o jsonpath={.spec.template.spec.containers[*].name}"),
    Step('patch deployment web --type=json -p [{"op":"replace","path":"/metadata/labels","value":{"a":"b"}}]'),
    Step("get configmap kube-root-ca.crt -n play -o name", until="kube-root-ca.crt"),
    Step("create quota limit -n play --hard=configmaps=2"),
    Step("get quota limit -n play -o jsonpath={.status}", until='"used":{"configmaps":"1"}'),
    Step("create configmap one -n play"),
    Step("create configmap two -n play"),
    Step("describe quota limit -n play", until="2     2"),
    Step("get pods -n nowhere"),
    Step("get nonsense"),
    Step("get pod nobody"),
    Step("delete deployment web"),
    Step("get deployments,pdb,replicasets -l app=web", until="No resources"),
    Step("delete namespace play"),
    Step("get ns play"),
)
