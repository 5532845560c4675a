"""Acts as the kubelet of a Deployment's first pod: `play.py --kubeconfig FILE -n NAMESPACE DEPLOYMENT FOLDER`.

For a cluster without kubelets. It runs the container's command as the pod's service account, with mounted ConfigMaps as
files that it updates. It exits with status 3 when the pod would be replaced.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))  # for kube.py
from config_map import write_config_map
from with_token import kubeconfig_for

from kube import Kube, run

#: The polling interval.
_SECONDS = 0.5
_REPLACED = 3


@click.command()
@click.option("--kubeconfig", required=True)
@click.option("-n", "--namespace", default="default")
@click.argument("deployment")
@click.argument("folder", type=click.Path(path_type=Path))
def main(kubeconfig: str, namespace: str, deployment: str, folder: Path) -> None:
    """Run the pod until it exits."""
    # Raise SystemExit on SIGTERM, so that `finally` terminates the child process.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    raise SystemExit(run(kubeconfig, lambda kube: play(kube, kubeconfig, namespace, deployment, folder)))


async def play(kube: Kube, kubeconfig: str, namespace: str, deployment: str, folder: Path) -> int:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{deployment}"
    template = (await kube.read(path))["spec"]["template"]
    spec = template["spec"]
    written: dict[str, str] = {}
    await write_files(kube, namespace, spec, folder, written)
    token = await kube.token(namespace, spec["serviceAccountName"])
    account = folder / "kubeconfig"
    account.write_text(kubeconfig_for(kubeconfig, token))
    process = subprocess.Popen([*words(spec["containers"][0], folder), f"--kubeconfig={account}"])
    try:
        while process.poll() is None:
            await asyncio.sleep(_SECONDS)
            if (await kube.read(path))["spec"]["template"] != template:
                print("the pod template of the Deployment changed", flush=True)
                return _REPLACED
            await write_files(kube, namespace, spec, folder, written)
        return process.returncode
    finally:
        process.terminate()
        process.wait()


def words(container: dict[str, Any], folder: Path) -> list[str]:
    """Return the command line with local paths for mounted files, and without a port."""
    mounts = {each["mountPath"]: folder / each["name"] for each in container["volumeMounts"]}

    def here(word: str) -> str:
        flag, _, path = word.partition("=")
        place = next((each for each in mounts if path.startswith(f"{each}/") or path == each), None)
        return word if place is None else f"{flag}={mounts[place]}{path.removeprefix(place)}"

    found = [here(word) for word in (*container["command"], *container["args"])]
    return [word for word in found if not word.startswith(("--secure-port", "--bind-address"))] + ["--secure-port=0"]


async def write_files(kube: Kube, namespace: str, spec: dict[str, Any], folder: Path, written: dict[str, str]) -> None:
    """Write the ConfigMaps that changed."""
    for volume in spec["volumes"]:
        if "configMap" not in volume:
            continue
        found = await kube.read(f"/api/v1/namespaces/{namespace}/configmaps/{volume['configMap']['name']}")
        version = found["metadata"]["resourceVersion"]
        if written.get(volume["name"]) != version:
            written[volume["name"]] = version
            write_config_map(folder / volume["name"], version, found.get("data") or {})


if __name__ == "__main__":
    main()
