"""Where a pod finds its service account."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from mooring.kube.errors import AccessError

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class InClusterFiles(NamedTuple):
    """What a service account consists of."""

    server: str
    token: Path
    ca: bytes | None
    #: Empty where there is none.
    ca_file: str
    namespace: str


def in_cluster_files(env: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> InClusterFiles | None:
    """What the pod we run in was given, or None if we run in none. Raises AccessError where it is incomplete."""
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
