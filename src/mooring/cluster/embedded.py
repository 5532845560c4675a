"""The embedded cluster: the Kubernetes API on loopback, with fake nodes, in one process."""

import json
import secrets
import ssl
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from mooring.apiserver.admission import SYSTEM_PRIORITY_CLASSES
from mooring.apiserver.documents import Document, rfc3339
from mooring.apiserver.volcano_admission.review import AdmissionSettings
from mooring.certificates import Certificate, make_certificate
from mooring.cluster.auth.authentication import ADMIN
from mooring.cluster.controllers.controller import Controller, ControllerLoop, Tools, disabled_controllers
from mooring.cluster.controllers.garbage_collector import GarbageCollector
from mooring.cluster.custom_resources.definitions import DEFINITIONS
from mooring.cluster.errors import ApiError
from mooring.cluster.http.api import Api
from mooring.cluster.http.server import HttpServer
from mooring.cluster.kinds import KINDS
from mooring.cluster.kubeconfig import kubeconfig_text
from mooring.cluster.kubelet import Kubelets, node_status
from mooring.cluster.persistence import DataError, SqliteJournal
from mooring.cluster.request_context import system_context
from mooring.cluster.store import HISTORY, Store

#: All controllers. They run in this order.
CONTROLLERS: Final[tuple[type[Controller], ...]] = (
    GarbageCollector,
    *(each for kind in KINDS for each in kind.controllers),
)
_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")


def _admission_settings(admission: bool | AdmissionSettings) -> AdmissionSettings | None:
    if isinstance(admission, bool):
        return AdmissionSettings() if admission else None
    return admission


class EmbeddedCluster:
    """A cluster in this process, for experiments and tests.

    It serves the Kubernetes API over HTTPS on 127.0.0.1 only; clients authenticate with a random token::

        cluster = EmbeddedCluster()
        await cluster.start()
        Path("kubeconfig").write_text(cluster.kubeconfig())
        ...
        await cluster.stop()

    `data` is a folder in which all objects are stored, so that they are available after a restart or a crash.
    """

    def __init__(
        self,
        port: int = 0,
        data: Path | None = None,
        *,
        clock: Callable[[], float] = time.time,
        history: int = HISTORY,
        controllers: bool | str = True,
        definitions: Iterable[Document] = (),
        admission: bool | AdmissionSettings = True,
    ) -> None:
        """``definitions`` are CustomResourceDefinitions that exist from the start.

        ``admission`` has the settings of the rules of Volcano's webhooks. False accepts its objects without them.

        ``controllers`` selects the controllers as ``--controllers`` of kube-controller-manager does, for example
        ``"*,-deployment"``. False runs no controllers and no fake kubelets.
        """
        self._wanted_port = port
        self._data = data
        self._certificate: Certificate | None = None
        self._token = secrets.token_urlsafe(32)
        self.store = Store(history=history)
        self.api = Api(self.store, token=self._token, clock=clock, admission=_admission_settings(admission))
        self._disabled = disabled_controllers(
            controllers if isinstance(controllers, str) else "*", {each.name for each in CONTROLLERS}
        )
        self._with_controllers = bool(controllers)
        self._definitions = tuple(definitions)
        self._journal: SqliteJournal | None = None
        self._loop: ControllerLoop | None = None
        self._kubelets: Kubelets | None = None
        self._server: HttpServer | None = None

    async def start(self) -> None:
        """Load stored objects, create the built-in ones, and serve."""
        if self._data is not None:
            await self._open(self._data)
        if self._certificate is None:
            self._certificate = make_certificate()
        self._server = HttpServer(self.api, tls=_tls(self._certificate))
        self._bootstrap()
        if self._with_controllers:
            tools = Tools(self.api.registry, authority=self.authority)
            enabled = [each for each in CONTROLLERS if each.name not in self._disabled]
            self._loop = ControllerLoop(tools.store, [each(tools) for each in enabled])
            self._kubelets = Kubelets(tools)
            self._loop.start()
            self._kubelets.start()
        try:
            await self._server.start(self._wanted_port)
        except OSError:
            await self.stop()
            raise
        try:
            await self.api.flush()
        except ApiError as error:
            await self.stop()
            raise DataError(error.message) from None

    async def _open(self, folder: Path) -> None:
        self._journal = journal = SqliteJournal(folder)
        self.api.data = folder.resolve()
        await journal.open(self.store)
        self.api.journal = journal
        self.api.custom.load()
        # Keep the token and the certificate, so that existing kubeconfigs stay valid.
        kept = journal.fact("token")
        if kept is None:
            self._certificate = make_certificate()
            journal.set_fact("token", self._token)
            journal.set_fact("certificate", json.dumps(self._certificate))
        else:
            self._token = kept
            self.api.tokens.add(kept, ADMIN)
            self._certificate = Certificate(*json.loads(journal.fact("certificate") or "[]"))

    async def stop(self) -> None:
        """Stop the server, the controllers and the kubelets. Acknowledged changes are on disk."""
        if self._server is not None:
            await self._server.stop()
            self._server = None
        if self._kubelets is not None:
            await self._kubelets.stop()
        if self._loop is not None:
            await self._loop.stop()
        self.api.broadcaster.close()
        if self._journal is not None:
            await self._journal.close()
            self._journal = None

    def add_nodes(
        self,
        count: int,
        *,
        prefix: str = "node-",
        capacity: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        zones: int = 3,
    ) -> list[str]:
        """Add fake nodes in several zones, and return their names. Existing nodes are not changed."""
        resource = self.api.mapper.of("nodes")
        width = len(str(max(count - 1, 0)))
        names: list[str] = []
        for number in range(count):
            name = f"{prefix}{number:0{width}d}"
            names.append(name)
            if self.store.get("nodes", "", name) is None:
                document = fake_node(name, f"zone-{number % zones}", capacity, labels)
                self.api.registry.create(resource, "", document, system_context())
        return names

    def add_devices(self, nodes: Iterable[str], devices: Mapping[str, int]) -> None:
        """Publish devices on nodes: name -> number of devices for each node. Each name is also a DeviceClass."""
        for kind, count in devices.items():
            driver = f"{kind}.example.com"
            selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
            spec: Document = {"selectors": [selector], "extendedResourceName": f"example.com/{kind}"}
            self._ensure("deviceclasses.resource.k8s.io", _device_document("DeviceClass", kind, spec))
            for node in nodes:
                listed = [{"name": f"{kind}-{n}", "attributes": {"index": {"int": n}}} for n in range(count)]
                pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
                spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": listed}
                name = f"{node}-{kind}"
                self._ensure("resourceslices.resource.k8s.io", _device_document("ResourceSlice", name, spec))

    @property
    def keeps_data(self) -> bool:
        """Whether objects are stored on disk."""
        return self._data is not None

    @property
    def url(self) -> str:
        """The URL of the API."""
        port = self._server.port if self._server else self._wanted_port
        return f"https://127.0.0.1:{port}"

    @property
    def token(self) -> str:
        """The token of the administrator."""
        return self._token

    @property
    def authority(self) -> str:
        """The CA certificate of the server, as PEM."""
        return self._certificate.authority if self._certificate else ""

    def kubeconfig(self) -> str:
        """Return a kubeconfig for the administrator."""
        return kubeconfig_text(server=self.url, authority=self.authority, token=self._token)

    def _bootstrap(self) -> None:
        for name in _NAMESPACES:
            self._ensure("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name},
                                        "spec": {}, "status": {}})  # fmt: skip
        for name, value in SYSTEM_PRIORITY_CLASSES.items():
            self._ensure(
                "priorityclasses.scheduling.k8s.io",
                {
                    "apiVersion": "scheduling.k8s.io/v1",
                    "kind": "PriorityClass",
                    "metadata": {"name": name},
                    "value": value,
                    "description": "For what the cluster cannot do without.",
                },
            )

        self._ensure(
            "services",
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {
                    "name": "kubernetes",
                    "namespace": "default",
                    "labels": {"component": "apiserver", "provider": "kubernetes"},
                },
                "spec": {
                    "clusterIP": "10.96.0.1",
                    "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
                },
                "status": {},
            },
        )

        self._bootstrap_delegation()
        for definition in self._definitions:
            self._ensure(DEFINITIONS, definition)
            found = self.store.get(DEFINITIONS, "", definition["metadata"]["name"])
            if found is not None:
                self.api.custom.stored(self.api.mapper.of(DEFINITIONS), found)

    def _bootstrap_delegation(self) -> None:
        """Create what extension API servers read to authenticate requests, and the role that allows it."""
        name = "extension-apiserver-authentication"
        data = {
            "client-ca-file": self.authority,
            "requestheader-client-ca-file": self.authority,
            "requestheader-allowed-names": '["front-proxy-client"]',
            "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
            "requestheader-username-headers": '["X-Remote-User"]',
        }
        place = {"namespace": "kube-system"}
        self._ensure(
            "configmaps",
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **place}, "data": data},
        )
        rule = {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": [name],
            "verbs": ["get", "list", "watch"],
        }
        self._ensure(
            "roles.rbac.authorization.k8s.io",
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": {"name": f"{name}-reader", **place},
                "rules": [rule],
            },
        )

    def _ensure(self, storage: str, document: Document) -> None:
        resource = self.api.mapper.of(storage)
        namespace = document["metadata"].get("namespace", "")
        if self.store.get(storage, namespace, document["metadata"]["name"]) is None:
            try:
                self.api.registry.create(resource, namespace, document, system_context())
            except ApiError as error:
                raise RuntimeError(f"cannot create the initial {resource.kind}: {error.message}") from error


def fake_node(
    name: str, zone: str, capacity: Mapping[str, str] | None = None, labels: Mapping[str, str] | None = None
) -> Document:
    """Return a node as a kubelet would register it."""
    status: Document = {"capacity": dict(capacity)} if capacity else {}
    document: Document = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "topology.kubernetes.io/zone": zone,
                "topology.kubernetes.io/region": "region-0",
                **(labels or {}),
            },
        },
        "spec": {},
        "status": status,
    }
    # The node is ready, so that a scheduler can use it immediately.
    document["status"] = node_status(document, rfc3339(time.time()))
    return document


def _tls(certificate: Certificate) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    # Python loads certificates only from files. This file is deleted immediately.
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(certificate.key + certificate.certificate)
        file.flush()
        context.load_cert_chain(file.name)
    return context


def _device_document(kind: str, name: str, spec: Document) -> Document:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
