"""ImageLocality: prefers nodes that have the images of the pod, weighted by their size and spread."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.framework import MAX_SCORE, CycleState, NodeInfo, Nodes, NodeTable, Plugin, PodTemplate
from mooring.framework.normalize import truncated, truncated_all

Ints = npt.NDArray[np.int64]
#: Images (normalized names, one per use) and the number that scales the upper bound.
Wanted = tuple[tuple[str, ...], int]

_MIB = 1 << 20
_LEAST = 23 * _MIB
_MOST_PER_CONTAINER = 1000 * _MIB
#: The maximum number of sets of images whose scores are cached.
_MAX_CACHED = 64


class ImageLocality(Plugin):
    """Scores nodes by the images they have.

    The score of a node depends on how many other nodes have an image, so it does not use ``depends_on``. It changes
    only when a node changes, and is cached until then for all pods with the same images.
    """

    def setup(self) -> None:
        """Create the cache."""
        self._cached: dict[Wanted, tuple[int, Ints | int]] = {}

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints | int:
        """Score the nodes; fast if no node has any of the images or nothing changed."""
        if not nodes.table.images:
            return 0
        images, version = self._images_of(self.handle.template(pod)), nodes.table.nodes_version
        if images.version == version:
            return images.score
        scores = self._scores(images.wanted, nodes.table, version)
        if isinstance(scores, int):
            images.version, images.score = version, scores
            return scores
        return scores.copy() if nodes.rows is None else scores[nodes.rows]

    def _scores(self, wanted: Wanted, table: NodeTable, version: int) -> Ints | int:
        """Return the scores of all rows; a number if they are equal."""
        known = [name for name in wanted[0] if table.images.get(name) is not None]
        if not known:
            return 0
        cached = self._cached.get(wanted)
        if cached is None or cached[0] != version:
            if len(self._cached) >= _MAX_CACHED:
                self._cached.pop(next(iter(self._cached)))
            cached = self._cached[wanted] = (version, _scores(table, known, wanted[1]))
        return cached[1]

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Score one node."""
        names, containers = self._images_of(self.handle.template(pod)).wanted
        table = node.table
        total = 0
        for name in names:
            image = table.images.get(name)
            if image is not None and image.rows.get(node.row):
                total += _worth(image.size, image.rows.total, len(table))
        return locality_score(total, containers)

    def _images_of(self, template: PodTemplate) -> _TemplateImages:
        images = template.cache.get(self)
        if images is None:
            volumes_count = self.handle.release.image_volumes_raise_bound
            wanted = _images(template.pod, volumes_count=volumes_count)
            images = template.cache[self] = _TemplateImages(wanted)
        return images  # type: ignore[return-value]  # the key is private to this class


class _TemplateImages:
    """The images of a template, and the score of all nodes at a version of the nodes if they have the same."""

    __slots__ = ("score", "version", "wanted")

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.version = -1
        self.score = 0


def _images(pod: Pod, *, volumes_count: bool) -> Wanted:
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    names = [container.image for container in containers]
    if not pod.spec.volumes:
        return tuple([normalized_name(name) for name in names]), len(names)
    names += [volume.image.reference for volume in pod.spec.volumes if volume.image is not None]
    return tuple(map(normalized_name, names)), len(names) if volumes_count else len(containers)


def normalized_name(name: str) -> str:
    """Return the image's name with a tag; the default is ``latest``."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def _worth(size: int, nodes_with: int, nodes: int) -> int:
    """Weight the size by the share of nodes that have the image, to avoid placing all pods on the same nodes."""
    return int(float(size) * (nodes_with / nodes))


def locality_score(total: int, containers: int) -> int:
    """Return the score for the total weighted size in bytes."""
    most = _MOST_PER_CONTAINER * containers
    clamped = _LEAST if total < _LEAST else min(total, most)
    return truncated(MAX_SCORE * (clamped - _LEAST), most - _LEAST)


def _scores(table: NodeTable, names: list[str], containers: int) -> Ints | int:
    """Return the scores of all rows; a number if they are equal."""
    count = len(table)
    totals = np.zeros(count, dtype=np.int64)
    for name in names:
        image = table.images.get(name)
        if image is not None:
            totals += (image.rows.array(count) > 0) * np.int64(_worth(image.size, image.rows.total, count))
    most = _MOST_PER_CONTAINER * containers
    clamped = np.where(totals < _LEAST, _LEAST, np.minimum(totals, most))
    scores = truncated_all(MAX_SCORE * (clamped - _LEAST), most - _LEAST)
    lowest = int(scores.min())
    return lowest if lowest == int(scores.max()) else scores
