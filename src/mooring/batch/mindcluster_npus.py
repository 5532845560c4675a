"""NPUs of MindCluster, of which pods get whole ones or vNPUs by a template: those of a node, and for a pod.

A pod requests AI cores. Its labels choose the template; one with fewer AI CPUs is used where no NPU has enough.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.batch.device_pools import MOST_DEVICES, Fit, Policy, amount
from mooring.batch.mindcluster_reports import NpuReport, NpuReports

#: The resource, and the annotation that assigns NPUs: "0,1" or "0-vir02".
NPU_CORES: Final = "huawei.com/npu-core"
#: The label without which a pod gets no NPU.
NPU_LABEL: Final = ("ring-controller.atlas", "ascend-310P")
LEVEL_LABEL: Final = "vnpu-level"
DVPP_LABEL: Final = "vnpu-dvpp"
#: The annotation with which the device plugin reports what a pod uses.
_REAL: Final = "huawei.com/AscendReal"
_PREFIX: Final = "huawei.com/"
_BASE: Final = "baseDeviceInfos"
_SEPARATED: Final = "PreSeparate"
_310P: Final = "Ascend310P"
#: The states of the image processor of an NPU, from free to in use. As a request: not needed, no preference, needed.
_DVPP: Final = ("no", "null", "yes")
_MOST_USED: Final = 100


class _Template(NamedTuple):
    """AI cores, AI CPUs and the use of the image processor."""

    cores: int
    cpus: int
    dvpp: str = "null"


_TEMPLATES_310P: Final = {
    "vir01": _Template(1, 1),
    "vir02": _Template(2, 2),
    "vir02_1c": _Template(2, 1),
    "vir04": _Template(4, 4),
    "vir04_3c": _Template(4, 3),
    "vir04_3c_ndvpp": _Template(4, 3, "no"),
    "vir04_4c_dvpp": _Template(4, 4, "yes"),
}
_TEMPLATES_B: Final = {
    "vir06_1c_16g": _Template(6, 1),
    "vir03_1c_8g": _Template(3, 1),
    "vir12_3c_32g": _Template(12, 3),
}
#: The templates by kind or type of NPU.
_TEMPLATES: Final[Mapping[str, Mapping[str, _Template]]] = {
    _310P: _TEMPLATES_310P,
    "910B1": _TEMPLATES_B,
    "910B2C": _TEMPLATES_B,
    "910B2": _TEMPLATES_B,
    "910B3": {"vir05_1c_16g": _Template(5, 1), "vir10_3c_32g": _Template(10, 3)},
    "910B4": {
        "vir05_1c_8g": _Template(5, 1),
        "vir10_3c_16g_nm": _Template(10, 3, "no"),
        "vir10_4c_16g_m": _Template(10, 4, "yes"),
        "vir10_3c_16g": _Template(10, 3),
    },
}
#: The AI CPUs of an NPU by its kind or type and its AI cores.
_CPUS: Final = {
    (_310P, 8): 7,
    (_310P, 10): 7,
    ("910B1", 25): 6,
    ("910B2C", 24): 6,
    ("910B2", 24): 6,
    ("910B3", 20): 6,
    ("910B4", 20): 6,
}


class _Wanted(NamedTuple):
    """What a pod requests. A whole number of NPUs has no template."""

    amount: _Template
    template: str | None

    @property
    def reduced(self) -> _Wanted | None:
        """The template with fewer AI CPUs; None if there is none."""
        name = {"vir02": "vir02_1c", "vir04": "vir04_3c"}.get(self.template or "")
        return None if name is None else _Wanted(_TEMPLATES_310P[name], name)


class _Use(NamedTuple):
    """What a pod uses of an NPU: ``real`` is what the device plugin reports, None for a pod of this session."""

    amount: _Template
    part: bool
    real: str | None


class _Chip:
    """An NPU and its users by the uid of the pod."""

    __slots__ = ("number", "total", "users")

    def __init__(self, number: int, total: _Template) -> None:
        self.number = number
        self.total = total
        self.users: dict[str, _Use] = {}

    @property
    def free(self) -> tuple[int, int]:
        """The free AI cores and AI CPUs."""
        used = [use.amount for use in self.users.values()]
        return self.total.cores - sum(each.cores for each in used), self.total.cpus - sum(each.cpus for each in used)

    @property
    def in_parts(self) -> bool:
        """Whether pods have vNPUs of it."""
        return any(use.part for use in self.users.values())

    @property
    def unsettled(self) -> bool:
        """Whether the device plugin has not yet reported what a pod of an earlier session uses."""
        return any(use.real == "" for use in self.users.values())

    def has(self, wanted: _Template, *, groups: bool) -> bool:
        """Return whether this much is free. ``groups`` says whether a part needs one of four groups of cores."""
        cores, cpus = self.free
        if cores < wanted.cores or cpus < wanted.cpus:
            return False
        if groups and self.in_parts:
            count = len({group for use in self.users.values() for group in _group(use.real or "")})
            if (count == 3 and wanted.cores >= 4) or (count == 4 and wanted.cores >= 2):
                return False
        used = max((_DVPP.index(use.amount.dvpp) for use in self.users.values()), default=0)
        return used + _DVPP.index(wanted.dvpp) <= 2 or wanted.dvpp == "no"


class _Layout(NamedTuple):
    """The NPUs of a node: their kind and type, and the AI cores and AI CPUs of each."""

    kind: str
    type: str
    total: _Template


class MindClusterNpus:
    """The NPUs of a node."""

    def __init__(self, node: Node, reports: NpuReports) -> None:
        self._node = node
        self._reports = reports
        self._chips: dict[int, _Chip] = {}
        #: The templates of pods by uid: only pods with the same template run on a node.
        self._templates: dict[str, str] = {}
        #: What pods used when the session opened, and their templates, by uid.
        self._opened: dict[str, tuple[dict[int, _Use], str | None]] = {}
        layout = _layout(node)
        self._problem = layout if isinstance(layout, str) else ""
        self._layout = _Layout("", "", _Template(1, 0)) if isinstance(layout, str) else layout

    @classmethod
    def of(cls, node: Node, reports: NpuReports) -> MindClusterNpus | None:
        """Return the NPUs of a node; None if it offers no AI cores."""
        status = node.status
        if not amount(status.allocatable, NPU_CORES) and not amount(status.capacity, NPU_CORES):
            return None
        return cls(node, reports)

    def start(self, pods: Iterable[tuple[Pod, bool]]) -> None:
        """Read the reports, and what the pods of the node use; of each whether it is being deleted."""
        known = list(pods)
        if self._problem:
            return
        kind = self._layout.kind
        listed = self._listed([pod for pod, _ in known])
        if _PREFIX + kind not in listed:
            self._problem = f"MindCluster does not report NPUs of the kind {kind}"
            return
        for number in _numbers(listed[_PREFIX + kind], kind):
            self._chips[number] = _Chip(number, self._layout.total)
        broken = set(_numbers(listed.get(f"{_PREFIX}{kind}-Unhealthy", ""), kind))
        for pod, deleted in known:
            if not _has_npus(pod):
                continue
            uses = {number: use for number, use in self._uses(pod, settled=False) if number not in broken}
            template = None if deleted or not _asks(pod) else _template_of(pod)
            if uses or template is not None:
                self._opened[pod.uid] = uses, template
                self._count(pod.uid, uses, template)

    def _listed(self, pods: list[Pod]) -> dict[str, str]:
        """Return the lists of NPUs by resource: from the annotations of the node, and from the report."""
        report = self._reports.devices.get(self._node.name, NpuReport())
        found = dict(report.devices)
        updated = report.updated > 0
        kind = next(
            (each for each in ("Ascend910", _310P, "Ascend310") if any(each in key for key in found)), "Ascend910"
        )
        key = _PREFIX + kind
        if self._reports.self_maintained and key in found:
            names = _base(self._node.annotations.get(_BASE, ""))
            if names is None:
                del found[key]
            else:
                gone = {each for text in _used(pods, key) for each in text.split(",")}
                for suffix in ("-Unhealthy", "-Recovering"):
                    gone.update(found.get(key + suffix, "").split(","))
                found[key] = ",".join(sorted(set(names) - gone))
                updated = True
        return {**self._node.annotations, **(found if updated else {})}

    def add(self, pod: Pod) -> None:
        """Count the NPUs that the pod's annotation names."""
        uses, template = self._opened.get(pod.uid, (None, None))
        self._count(pod.uid, dict(self._uses(pod, settled=True)) if uses is None else uses, template)

    def _count(self, uid: str, uses: Mapping[int, _Use], template: str | None) -> None:
        for number, use in uses.items():
            if number not in self._chips:
                self._chips[number] = _Chip(number, self._layout.total)
            self._chips[number].users[uid] = use
        if template is not None:
            self._templates[uid] = template

    def remove(self, pod: Pod) -> None:
        """Free the NPUs of a pod."""
        self._templates.pop(pod.uid, None)
        for chip in self._chips.values():
            chip.users.pop(pod.uid, None)

    def _uses(self, pod: Pod, *, settled: bool) -> Iterator[tuple[int, _Use]]:
        """Yield the NPUs that the pod's annotation names. ``settled``: the device plugin need not report the use."""
        text = pod.annotations.get(NPU_CORES, "")
        real = None if settled else pod.annotations.get(_REAL, "")
        if any("-" not in each for each in text.split(",")):
            numbers = [_number(each) for each in text.split(",")[:MOST_DEVICES]]
            if None not in numbers:
                total = self._layout.total._replace(dvpp="no")
                yield from ((number, _Use(total, part=False, real=real)) for number in numbers if number is not None)
            return
        first, _, name = text.partition("-")
        number = _number(first)
        if number is None or "-" in name:
            return
        known = _TEMPLATES.get(_310P if self._layout.kind == _310P else self._layout.type, {})
        yield number, _Use(known.get(name, _Template(0, 0, "no")), part=True, real=real)

    def fit(self, pod: Pod, policy: Policy) -> Fit:
        """Return the NPUs for a pod: those with the least that is free."""
        if self._reports.statuses.get(self._node.name) == _SEPARATED:
            return Fit("the node is separated because of a fault", final=True)
        wanted = self._wanted(pod)
        problem = self._problem or (wanted if isinstance(wanted, str) else "")
        if problem or isinstance(wanted, str):
            return Fit(problem, final=True)
        smaller = None if wanted.template is None or self._suffices(wanted) else wanted.reduced
        chosen = smaller or wanted
        others = set(self._templates.values())
        if others and others != {chosen.template}:
            return Fit("the node runs pods with another template of vNPUs", final=True)
        text = self._choose(chosen)
        if not text:
            return Fit("no NPU has enough free AI cores and AI CPUs")
        return Fit("", annotations={NPU_CORES: text}, reduced=smaller is not None)

    def _wanted(self, pod: Pod) -> _Wanted | str:
        """Return what a pod requests, or why it cannot be fulfilled."""
        cores = requested_cores(pod)
        each = self._layout.total
        if cores % each.cores == 0:
            cpus = cores * each.cpus // each.cores
            return _Wanted(_Template(cores, cpus), None)
        dvpp = pod.labels.get(DVPP_LABEL, "null")
        if dvpp not in _DVPP:
            return f"the label {DVPP_LABEL} is not yes, no or null"
        high = pod.labels.get(LEVEL_LABEL) == "high"
        four = {"yes": "vir04_4c_dvpp", "no": "vir04_3c_ndvpp"}.get(dvpp, "vir04" if high else "vir04_3c")
        name = {1: "vir01", 2: "vir02" if high else "vir02_1c", 4: four}.get(cores)
        if name is None:
            return f"no template of vNPUs has {cores} AI cores"
        return _Wanted(_TEMPLATES_310P[name], name)

    def _suffices(self, wanted: _Wanted) -> bool:
        """Return whether the NPUs have enough, without fewer AI CPUs."""
        free = [chip.free for chip in self._chips.values()]
        if sum(each[0] for each in free) < wanted.amount.cores or sum(each[1] for each in free) < wanted.amount.cpus:
            return False
        return any(True for _ in self._usable(wanted))

    def _usable(self, wanted: _Wanted) -> Iterator[_Chip]:
        """Yield the NPUs that have enough for a template."""
        groups = self._layout.kind == _310P
        return (chip for chip in self._chips.values() if not chip.unsettled and chip.has(wanted.amount, groups=groups))

    def _choose(self, wanted: _Wanted) -> str:
        """Return the annotation that assigns NPUs; empty if there are not enough."""
        if wanted.template is not None:
            parts = min(self._usable(wanted), key=_rank, default=None)
            return "" if parts is None else f"{parts.number}-{wanted.template}"
        count = wanted.amount.cores // self._layout.total.cores
        if not count:
            return ""
        each = _Template(wanted.amount.cores // count, wanted.amount.cpus // count)
        free = [chip for chip in self._chips.values() if not chip.in_parts and chip.has(each, groups=False)]
        chosen = sorted(free, key=_rank)[:count]
        return ",".join(str(chip.number) for chip in chosen) if len(chosen) == count else ""

    def bind_annotations(self, assigned: Mapping[str, str], now: float) -> dict[str, str]:
        """Return the annotations with which a pod is bound."""
        return {**assigned, "predicate-time": str(int(now * 1e9))}


def requested_cores(pod: Pod) -> int:
    """Return the AI cores that a pod requests: those of the first container that requests any."""
    amounts = (amount(each.resources.requests, NPU_CORES) for each in pod.spec.containers)
    return next((each for each in amounts if each), 0)


def _layout(node: Node) -> _Layout | str:
    """Return the NPUs of a node by its labels, or what is wrong with them."""
    labels = node.labels
    kind = labels.get("accelerator", "").split("-")
    server = labels.get("servertype", "").split("-")
    type_ = labels.get("node.kubernetes.io/npu.chip.name")
    cores = _number(server[1]) if len(server) > 1 else None
    total = amount(node.status.capacity, NPU_CORES)
    if len(kind) < 2 or not cores or type_ is None:
        return "the node's labels accelerator, servertype or node.kubernetes.io/npu.chip.name are missing or invalid"
    if cores < 0 or not total or total % cores:
        return f"the AI cores of the node ({total}) are not a multiple of those of an NPU ({cores})"
    cpus = _CPUS.get((kind[1], cores), _CPUS.get((type_, cores)))
    if cpus is None:
        return f"NPUs of the kind {kind[1]} with {cores} AI cores are not known"
    return _Layout(kind[1], type_, _Template(cores, cpus))


def _asks(pod: Pod) -> bool:
    key, value = NPU_LABEL
    return pod.labels.get(key) == value and any(NPU_CORES in each.resources.limits for each in pod.spec.containers)


def _has_npus(pod: Pod) -> bool:
    return any(_PREFIX in name for each in pod.spec.containers for name in each.resources.requests)


def _template_of(pod: Pod) -> str | None:
    """Return the template of a pod with NPUs, empty for whole ones; None if it has none."""
    text = pod.annotations.get(NPU_CORES)
    if text is None:
        return None
    return text.partition("-")[2] if text.count("-") == 1 else ""


def _rank(chip: _Chip) -> tuple[int, int, int]:
    return (*chip.free, chip.number)


@functools.lru_cache(maxsize=4096)
def _group(real: str) -> frozenset[int]:
    """Return the group of cores of a vNPU, for example 3 of `Ascend310P-2c.1cpu-105-0_3`."""
    number = _number(real.rpartition("_")[2]) if "_" in real else None
    return frozenset(() if number is None else (number,))


def _numbers(text: str, kind: str) -> Iterator[int]:
    for each in text.split(",", MOST_DEVICES)[:MOST_DEVICES]:
        number = _number(each.removeprefix(kind + "-"))
        if number is not None:
            yield number


def _used(pods: Iterable[Pod], key: str) -> Iterator[str]:
    """Yield the NPUs of pods that do not have them by a template."""
    for pod in pods:
        text = pod.annotations.get(key, "")
        if text and not pod.is_finished and text.count(",") < _MOST_USED:
            yield text


def _number(text: str) -> int | None:
    digits = text[1:] if text[:1] in ("+", "-") else text
    return int(text) if digits.isascii() and digits.isdecimal() and len(digits) < 10 else None


@functools.lru_cache(maxsize=4096)
def _base(text: str) -> tuple[str, ...] | None:
    """Return the NPUs of a node by its annotation, without vNPUs; None if it cannot be parsed."""
    try:
        found = msgspec.json.decode(text, type=dict[str, dict[str, object]])
    except (msgspec.DecodeError, RecursionError):
        return None
    return tuple(name for name in found if name.count("-") < 2)
