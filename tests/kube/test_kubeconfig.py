"""Kubeconfigs: read, merged and refused as kubectl would."""

import base64
import os
import textwrap
from pathlib import Path

import pytest

from mooring.kube import Access, AccessError, User, load_access
from mooring.kube.access import SERVICE_ACCOUNT
from mooring.kube.kubeconfig import load_kubeconfig
from tests.kube.server import CERTS

CA = base64.b64encode((CERTS / "ca.pem").read_bytes()).decode()
CERT = base64.b64encode((CERTS / "client.pem").read_bytes()).decode()
KEY = base64.b64encode((CERTS / "client.key").read_bytes()).decode()


def config(cluster: str = "", user: str = "", extra: str = "") -> str:
    cluster = textwrap.indent(textwrap.dedent(cluster).strip() or "server: https://k:6443", "    ")
    user = textwrap.indent(textwrap.dedent(user).strip() or "token: t", "    ")
    return f"""apiVersion: v1
kind: Config
current-context: here
contexts:
- name: here
  context:
    cluster: c
    user: u
    namespace: team
clusters:
- name: c
  cluster:
{cluster}
users:
- name: u
  user:
{user}
{extra}"""


def write(folder: Path, text: str, name: str = "config") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def load(folder: Path, text: str, **options: str) -> Access:
    return load_kubeconfig([write(folder, text)], **options)


def test_a_context_becomes_an_access(tmp_path: Path) -> None:
    cluster = f"""
        server: https://kube.example:6443/prefix/
        certificate-authority-data: {CA}
        tls-server-name: kube.test
        proxy-url: http://proxy:3128
        some-new-field: 1
    """
    access = load(tmp_path, config(cluster, "token: secret"))
    assert access.server == "https://kube.example:6443/prefix"
    assert access.ca == (CERTS / "ca.pem").read_bytes()
    assert access.tls_server_name == "kube.test"
    assert access.proxy == "http://proxy:3128"
    assert access.user == User(token="secret")
    assert access.namespace == "team"
    assert access.origin == str(tmp_path / "config")


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ("token: ' t '", User(token="t")),
        ("{username: me, password: pw}", User(username="me", password="pw")),
        (
            f"{{client-certificate-data: {CERT}, client-key-data: {KEY}}}",
            User(certificate=base64.b64decode(CERT), key=base64.b64decode(KEY)),
        ),
        (
            "{as: bob, as-uid: '7', as-groups: [a, b], as-user-extra: {scope: [x], a.b/Role%: [z]}}",
            User(
                impersonation=(
                    ("Impersonate-User", "bob"),
                    ("Impersonate-Uid", "7"),
                    ("Impersonate-Group", "a"),
                    ("Impersonate-Group", "b"),
                    ("Impersonate-Extra-scope", "x"),
                    ("Impersonate-Extra-a.b%2FRole%25", "z"),
                )
            ),
        ),
        ("{token: null, exec: null}", User()),
    ],
)
def test_users(tmp_path: Path, user: str, expected: User) -> None:
    assert load(tmp_path, config(user=user)).user == expected


def test_files_are_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    for name in ("ca.pem", "client.pem", "client.key"):
        (tmp_path / name).write_bytes((CERTS / name).read_bytes())
    (tmp_path / "token").write_text("t")
    user = "{client-certificate: client.pem, client-key: ./client.key, tokenFile: token}"
    access = load(tmp_path, config("{server: https://k, certificate-authority: ca.pem}", user))
    assert access.ca == (CERTS / "ca.pem").read_bytes()
    assert access.ca_file == str(tmp_path / "ca.pem")
    assert access.user.token_file == str(tmp_path / "token")
    assert access.user.certificate_file == str(tmp_path / "client.pem")
    assert access.user.key_file == str(tmp_path / "client.key")


def test_exec_plugin(tmp_path: Path) -> None:
    user = """
        exec:
          apiVersion: client.authentication.k8s.io/v1
          command: ./bin/get-token
          args: [--cluster, x]
          env: [{name: A, value: b}]
          installHint: install it
          provideClusterInfo: true
          interactiveMode: Never
    """
    cluster = """
        server: https://k
        extensions:
        - name: client.authentication.k8s.io/exec
          extension: {audience: us}
    """
    plugin = load(tmp_path, config(cluster, user)).user.exec_plugin
    assert plugin is not None
    assert plugin.command == str(tmp_path / "bin/get-token")
    assert plugin.args == ("--cluster", "x")
    assert plugin.env == (("A", "b"),)
    assert plugin.cluster_config == {"audience": "us"}


EXEC = "{exec: {command: x, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}}"


@pytest.mark.parametrize(
    ("cluster", "user", "said"),
    [
        ("server: ''", "", "line 13: clusters[0].cluster.server: is required: the address of the API server"),
        (
            "server: ftp://k",
            "",
            "server: 'ftp://k' is not the address of a server; write one such as https://host:6443",
        ),
        ("server: 'https://k:port'", "", "is not the address of a server"),
        ("server: 'htt!p:/k'", "", "is not the address of a server"),
        ("server: [a]", "", "line 13: clusters[0].cluster.server: must be text, not a list"),
        (f"{{server: https://k, certificate-authority-data: {CA}, certificate-authority: x}}", "", "remove one"),
        (
            f"{{server: https://k, certificate-authority-data: {CA}, insecure-skip-tls-verify: true}}",
            "",
            "insecure-skip-tls-verify: cannot be true if a certificate authority is given",
        ),
        ("{server: https://k, certificate-authority-data: '%%'}", "", "certificate-authority-data: is not base64"),
        ("{server: https://k, certificate-authority: nowhere}", "", "nowhere: No such file or directory"),
        ("", "{token: t, username: u}", "users[0].user.token: is given along with username and password"),
        ("", "token: 12345", "users[0].user.token: must be text, not a whole number; put the value in quotes"),
        ("", "tokenFile: nowhere", "users[0].user.tokenFile: "),
        ("", f"client-certificate-data: {CERT}", "client-key: is required with a client certificate"),
        ("", "{client-certificate: a, client-certificate-data: b}", "is given along with client-certificate-data"),
        ("", "auth-provider: {name: gcp}", "auth-provider: is no longer supported"),
        ("", "as-uid: '7'", "users[0].user.as: is required"),
        ("", EXEC.replace("command: x, ", ""), "users[0].user.exec.command: is required"),
        ("", EXEC.replace("/v1", "/v1alpha1"), "must be client.authentication.k8s.io/v1 or client."),
        ("", EXEC.replace("Never", "Always"), "interactiveMode: a scheduler has no terminal"),
        ("", EXEC.replace(", interactiveMode: Never", ""), "interactiveMode: must be Never or IfAvailable, not ''"),
        ("", EXEC.replace("command: x", "command: x, env: [{value: b}]"), "every variable needs a name"),
    ],
)
def test_faults_name_file_field_and_remedy(tmp_path: Path, cluster: str, user: str, said: str) -> None:
    with pytest.raises(AccessError) as caught:
        load(tmp_path, config(cluster, user))
    assert str(caught.value).startswith(str(tmp_path / "config"))
    assert said in str(caught.value)
    # A secret that is merely written wrongly must not end up in a log.
    assert "12345" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [}", "line 1: not valid YAML"),
        ("- a", "is not a kubeconfig"),
        ("kind: Pod", "line 1: kind: must be Config, not Pod"),
        ("a: 1\n---\nb: 2", "has several documents"),
        ("", "no current-context is set; set one with `kubectl config use-context NAME`"),
        ("current-context: gone", "context 'gone' does not exist; existing: none"),
        (config().replace("user: u\n", "user: nobody\n"), "contexts[0].context.user: user 'nobody' does not exist"),
        (config(extra="- name: u"), "users[1].name: there is another entry with the name 'u'; remove one"),
    ],
)  # fmt: skip
def test_files_that_are_no_kubeconfig(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(AccessError) as caught:
        load(tmp_path, text)
    assert said in str(caught.value)


def test_v1beta1_needs_no_interactive_mode(tmp_path: Path) -> None:
    user = "{exec: {command: x, apiVersion: client.authentication.k8s.io/v1beta1}}"
    assert load(tmp_path, config(user=user)).user.exec_plugin is not None


def test_of_several_files_the_first_that_names_a_thing_wins_whole(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    first = write(
        tmp_path / "sub",
        "users: [{name: u, user: {tokenFile: tok}}]\ncontexts: [{name: b, context: {cluster: c, user: u}}]\n",
        "first",
    )
    (tmp_path / "sub" / "tok").write_text("t")
    second = write(
        tmp_path, config(user="{token: t, username: ''}").replace("namespace: team", "namespace: two"), "second"
    )
    missing = tmp_path / "missing"
    access = load_kubeconfig([first, missing, second])
    # current-context comes from the second file, the user as a whole from the first, with its own folder.
    assert access.namespace == "two"
    assert access.user == User(token_file=str(tmp_path / "sub" / "tok"))
    assert load_kubeconfig([first, second], context="b").namespace == "default"


def test_where_access_is_found(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    home = {"HOME": str(tmp_path)}
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("t")
    (account / "namespace").write_text("system\n")
    (account / "ca.crt").write_bytes((CERTS / "ca.pem").read_bytes())
    flag = write(tmp_path, config("server: https://flag"), "flag")
    variable = write(tmp_path, config("server: https://variable"), "variable")
    files = {"KUBECONFIG": os.pathsep.join([str(tmp_path / "none"), "", str(variable)])}

    def found(env: dict[str, str], **options: str) -> Access:
        return load_access(env=env, service_account=account, **options)

    with pytest.raises(AccessError, match=r"no cluster is configured.*give --kubeconfig FILE"):
        found(home)
    write(tmp_path / ".kube", config("server: https://home"))
    assert found(home).server == "https://home"
    inside = found({**home, **pod})
    assert (inside.server, inside.namespace) == ("https://10.0.0.1:443", "system")
    assert inside.user == User(token_file=str(account / "token"))
    assert inside.ca is not None
    assert inside.ca_file == str(account / "ca.crt")
    assert found({**home, **pod, "POD_NAMESPACE": "mine"}).namespace == "mine"
    assert found({**home, **pod, **files}).server == "https://variable"
    assert found({**home, **pod, **files}, kubeconfig=str(flag)).server == "https://flag"
    assert found({**home, **files}, master="https://m:1").server == "https://m:1"
    assert found({**home, **files}, master="https://m:1").user == User(token="t")
    assert found({"HOME": str(tmp_path / "x")}, master="m:8080").server == "http://m:8080"
    with pytest.raises(AccessError, match="none of its files exists"):
        found({"KUBECONFIG": str(tmp_path / "none")})
    with pytest.raises(AccessError, match="no such file; give the path of a kubeconfig"):
        found(home, kubeconfig=str(tmp_path / "none"))
    (account / "token").unlink()
    with pytest.raises(AccessError, match="a pod without a service account token"):
        found(pod)
    assert str(SERVICE_ACCOUNT) == "/var/run/secrets/kubernetes.io/serviceaccount"


def test_ipv6_inside_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    env = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    assert load_access(env=env, service_account=tmp_path).server == "https://[fd00::1]:443"


def test_what_is_not_safe_is_told(tmp_path: Path) -> None:
    path = write(tmp_path, config("{server: https://k, insecure-skip-tls-verify: true}"))
    access = load_access(kubeconfig=str(path), env={})
    assert access.insecure
    assert "insecure-skip-tls-verify is set" in access.warnings[0]
    plain = load_access(kubeconfig=str(write(tmp_path, config("server: http://k"))), env={})
    assert plain.user == User()
    assert "not HTTPS, so credentials are not sent" in plain.warnings[0]


def test_no_secret_shows_in_a_repr(tmp_path: Path) -> None:
    user = f"{{token: sesame, client-certificate-data: {CERT}, client-key-data: {KEY}}}"
    access = load(tmp_path, config("{server: https://k, proxy-url: 'http://me:hush@p'}", user))
    shown = repr(access)
    assert "sesame" not in shown
    assert "hush" not in shown
    assert "PRIVATE" not in shown
    assert "password" not in repr(User(username="u", password="password-1")).replace("password_", "")


@pytest.mark.parametrize(
    ("server", "env", "expected"),
    [
        ("https://k:6443", {"HTTPS_PROXY": "http://p:3128"}, "http://p:3128"),
        ("https://k:6443", {"https_proxy": "p:3128"}, "http://p:3128"),
        ("http://k", {"HTTPS_PROXY": "http://p:3128"}, ""),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": "http://p"}, ""),
        ("https://localhost", {"HTTPS_PROXY": "http://p"}, ""),
        ("https://10.1.2.3", {"HTTPS_PROXY": "http://p", "NO_PROXY": "10.0.0.0/8"}, ""),
        ("https://11.1.2.3", {"HTTPS_PROXY": "http://p", "NO_PROXY": "10.0.0.0/8"}, "http://p"),
        ("https://a.corp", {"HTTPS_PROXY": "http://p", "NO_PROXY": "x, corp"}, ""),
        ("https://corp", {"HTTPS_PROXY": "http://p", "NO_PROXY": ".corp"}, "http://p"),
        ("https://acorp", {"HTTPS_PROXY": "http://p", "NO_PROXY": "corp"}, "http://p"),
        ("https://k:6443", {"HTTPS_PROXY": "http://p", "NO_PROXY": "k:443"}, "http://p"),
        ("https://k:6443", {"HTTPS_PROXY": "http://p", "NO_PROXY": "k:6443"}, ""),
        ("https://k:6443", {"HTTPS_PROXY": "http://p", "NO_PROXY": "*"}, ""),
    ],
)
def test_proxies_of_the_environment(tmp_path: Path, server: str, env: dict[str, str], expected: str) -> None:
    path = write(tmp_path, config(f"server: {server}", "{}"))
    assert load_access(kubeconfig=str(path), env=env).proxy == expected


def test_a_proxy_we_cannot_speak_to_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, config("{server: https://k, proxy-url: 'socks5://p'}"))
    with pytest.raises(AccessError, match="only http and https proxies are supported, not socks5"):
        load_access(kubeconfig=str(path), env={})
