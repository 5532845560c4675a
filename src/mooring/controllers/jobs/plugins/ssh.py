"""ssh: a key with which the pods of a job can log in to each other without a password."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Final

from mooring.api.volcano_jobs import TaskSpec, VolcanoJob
from mooring.framework.job_plugin import Document, JobObject, JobPlugin, hosts_of, mount

_HOME: Final = "/root/.ssh"
_FOLDER: Final = ".ssh"
_PRIVATE, _PUBLIC, _AUTHORIZED, _CONFIG = "id_rsa", "id_rsa.pub", "authorized_keys", "config"
_BITS: Final = 2048
_PORT: Final = 22
#: File modes: only root may read the key, unless it is mounted elsewhere, for other users.
_ROOT_MODE, _OTHER_MODE = 0o600, 0o644


class SshArgs:
    """The arguments of ssh."""

    ssh_key_file_path: str = _HOME
    ssh_private_key: str = ""
    ssh_public_key: str = ""
    ssh_port: int = _PORT


class Ssh(JobPlugin[SshArgs]):
    """Creates a Secret with a key pair and an SSH configuration, and mounts it in every container."""

    name = "ssh"

    def on_pod_create(self, job: VolcanoJob, task: TaskSpec, index: int, pod: Document) -> None:
        """Mount the Secret."""
        name, path = _secret_name(job), self.args.ssh_key_file_path
        files = [{"key": key, "path": f"{_FOLDER}/{key}"} for key in (_PRIVATE, _PUBLIC, _AUTHORIZED, _CONFIG)]
        mode = _ROOT_MODE if path == _HOME else _OTHER_MODE
        secret = {"secretName": name, "items": files, "defaultMode": mode}
        mount(pod, {"name": name, "secret": secret}, path, subPath=_FOLDER)

    def objects(self, job: VolcanoJob) -> Iterable[JobObject]:
        """Return the Secret."""
        yield JobObject("v1", "Secret", _secret_name(job), lambda: {"data": self._data(job)})

    def _data(self, job: VolcanoJob) -> dict[str, str]:
        given = self.args.ssh_private_key, self.args.ssh_public_key
        private, public = given if given[0] else _new_key()
        port = self.args.ssh_port if 0 < self.args.ssh_port <= 65535 else _PORT
        files = {_PRIVATE: private, _PUBLIC: public, _AUTHORIZED: public, _CONFIG: _config(job, port)}
        return {name: base64.b64encode(text.encode()).decode() for name, text in files.items()}


def _secret_name(job: VolcanoJob) -> str:
    return f"{job.name}-ssh"


def _new_key() -> tuple[str, str]:
    """Return a new private key and its public key, as OpenSSH reads them."""
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    key = rsa.generate_private_key(public_exponent=65537, key_size=_BITS)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return private.decode(), f"{public.decode()}\n"


def _config(job: VolcanoJob, port: int) -> str:
    lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
    for task in job.spec.tasks:
        for host in hosts_of(job, task):
            subdomain = (task.template.get("spec") or {}).get("subdomain") or job.name
            lines += [f"Host {host.removesuffix('.' + subdomain)}", f"  HostName {host}", f"  Port {port}"]
    return "\n".join(lines) + "\n"
