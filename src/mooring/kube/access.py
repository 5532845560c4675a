"""The address of an API server and the credentials for it, and the rules for finding them.

A `repr` contains no secrets, so that an Access can be logged.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from mooring.kube.client_errors import AccessError
from mooring.kube.environment_proxy import environment_proxy

#: Host names and addresses, including IPv6 addresses with a zone.
_HOST: Final = re.compile(r"[\w.:%-]+")

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class ExecPlugin:
    """A credential plugin of a kubeconfig: a program that prints credentials."""

    command: str
    api_version: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    install_hint: str = ""
    provide_cluster_info: bool = False
    #: The cluster's settings for the plugin: the extension `client.authentication.k8s.io/exec`.
    cluster_config: object = field(default=None, repr=False)


@dataclass(frozen=True)
class User:
    """The credentials of a user. Certificates are PEM data or files; files are reloaded when they change."""

    token: str = field(default="", repr=False)
    token_file: str = ""
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    certificate_file: str = ""
    key: bytes = field(default=b"", repr=False)
    key_file: str = ""
    exec_plugin: ExecPlugin | None = None
    #: Impersonation headers.
    impersonation: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Access:
    """One API server, the CA to trust, and the credentials."""

    server: str
    user: User = User()
    #: The certificates to trust, as PEM; None means the system's certificates.
    ca: bytes | None = field(default=None, repr=False)
    #: The file that contains them, if any. It is reloaded when it changes.
    ca_file: str = ""
    insecure: bool = False
    tls_server_name: str = ""
    proxy: str = field(default="", repr=False)
    #: The default namespace of commands.
    namespace: str = "default"
    #: The source of the settings, for messages.
    origin: str = ""
    #: Warnings about these settings, to be logged once.
    warnings: tuple[str, ...] = ()
    #: The extensions of the cluster in the kubeconfig, by name.
    extensions: Mapping[str, object] = field(default_factory=dict, repr=False)


def load_access(
    *,
    kubeconfig: str = "",
    master: str = "",
    context: str = "",
    env: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> Access:
    """Find the cluster and the credentials. Raises AccessError.

    An explicit kubeconfig comes first, then the files of $KUBECONFIG, then the pod's own service account, then
    `~/.kube/config`. `master` overrides the server's address.
    """
    from mooring.kube.kubeconfig import load_kubeconfig

    home = Path(env.get("HOME") or Path.home(), ".kube", "config")
    if kubeconfig:
        found = load_kubeconfig([Path(kubeconfig).expanduser()], context=context, master=master, must_exist=True)
    elif files := [each for each in env.get("KUBECONFIG", "").split(os.pathsep) if each]:
        paths = [Path(each).expanduser() for each in dict.fromkeys(files)]
        found = load_kubeconfig(paths, context=context, master=master)
    elif not context and (inside := load_in_cluster(env, service_account)) is not None:
        found = replace(inside, server=check_server(master, "--master")) if master else inside
    elif home.exists():
        found = load_kubeconfig([home], context=context, master=master)
    elif master:
        found = Access(server=check_server(master, "--master"), origin="--master")
    else:
        raise AccessError(
            "no cluster is configured: this is not a pod, $KUBECONFIG is not set and ~/.kube/config does not exist; "
            "give --kubeconfig FILE"
        )
    return finished(found, env)


def load_in_cluster(env: Mapping[str, str], service_account: Path = SERVICE_ACCOUNT) -> Access | None:
    """Return the access of the pod's service account, or None outside of a pod."""
    files = in_cluster_files(env, service_account)
    if files is None:
        return None
    user = User(token_file=str(files.token))
    return Access(
        server=files.server,
        user=user,
        ca=files.ca,
        ca_file=files.ca_file,
        namespace=files.namespace,
        origin="the pod's service account",
    )


def finished(access: Access, env: Mapping[str, str]) -> Access:
    """Add the proxy of the environment, and warnings about insecure settings."""
    warnings = list(access.warnings)
    if access.insecure:
        warnings.append(
            f"{access.origin}: insecure-skip-tls-verify is set: the certificate of {access.server} is not verified; "
            "set certificate-authority instead"
        )
    if access.server.startswith("http:") and access.user != User():
        # Do not send secrets without encryption; client-go does the same.
        warnings.append(f"{access.origin}: {access.server} is not HTTPS, so credentials are not sent to it")
        access = replace(access, user=User(impersonation=access.user.impersonation))
    proxy = access.proxy or environment_proxy(access.server, env)
    if proxy and urlsplit(proxy).scheme not in {"http", "https"}:
        raise AccessError(
            f"{access.origin}: proxy-url: only http and https proxies are supported, not {urlsplit(proxy).scheme}"
        )
    return replace(access, proxy=proxy, warnings=tuple(warnings))


def check_server(server: str, where: str) -> str:
    """Return a server's address with a scheme and without a query or fragment. Raises AccessError."""
    text = server if "://" in server else f"http://{server}"
    try:
        parts = urlsplit(text)
        usable = parts.scheme in {"http", "https"} and bool(_HOST.fullmatch(parts.hostname or "")) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise AccessError(f"{where}: {server!r} is not the address of a server; write one such as https://host:6443")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


# The service account of a pod


class InClusterFiles(NamedTuple):
    """The settings of a pod's service account."""

    server: str
    token: Path
    ca: bytes | None
    #: Empty if there is no file.
    ca_file: str
    namespace: str


def in_cluster_files(env: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> InClusterFiles | None:
    """Return the service account of this pod, or None outside of a pod. Raises AccessError if it is incomplete."""
    host, port = env.get("KUBERNETES_SERVICE_HOST", ""), env.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        return None
    token = folder / "token"
    if not token.is_file():
        raise AccessError(
            f"{token}: this is a pod without a service account token; set automountServiceAccountToken, or give "
            "--kubeconfig FILE"
        )
    file = folder / "ca.crt"
    try:
        ca, ca_file = file.read_bytes(), str(file)
    except FileNotFoundError:
        ca, ca_file = None, ""
    except OSError as error:
        raise AccessError(f"{file}: {error.strerror}") from None
    shown = f"[{host}]" if ":" in host else host
    return InClusterFiles(f"https://{shown}:{port}", token, ca, ca_file, _namespace(env, folder))


def _namespace(env: Mapping[str, str], folder: Path) -> str:
    if given := env.get("POD_NAMESPACE"):
        return given
    try:
        return (folder / "namespace").read_text().strip() or "default"
    except OSError:
        return "default"
