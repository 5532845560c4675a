"""ImageLocality, plainly: every image of the pod on every node. Sizes are the same wherever an image is."""

from __future__ import annotations

from typing import Any

from mooring.api.node import Node
from mooring.api.pod import Pod
from tests.plugins.reference.cluster import Cluster

MIB = 1024 * 1024


def with_tag(name: str) -> str:
    return name if ":" in name.rsplit("/", 1)[-1] else f"{name}:latest"


def size_on(node: Node, name: str) -> int | None:
    for image in node.status.images:
        if name in image.names:
            return image.size_bytes
    return None


class ImageLocalityReference:
    @staticmethod
    def scores(pod: Pod, args: Any) -> bool:
        return True

    @staticmethod
    def score(cluster: Cluster, pod: Pod, node: Node, args: Any) -> int:
        containers = [*pod.spec.init_containers, *pod.spec.containers]
        names = [container.image for container in containers]
        names += [volume.image.reference for volume in pod.spec.volumes if volume.image]
        total = 0
        for name in map(with_tag, names):
            size = size_on(node, name)
            if size is not None:
                holders = sum(size_on(other, name) is not None for other in cluster.nodes.values())
                total += int(size * (holders / len(cluster.nodes)))
        most = 1000 * MIB * len(names)
        if total < 23 * MIB:
            total = 23 * MIB
        elif total > most:
            total = most
        return int(100 * (total - 23 * MIB) / (most - 23 * MIB))
