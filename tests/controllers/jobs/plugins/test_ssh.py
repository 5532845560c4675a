from __future__ import annotations

import base64
from typing import Any

from tests.controllers.jobs.builders import plugin_objects, plugin_pod


def decoded(secret: dict[str, Any]) -> dict[str, str]:
    return {key: base64.b64decode(text).decode() for key, text in secret["data"].items()}


def test_ssh_creates_a_key_and_mounts_it() -> None:
    found = plugin_pod("master", ssh=[])
    (volume,) = found["spec"]["volumes"]
    assert (volume["name"], volume["secret"]["defaultMode"]) == ("j-ssh", 0o600)
    assert [each["path"] for each in volume["secret"]["items"]] == [
        ".ssh/id_rsa", ".ssh/id_rsa.pub", ".ssh/authorized_keys", ".ssh/config",
    ]  # fmt: skip
    mounted = {"name": "j-ssh", "mountPath": "/root/.ssh", "subPath": ".ssh"}
    assert found["spec"]["containers"][0]["volumeMounts"] == [mounted]
    data = {
        key: base64.b64decode(text).decode() for key, text in plugin_objects(ssh=[])["Secret j-ssh"]["data"].items()
    }
    assert data["id_rsa"].startswith("-----BEGIN RSA PRIVATE KEY-----\n")
    assert data["id_rsa.pub"].startswith("ssh-rsa ")
    assert data["authorized_keys"] == data["id_rsa.pub"]
    assert data["config"] == (
        "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"
        "Host j-master-0\n  HostName j-master-0.j\n  Port 22\n"
        "Host j-worker-0\n  HostName j-worker-0.j\n  Port 22\n"
        "Host j-worker-1\n  HostName j-worker-1.j\n  Port 22\n"
    )


def test_the_arguments_of_ssh() -> None:
    given = ["--ssh-key-file-path=/home/u/.ssh", "--ssh-private-key=a", "--ssh-public-key=b", "--ssh-port=2026"]
    found = plugin_pod("master", ssh=given)
    assert found["spec"]["volumes"][0]["secret"]["defaultMode"] == 0o644
    assert found["spec"]["containers"][0]["volumeMounts"][0]["mountPath"] == "/home/u/.ssh"
    data = {
        key: base64.b64decode(text).decode() for key, text in plugin_objects(ssh=given)["Secret j-ssh"]["data"].items()
    }
    assert (data["id_rsa"], data["id_rsa.pub"], data["authorized_keys"]) == ("a", "b", "b")
    assert "  Port 2026\n" in data["config"]
    wrong = plugin_objects(ssh=["--ssh-port=70000"])["Secret j-ssh"]["data"]["config"]
    assert "  Port 22\n" in base64.b64decode(wrong).decode()
