"""Shadow prices: what the free room of a GPU is worth for the expected pods.

Filling GPUs is a cutting-stock problem: 650 and 320 thousandths fill a GPU, 470 and 320 waste a fifth of it, and a pod
that only runs on one model needs GPUs of that model. The linear program below fills all GPUs with the expected pods.
The price of a kind of pod says how scarce it is; the value of some room is that of the best pods that fit into it,
less their prices. A placement that keeps the total value of pods and rooms is part of an optimal packing.

The program has a column for every way to fill a GPU. Only the columns that improve the solution are generated: the best
one for given prices is a knapsack. It is solved with a simplex method of about 60 lines instead of a solver package,
because it is small (a row for each kind of pod and each model), has to be exact at its vertices, and runs at start.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.plugins.gpu_sharing.devices import WHOLE
from mooring.plugins.gpu_sharing.fragmentation import TypicalPod

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: The resolution of rooms, in thousandths of a GPU, and the number of steps in a GPU.
STEP: Final = 10
STEPS: Final = WHOLE // STEP
#: Prices of CPU, as multiples of the GPUs per CPU that the expected pods request.
_CPU_PRICES: Final = np.array([0, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.2, 2, 4])
_TINY: Final = 1e-9
_MOST_STEPS: Final = 3000


class Kind(msgspec.Struct, frozen=True):
    """Expected pods with the same GPU request."""

    count: int
    milli: int
    #: Which models they may use.
    allowed: tuple[bool, ...]
    #: How many pods are expected.
    demand: float
    #: The mean request, in millicores.
    cpu: float

    @property
    def gpus(self) -> float:
        """The requested GPUs."""
        return self.count * self.milli / WHOLE


def expected_kinds(typical: list[TypicalPod], models: list[str], requested: float) -> list[Kind]:
    """Return the expected pods with GPUs, which together request a number of GPUs."""
    groups: dict[tuple[int, int, tuple[bool, ...]], list[TypicalPod]] = {}
    for pod in typical:
        allowed = tuple(pod.request.allows(model) for model in models)
        if pod.count and any(allowed):
            groups.setdefault((pod.count, pod.milli, allowed), []).append(pod)
    total = sum(pod.weight * pod.count * pod.milli for pods in groups.values() for pod in pods)
    found = []
    for (count, milli, allowed), pods in groups.items():
        weight = sum(pod.weight for pod in pods)
        cpu = sum(pod.weight * pod.cpu for pod in pods) / weight
        found.append(Kind(count, milli, allowed, weight * requested * WHOLE / total, cpu))
    return found


class RoomValues:
    """The value of a node's free room for the expected pods, in GPUs.

    CPU limits what fits into the room of a node. For a price of CPU, the value of a node is that of its CPU and of the
    room of each GPU, where pods pay for the CPU that they use; the smallest over all prices is the bound of
    Lagrangian relaxation on what the node can hold.
    """

    def __init__(self, kinds: list[Kind], gpus: Ints) -> None:
        """``gpus`` is the number of GPUs of each model."""
        mean = sum(kind.demand * kind.gpus for kind in kinds) / (sum(kind.demand * kind.cpu for kind in kinds) or 1)
        #: GPUs per millicore.
        self._cpu_prices: Floats = _CPU_PRICES * mean
        access = np.array([kind.allowed for kind in kinds], dtype=np.bool_).reshape(len(kinds), len(gpus)).T
        # Models that the same pods may use are one group.
        groups, group_of = np.unique(access, axis=0, return_inverse=True)
        group_of = group_of.ravel()
        supply = np.bincount(group_of, weights=gpus, minlength=len(groups)).astype(np.float64)
        program = _Program(kinds, groups, supply)
        #: By kind of pod, in GPUs.
        self.prices: Floats = program.solve()
        cpu = np.array([kind.cpu for kind in kinds])
        #: [CPU price, model, room], the room in units of STEP: the best value that fits.
        self._values: Floats = np.stack(
            [program.fill(self.prices + price * cpu)[0][group_of] for price in self._cpu_prices]
        )
        #: By model: the value of a whole GPU if CPU is free.
        self.whole: Floats = self._values[0, :, STEPS]

    def __call__(self, cpu: Ints, left: Ints, model: Ints) -> Floats:
        """Return the value by row beyond that of the same capacity in whole GPUs with enough CPU; 0 or less."""
        rooms = self._values[:, model[:, None], left // STEP].sum(axis=2)
        value = (rooms + self._cpu_prices[:, None] * cpu).min(axis=0)
        found: Floats = value - self.whole[model] * left.sum(axis=1) / WHOLE
        return found


class _Program:
    """Maximize the GPUs in use, subject to the demand of each kind of pod and the GPUs of each group of models."""

    def __init__(self, kinds: list[Kind], access: npt.NDArray[np.bool_], supply: Floats) -> None:
        self._count = np.array([kind.count for kind in kinds], dtype=np.int64)
        self._milli = np.array([kind.milli for kind in kinds], dtype=np.int64)
        #: [group, kind]
        self._access = access
        self._sharing = np.flatnonzero((self._count == 1) & (self._milli < WHOLE))
        self._whole = np.flatnonzero(self._milli == WHOLE)
        self._sizes = -(-self._milli[self._sharing] // STEP)
        limits = np.concatenate([np.array([kind.demand for kind in kinds]), supply])
        # Slightly different limits keep the simplex method from cycling.
        self._limits = limits * (1 + 1e-6 * np.arange(1, len(limits) + 1))

    def solve(self) -> Floats:
        """Return the price of each kind of pod, in GPUs."""
        size, kinds = len(self._limits), len(self._count)
        inverse, amounts, gains = np.eye(size), self._limits.copy(), np.zeros(size)
        for _ in range(_MOST_STEPS):
            prices = gains @ inverse
            column, gain = self._entering(prices)
            if column is None:
                break
            direction = inverse @ column
            with np.errstate(divide="ignore", invalid="ignore"):
                ratios = np.where(direction > _TINY, amounts / direction, np.inf)
            leaving = int(ratios.argmin())
            pivot = inverse[leaving] / direction[leaving]
            inverse -= np.outer(direction, pivot)
            inverse[leaving] = pivot
            amounts -= direction * ratios[leaving]
            amounts[leaving] = ratios[leaving]
            gains[leaving] = gain
        return prices[:kinds]

    def _entering(self, prices: Floats) -> tuple[Floats | None, float]:
        """Return the column with the largest reduced gain, and its gain; None if no column has one."""
        size, kinds = len(self._limits), len(self._count)
        values, choice = self.fill(prices[:kinds])
        reduced = values[:, STEPS] - prices[kinds:]
        group = int(reduced.argmax())
        negative = int(prices.argmin())
        if max(float(reduced[group]), -float(prices[negative])) <= _TINY:
            return None, 0.0
        column = np.zeros(size)
        if -prices[negative] > reduced[group]:
            column[negative] = 1.0
            return column, 0.0
        column[kinds + group] = 1.0
        whole = int(choice[group, STEPS])
        if whole <= -2:  # GPUs of one pod
            kind = int(self._whole[-2 - whole])
            column[kind] = 1.0 / self._count[kind]
            return column, 1.0
        room, gain = STEPS, 0.0
        while room > 0:
            taken = int(choice[group, room])
            if taken < 0:
                room -= 1
                continue
            kind = int(self._sharing[taken])
            column[kind] += 1.0
            gain += float(self._milli[kind]) / WHOLE
            room -= int(self._sizes[taken])
        return column, gain

    def fill(self, prices: Floats) -> tuple[Floats, Ints]:
        """Return the best value of each room by group, and the kind that it takes.

        The kind is a place among the sharing pods; -1 if the room equals the next smaller one; -2 and below for a
        place among the pods with whole GPUs.
        """
        net = np.where(self._access, self._count * self._milli / WHOLE - prices, -np.inf)
        sharing, whole = net[:, self._sharing], net[:, self._whole] / self._count[self._whole]
        groups = len(self._access)
        values, choice = np.zeros((groups, STEPS + 1)), np.full((groups, STEPS + 1), -1, dtype=np.int64)
        every = np.arange(groups)
        order = np.argsort(self._sizes, kind="stable")
        sizes = self._sizes[order]
        for room in range(1, STEPS + 1):
            values[:, room] = values[:, room - 1]
            fitting = order[: int(np.searchsorted(sizes, room, side="right"))]
            if len(fitting):
                options = sharing[:, fitting] + values[:, room - self._sizes[fitting]]
                best = options.argmax(axis=1)
                found = options[every, best]
                better = found > values[:, room] + _TINY
                values[better, room] = found[better]
                choice[better, room] = fitting[best[better]]
        if len(self._whole):
            best = whole.argmax(axis=1)
            found = whole[every, best]
            better = found > values[:, STEPS] + _TINY
            values[better, STEPS] = found[better]
            choice[better, STEPS] = -2 - best[better]
        return values, choice
