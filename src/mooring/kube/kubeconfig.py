"""Loading of kubeconfig files: reads, merges and checks them as kubectl does.

Hand-written because no small library merges several files and reports the file and line of an error.
"""

import base64
import binascii
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from mooring.api.decode_errors import path_text, type_problem
from mooring.api.yaml_nodes import ReadError, Step
from mooring.api.yaml_reader import find_line, read_documents
from mooring.kube.access import Access, ExecPlugin, User, check_server
from mooring.kube.client_errors import AccessError

EXEC_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_EXEC_SETTINGS: Final = "client.authentication.k8s.io/exec"
#: The characters of a header name besides letters and digits; others are escaped.
_LEGAL_IN_NAMES: Final = "!#$&'*+-.^_`|~"
T = TypeVar("T")


class _Entry(msgspec.Struct, rename="kebab"):
    """The base of the structs of a kubeconfig. Unknown fields are ignored, as kubectl does."""


class _Named(msgspec.Struct):
    name: str = ""


class _Extension(_Named):
    extension: Any = None


class _Cluster(_Entry):
    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    extensions: list[_Extension] = []


class _EnvVar(_Named):
    value: str = ""


class _Exec(msgspec.Struct, rename="camel"):
    command: str = ""
    api_version: str = ""
    args: list[str] = []
    env: list[_EnvVar] = []
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class _User(_Entry):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    exec: _Exec | None = None
    auth_provider: Any = None
    as_user: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: list[str] = []
    as_user_extra: dict[str, list[str]] = {}


class _Context(_Entry):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(_Named):
    cluster: _Cluster = msgspec.field(default_factory=_Cluster)


class _NamedUser(_Named):
    user: _User = msgspec.field(default_factory=_User)


class _NamedContext(_Named):
    context: _Context = msgspec.field(default_factory=_Context)


class _File(_Entry):
    current_context: str = ""
    clusters: list[_NamedCluster] = []
    users: list[_NamedUser] = []
    contexts: list[_NamedContext] = []


class _Place(NamedTuple):
    """A part of a file, for error messages and relative paths."""

    path: Path
    text: str = ""
    steps: tuple[Step, ...] = ()

    def error(self, problem: str, *steps: Step) -> AccessError:
        path = (*self.steps, *steps)
        line = find_line(self.text, 0, path) if path and self.text else None
        where = f"{self.path}, line {line}" if line is not None else str(self.path)
        return AccessError(": ".join(part for part in (where, path_text(path), problem) if part))

    def at(self, *steps: Step) -> "_Place":
        return self._replace(steps=(*self.steps, *steps))

    def resolve(self, name: str) -> str:
        """Return a path in the file as an absolute path."""
        return str(self.path.absolute().parent / name) if name else ""


class _Merged:
    """The merged content of several kubeconfigs. The first file that defines a name takes precedence."""

    def __init__(self) -> None:
        self.current_context = ""
        self.clusters: dict[str, tuple[_Cluster, _Place]] = {}
        self.users: dict[str, tuple[_User, _Place]] = {}
        self.contexts: dict[str, tuple[_Context, _Place]] = {}

    def add(self, file: _File, place: _Place) -> None:
        """Add the entries of a file, except those that an earlier file defines."""
        self.current_context = self.current_context or file.current_context
        _add(self.clusters, [(each.name, each.cluster) for each in file.clusters], place, "clusters", "cluster")
        _add(self.users, [(each.name, each.user) for each in file.users], place, "users", "user")
        _add(self.contexts, [(each.name, each.context) for each in file.contexts], place, "contexts", "context")


def load_kubeconfig(paths: Sequence[Path], *, context: str = "", master: str = "", must_exist: bool = False) -> Access:
    """Read and merge kubeconfigs and return the access of a context, by default the current one. Raises AccessError."""
    merged = _Merged()
    missing = 0
    for path in paths:
        if not path.exists() and not must_exist:
            missing += 1
            continue
        file, place = _read(path)
        merged.add(file, place)
    names = ", ".join(map(str, paths))
    if missing == len(paths):
        raise AccessError(f"$KUBECONFIG: none of its files exists: {names}; correct it, or give --kubeconfig FILE")
    return _choose(merged, names, context=context, master=master)


def _read(path: Path) -> tuple[_File, _Place]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise AccessError(f"{path}: no such file; give the path of a kubeconfig") from None
    except OSError as error:
        raise AccessError(f"{path}: {error.strerror}") from None
    except UnicodeError:
        raise AccessError(f"{path}: not UTF-8 text; a kubeconfig is a YAML file") from None
    place = _Place(path, text)
    try:
        values = [value for value in read_documents(text) if value is not None]
    except ReadError as error:
        where = f"{path}, line {error.line}" if error.line is not None else str(path)
        raise AccessError(f"{where}: {error}") from None
    if len(values) > 1:
        raise place.error("has several documents; a kubeconfig has one")
    value = values[0] if values else {}
    if not isinstance(value, dict):
        raise place.error("is not a kubeconfig: a mapping with clusters, users and contexts is needed")
    if value.get("kind", "Config") != "Config":
        raise place.error(f"must be Config, not {value['kind']}; this file is not a kubeconfig", "kind")
    return _convert(_without_nulls(value), place), place


def _without_nulls(value: Any) -> Any:
    """Remove nulls, which mean that a field is absent."""
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _convert(value: dict[str, Any], place: _Place) -> _File:
    try:
        return msgspec.convert(value, _File)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        parts = [part for part in path.rstrip("`").replace("[", ".[").split(".") if part]
        steps: list[Step] = [int(part[1:-1]) if part[1:-1].isdigit() else part for part in parts]
        types = message.split("`")
        if len(types) >= 4:
            # Do not show the value: it may be a secret without quotes.
            problem, remedy = type_problem(types[1], types[3], None)
            message = f"{problem}; {remedy}" if remedy else problem
        raise place.error(message, *steps) from None


def _add(
    into: dict[str, tuple[T, _Place]], entries: list[tuple[str, T]], place: _Place, field: str, inner: str
) -> None:
    seen: set[str] = set()
    for index, (name, entry) in enumerate(entries):
        if name in seen:
            raise place.error(f"there is another entry with the name {name!r}; remove one", field, index, "name")
        seen.add(name)
        into.setdefault(name, (entry, place.at(field, index, inner)))


def _choose(merged: _Merged, names: str, *, context: str, master: str) -> Access:
    wanted = context or merged.current_context
    entry, place = _find(merged.contexts, wanted, names, "context") if wanted else (_Context(), _Place(Path(names)))
    cluster, at_cluster = _Cluster(), place
    user, at_user = _User(), place
    if entry.cluster and (entry.cluster in merged.clusters or not master):
        cluster, at_cluster = _find(merged.clusters, entry.cluster, names, "cluster", place)
    if entry.user:
        user, at_user = _find(merged.users, entry.user, names, "user", place)
    if not master and not cluster.server:
        if not wanted:
            raise AccessError(f"{names}: no current-context is set; set one with `kubectl config use-context NAME`")
        raise at_cluster.error("is required: the address of the API server", "server")
    server = check_server(master, "--master") if master else _server(cluster, at_cluster)
    ca, insecure = _trust(cluster, at_cluster)
    return Access(
        server=server,
        user=_user(user, at_user, cluster),
        ca=ca,
        ca_file=at_cluster.resolve(cluster.certificate_authority),
        insecure=insecure,
        tls_server_name="" if master else cluster.tls_server_name,
        proxy=cluster.proxy_url,
        namespace=entry.namespace or "default",
        origin=str(at_cluster.path),
        extensions={each.name: each.extension for each in cluster.extensions},
    )


def _find(
    entries: dict[str, tuple[T, _Place]], name: str, names: str, what: str, place: _Place | None = None
) -> tuple[T, _Place]:
    if (found := entries.get(name)) is not None:
        return found
    known = ", ".join(sorted(entries)) or "none"
    problem = f"{what} {name!r} does not exist; existing: {known}"
    raise place.error(problem, what) if place is not None else AccessError(f"{names}: {problem}")


def _server(cluster: _Cluster, place: _Place) -> str:
    try:
        return check_server(cluster.server, "")
    except AccessError as error:
        raise place.error(str(error).removeprefix(": "), "server") from None


def _trust(cluster: _Cluster, place: _Place) -> tuple[bytes | None, bool]:
    file, data = cluster.certificate_authority, cluster.certificate_authority_data
    if file and data:
        raise place.error("is given along with certificate-authority-data; remove one", "certificate-authority")
    if cluster.insecure_skip_tls_verify and (file or data):
        raise place.error(
            "cannot be true if a certificate authority is given; remove one of the two", "insecure-skip-tls-verify"
        )
    if data:
        return _base64(data, place, "certificate-authority-data"), False
    if file:
        return _file(place.resolve(file), place, "certificate-authority"), False
    return None, cluster.insecure_skip_tls_verify


def _user(user: _User, place: _Place, cluster: _Cluster) -> User:
    if user.token and (user.username or user.password):
        raise place.error("is given along with username and password; remove one of the two", "token")
    if user.auth_provider is not None:
        raise place.error("is no longer supported, as in kubectl; use an exec plugin instead", "auth-provider")
    if (user.as_uid or user.as_groups or user.as_user_extra) and not user.as_user:
        raise place.error("is required if as-uid, as-groups or as-user-extra is given", "as")
    token_file = place.resolve(user.token_file)
    if token_file and not user.token:
        _file(token_file, place, "tokenFile")
    certificate = _pem(user.client_certificate, user.client_certificate_data, place, "client-certificate")
    key = _pem(user.client_key, user.client_key_data, place, "client-key")
    if any(certificate) and not any(key):
        raise place.error("is required with a client certificate; give it, or client-key-data", "client-key")
    return User(
        token=user.token.strip(),
        token_file=token_file,
        username=user.username,
        password=user.password,
        certificate=certificate[0],
        certificate_file=certificate[1],
        key=key[0],
        key_file=key[1],
        exec_plugin=_exec(user.exec, place.at("exec"), cluster) if user.exec is not None else None,
        impersonation=_impersonation(user),
    )


def _pem(file: str, data: str, place: _Place, field: str) -> tuple[bytes, str]:
    if file and data:
        raise place.error(f"is given along with {field}-data; remove one", field)
    if data:
        return _base64(data, place, f"{field}-data"), ""
    path = place.resolve(file)
    if path:
        _file(path, place, field)
    return b"", path


def _exec(plugin: _Exec, place: _Place, cluster: _Cluster) -> ExecPlugin:
    checks: list[tuple[Callable[[], bool], str, str]] = [
        (lambda: bool(plugin.command), "command", "is required: the program to run"),
        (
            lambda: plugin.api_version in EXEC_VERSIONS,
            "apiVersion",
            f"must be {' or '.join(EXEC_VERSIONS)}, not {plugin.api_version!r}",
        ),
        (lambda: all(each.name for each in plugin.env), "env", "every variable needs a name"),
    ]
    for holds, field, problem in checks:
        if not holds():
            raise place.error(problem, field)
    # v1beta1 has no interactive mode; v1 requires one. A scheduler has no terminal in either case.
    mode = plugin.interactive_mode or ("IfAvailable" if plugin.api_version.endswith("v1beta1") else "")
    if mode == "Always":
        raise place.error("a scheduler has no terminal; use a plugin that needs none", "interactiveMode")
    if mode not in {"Never", "IfAvailable"}:
        raise place.error(f"must be Never or IfAvailable, not {mode!r}", "interactiveMode")
    # A command with a slash is relative to the file that names it; a bare one is looked up in $PATH.
    command = place.resolve(plugin.command) if "/" in plugin.command else plugin.command
    settings = [each.extension for each in cluster.extensions if each.name == _EXEC_SETTINGS]
    return ExecPlugin(
        command=command,
        api_version=plugin.api_version,
        args=tuple(plugin.args),
        env=tuple((each.name, each.value) for each in plugin.env),
        install_hint=plugin.install_hint,
        provide_cluster_info=plugin.provide_cluster_info,
        cluster_config=settings[0] if settings else None,
    )


def _impersonation(user: _User) -> tuple[tuple[str, str], ...]:
    if not user.as_user:
        return ()
    headers = [("Impersonate-User", user.as_user)]
    if user.as_uid:
        headers.append(("Impersonate-Uid", user.as_uid))
    headers += [("Impersonate-Group", group) for group in user.as_groups]
    for key, values in user.as_user_extra.items():
        headers += [(f"Impersonate-Extra-{quote(key, safe=_LEGAL_IN_NAMES)}", value) for value in values]
    return tuple(headers)


def _base64(text: str, place: _Place, field: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except binascii.Error:
        raise place.error("is not base64; take it from a kubeconfig unchanged", field) from None


def _file(path: str, place: _Place, field: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise place.error(f"{path}: {error.strerror}", field) from None
