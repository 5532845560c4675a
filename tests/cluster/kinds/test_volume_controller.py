"""The controllers of volumes and claims."""

from typing import Any

from tests.cluster.conftest import PODS, Client, make, pod
from tests.cluster.reconciling import until

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


VOLUMES = "/api/v1/persistentvolumes"


async def _gone(client: Client, path: str) -> bool:
    return (await client.ask("GET", path)).status == 404


async def test_claims_find_or_get_a_volume(live: Client) -> None:
    """The smallest that fits is taken; a class makes one; one that waits for a node waits."""
    for name, size in (("small", "1Gi"), ("fits", "5Gi"), ("large", "50Gi")):
        spec = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/x"},
            "storageClassName": "s",
        }
        await live.create(VOLUMES, make("v1", "PersistentVolume", name, spec=spec))
    await live.create(CLAIMS, _claim("manual", "s"))
    bound = await until(live, f"{CLAIMS}/manual", lambda each: each["status"]["phase"] == "Bound")
    assert (bound["spec"]["volumeName"], bound["status"]["capacity"]) == ("fits", {"storage": "5Gi"})
    assert (await live.get(f"{VOLUMES}/fits"))["status"]["phase"] == "Bound"

    classes = "/apis/storage.k8s.io/v1/storageclasses"
    for name, mode in (("now", "Immediate"), ("later", "WaitForFirstConsumer")):
        await live.create(
            classes, make("storage.k8s.io/v1", "StorageClass", name, provisioner="ex.io/p", volumeBindingMode=mode)
        )
    await live.create(CLAIMS, _claim("now", "now"))
    made = await until(live, f"{CLAIMS}/now", lambda each: each["status"]["phase"] == "Bound")
    assert made["spec"]["volumeName"] == f"pvc-{made['metadata']['uid']}"
    await live.create(CLAIMS, _claim("later", "later"))
    await live.patch(f"{CLAIMS}/later", {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "node-0"}}})
    await until(live, f"{CLAIMS}/later", lambda each: each["status"]["phase"] == "Bound")
    await live.delete(f"{CLAIMS}/now")
    await live.wait(lambda: _gone(live, f"{VOLUMES}/{made['spec']['volumeName']}"))
    await live.delete(f"{CLAIMS}/manual")
    await until(live, f"{VOLUMES}/fits", lambda each: each["status"]["phase"] == "Released")


def _claim(name: str, kind: str) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}, "storageClassName": kind}
    return make("v1", "PersistentVolumeClaim", name, spec=spec)


async def test_a_claim_in_use_outlives_its_deletion(live: Client) -> None:
    """Until the pod that uses it is gone."""
    await live.create(CLAIMS, _claim("c", ""))
    await live.create(
        PODS, pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}], nodeName="node-0")
    )
    await live.delete(f"{CLAIMS}/c")
    assert (await live.get(f"{CLAIMS}/c"))["metadata"]["deletionTimestamp"]
    await live.delete(f"{PODS}/p")
    await live.wait(lambda: _gone(live, f"{CLAIMS}/c"))
