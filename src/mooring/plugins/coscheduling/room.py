"""Whether the cluster has so much left in sum, which a group may ask for before it is tried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from mooring.api.quantity import QuantityLike, format_quantity, parse_quantity
from mooring.api.resources import CPU, PODS
from mooring.framework import Nodes, PodInfo

Ints = npt.NDArray[np.int64]

#: Quantities have nine decimals at the most.
_NANO = 9


def gap(nodes: Nodes, wanted: Mapping[str, QuantityLike], members: int, group: Iterable[PodInfo]) -> dict[str, str]:
    """What is missing for a group, by resource; nothing if there is enough.

    Node after node is counted until there is enough of a resource; one that has given more than it has counts against
    it. What the group's own pods take is theirs to count on.
    """
    pods = [info for info in group if info.node is not None]
    missing: dict[str, str] = {}
    for name, quantity in {**wanted, PODS: members}.items():
        left = nodes.free(name).copy()
        for info in pods:
            assert info.node is not None
            left[info.node.row] += 1 if name == PODS else info.template.requests.get(name, 0)
        # In thousandths for cpu, in units for all else, and exact beyond that.
        parsed = parse_quantity(quantity)
        scale = _NANO - (3 if name == CPU else 0)
        target = parsed.unscaled * 10 ** (parsed.scale + _NANO)
        total = np.cumsum(left)
        if not len(total) or int(total.max()) * 10**scale < target:
            short = target - (int(total[-1]) if len(total) else 0) * 10**scale
            missing[name] = _text(name, short, scale)
    return missing


def _text(name: str, short: int, scale: int) -> str:
    amount = -(-short // 10**scale)
    return format_quantity(amount, binary=name not in (CPU, PODS), milli=name == CPU)
