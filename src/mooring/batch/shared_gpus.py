"""GPUs of which pods get shares of memory and cores (vGPU): the cards of a node, and the cards for one more pod.

Cards are shared by software (mode hami-core), or divided into instances (mode mig).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.volcano import GROUP_ANNOTATION
from mooring.batch.device_config import DEFAULT, GpuConfig
from mooring.batch.device_pools import MOST_DEVICES, Fit, Policy, Request, amount, integer, requests_of
from mooring.batch.mig_instances import Instance, MigCard

#: What a node with such cards offers; the ConfigMap only renames what pods request.
_OFFERED: Final = ("volcano.sh/vgpu-number", "volcano.sh/vgpu-cores", "volcano.sh/vgpu-memory")
_REGISTERED: Final = "volcano.sh/node-vgpu-register"
_ASSIGNED: Final = "volcano.sh/vgpu-ids-new"
_MODE: Final = "volcano.sh/vgpu-mode"
_GROUP_POLICY: Final = "volcano.sh/vgpu-podgroup-policy"
_USE_TYPES, _AVOID_TYPES = "nvidia.com/use-gputype", "nvidia.com/nouse-gputype"
_HAMI_CORE, _MIG = "hami-core", "mig"
_VENDOR: Final = "NVIDIA"
_WHOLE_CARD: Final = 100
_NO_SHARE: Final = Fit("hami-vgpuDeviceSharing error")

#: Annotations of pods that select cards.
CARD_ANNOTATIONS: Final = frozenset((_MODE, _GROUP_POLICY, _USE_TYPES, _AVOID_TYPES))
#: A rule: the labels of pods that do not share a card with each other.
Rule = Mapping[str, str]


def request_key(pod: Pod) -> tuple[object, ...]:
    """Return what the devices for a pod depend on, besides its labels: equal keys get equal devices."""
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    chosen = tuple(pod.annotations.get(name) for name in sorted(CARD_ANNOTATIONS))
    amounts = tuple(
        (tuple(each.resources.limits.items()), tuple(each.resources.requests.items())) for each in containers
    )
    return (amounts, chosen, _group_of(pod) if pod.annotations.get(_GROUP_POLICY) == "spread" else "")


def exclusive_rules(value: Any) -> tuple[Rule, ...]:
    """Return the rules of the argument deviceshare.GPUExclusiveRules; what is not a label is left out."""
    found = []
    for each in value if isinstance(value, list) else ():
        labels = {key: text for key, text in each.items() if isinstance(text, str)} if isinstance(each, dict) else {}
        if labels:
            found.append(labels)
    return tuple(found)


def rules_for(pod: Pod, rules: Iterable[Rule]) -> frozenset[int]:
    """Return the numbers of the rules that apply to a pod."""
    labels = pod.labels
    return frozenset(
        number for number, rule in enumerate(rules) if all(labels.get(key) == text for key, text in rule.items())
    )


class Share(NamedTuple):
    """The share of a card that a container gets."""

    card: str
    memory: int
    cores: int


class _User(NamedTuple):
    """A pod that uses a card: what it takes of it, its PodGroup, the rules that apply to it, and its instances."""

    memory: int
    cores: int
    group: str
    rules: frozenset[int] = frozenset()
    instances: tuple[Instance, ...] = ()


class SharedCard:
    """A card and what is used of it. ``users`` are by the uid of the pod."""

    __slots__ = ("cores", "kind", "leaving", "limit", "memory", "mig", "used", "used_memory", "users", "uuid")

    def __init__(self, uuid: str, limit: int, memory: int, kind: str, mig: MigCard) -> None:
        self.uuid = uuid
        self.limit = limit
        self.memory = memory
        self.kind = kind
        self.mig = mig
        self.used = self.used_memory = self.cores = 0
        self.users: dict[str, _User] = {}
        #: The rules of pods that are terminating.
        self.leaving: set[int] = set()

    def take(self, memory: int, cores: int, sign: int = 1) -> None:
        """Count a share, or no longer (-1)."""
        self.used += sign
        self.used_memory += sign * memory
        self.cores += sign * cores


class SharedCards:
    """The cards of a node of which pods get shares of memory and cores."""

    def __init__(
        self, name: str, cards: list[SharedCard], mode: str, config: GpuConfig, rules: tuple[Rule, ...]
    ) -> None:
        self._name = name
        self._cards = cards
        self._mode = mode
        self._config = config
        self._factor = max(config.gpu_memory_factor, 1)
        #: Instances are isolated by hardware, so that the rules do not apply to them.
        self._rules = rules if mode == _HAMI_CORE else ()

    @classmethod
    def of(cls, node: Node, config: GpuConfig = DEFAULT.gpu, rules: tuple[Rule, ...] = ()) -> SharedCards | None:
        """Return the cards that the device plugin registered; None if the node has none."""
        text, offered = node.annotations.get(_REGISTERED), node.status.allocatable
        if text is None or not all(amount(offered, name) for name in _OFFERED):
            return None
        cards, mode = [], _HAMI_CORE
        for entry in text.split(":", MOST_DEVICES)[:MOST_DEVICES] if ":" in text else ():
            items = entry.split(",")
            if len(items) < 2:
                continue
            if len(items) < 6:
                return None
            geometries = config.geometries(items[3]) if items[5] == _MIG else None
            # As in Volcano, the last card decides.
            mode = _HAMI_CORE if geometries is None else _MIG
            limit, memory, mig = integer(items[1]), integer(items[2]), MigCard(geometries or ())
            cards.append(SharedCard(items[0], limit, memory, items[3], mig))
        return cls(node.name, cards, mode, config, rules) if cards else None

    def add(self, pod: Pod) -> None:
        """Count the shares that the pod's annotations name."""
        taken: dict[str, tuple[SharedCard, list[Share]]] = {}
        for share in shares_of(pod.annotations.get(_ASSIGNED, "")):
            card = next((each for each in self._cards if each.uuid in share.card), None)
            if card is not None and pod.uid not in card.users:
                taken.setdefault(card.uuid, (card, []))[1].append(share)
        for card, shares in taken.values():
            user = self._user(pod, card, shares)
            if user is not None:
                card.users[pod.uid] = user
                card.take(user.memory, user.cores)

    def _user(self, pod: Pod, card: SharedCard, shares: list[Share]) -> _User | None:
        """Use a card. In the mode hami-core the first share counts, as in Volcano; of instances all."""
        group, rules = _group_of(pod), rules_for(pod, self._rules)
        if self._mode != _MIG:
            return _User(shares[0].memory, shares[0].cores, group, rules)
        instances = [instance for share in shares if (instance := card.mig.parse(share.card)) is not None]
        for instance in instances:
            card.mig.take(instance)
        memory = sum(instance.memory // self._factor for instance in instances)
        return _User(memory, shares[0].cores, group, rules, tuple(instances)) if instances else None

    def remove(self, pod: Pod) -> None:
        """Free the shares of a pod."""
        for card in self._cards:
            held = card.users.pop(pod.uid, None)
            if held is not None:
                card.take(held.memory, held.cores, -1)
                for instance in held.instances:
                    card.mig.free(instance)

    def keep_rules(self, pod: Pod) -> None:
        """Keep the cards of a pod that is terminating from pods of the same rule."""
        rules = rules_for(pod, self._rules)
        names = {share.card for share in shares_of(pod.annotations.get(_ASSIGNED, ""))} if rules else ()
        for card in self._cards if rules else ():
            if card.uuid in names:
                card.leaving |= rules

    def fit(self, pod: Pod, policy: Policy) -> Fit:
        """Return the cards for a pod. As in Volcano, the policy spread gives no score."""
        if pod.annotations.get(_MODE, self._mode) != self._mode:
            return _NO_SHARE
        config = self._config
        requests = requests_of(
            pod,
            config.resource_count_name,
            config.resource_memory_name,
            config.resource_memory_percentage_name,
            config.resource_core_name,
        )
        trial = _Trial()
        try:
            found = []
            for request in requests:
                shares = self._shares(pod, request, policy, trial)
                if len(shares) < request.devices:
                    return _NO_SHARE
                found.append(shares)
        finally:
            trial.undo()
        return Fit("", trial.score, {_ASSIGNED: _encoded(found)})

    def _shares(self, pod: Pod, request: Request, policy: Policy, trial: _Trial) -> list[Share]:
        """Return shares for a container: too few if the cards do not suffice."""
        shares: list[Share] = []
        for card in self._in_order(policy) if 0 < request.devices <= len(self._cards) else ():
            memory = _memory(card, request)
            if not self._suits(card, request, memory, pod):
                continue
            name, taken = card.uuid, memory
            if self._mode == _MIG:
                instance = card.mig.find(memory * self._factor)
                if instance is None:
                    continue
                trial.use(card, instance)
                name, taken = f"{card.uuid}{card.mig.label(instance)}", instance.memory // self._factor
            trial.take(card, taken, request.cores)
            shares.append(Share(name, memory, request.cores))
            if policy == "binpack" and card.memory:
                trial.score += 100.0 * card.used_memory / card.memory
            if len(shares) == request.devices:
                break
        return shares

    def _in_order(self, policy: Policy) -> Iterable[SharedCard]:
        if policy == "binpack":
            return sorted(self._cards, key=lambda card: -card.used_memory)
        if policy == "spread":
            return sorted(self._cards, key=lambda card: card.used)
        return reversed(self._cards)

    def _suits(self, card: SharedCard, request: Request, memory: int, pod: Pod) -> bool:
        if card.limit <= card.used or card.memory - card.used_memory < memory:
            return False
        if card.cores + request.cores > _WHOLE_CARD:
            return False
        if (request.cores == _WHOLE_CARD and card.used) or (card.cores == _WHOLE_CARD and not request.cores):
            return False
        if not _may_use(pod.annotations, card.kind):
            return False
        rules = rules_for(pod, self._rules)
        if rules and (rules & card.leaving or any(rules & user.rules for user in card.users.values())):
            return False
        group = _group_of(pod) if pod.annotations.get(_GROUP_POLICY) == "spread" else ""
        return not group or not any(user.group == group and (user.memory or user.cores) for user in card.users.values())

    def bind_annotations(self, assigned: Mapping[str, str], now: float) -> dict[str, str]:
        """Return the annotations with which a pod is bound, so that the device plugin gives it the assigned cards."""
        seconds = str(int(now))
        return {
            **assigned,
            "volcano.sh/devices-to-allocate": assigned[_ASSIGNED],
            "volcano.sh/vgpu-node": self._name,
            "volcano.sh/vgpu-time": seconds,
            "volcano.sh/bind-time": seconds,
            "volcano.sh/bind-phase": "allocating",
        }


class _Trial:
    """What a pod would take of cards."""

    def __init__(self) -> None:
        self.score = 0.0
        self._taken: list[tuple[SharedCard, int, int]] = []
        self._states: list[tuple[MigCard, Any]] = []

    def take(self, card: SharedCard, memory: int, cores: int) -> None:
        card.take(memory, cores)
        self._taken.append((card, memory, cores))

    def use(self, card: SharedCard, instance: Instance) -> None:
        self._states.append((card.mig, card.mig.state()))
        card.mig.take(instance)

    def undo(self) -> None:
        for card, memory, cores in self._taken:
            card.take(memory, cores, -1)
        for mig, state in reversed(self._states):
            mig.restore(state)


def _memory(card: SharedCard, request: Request) -> int:
    return request.memory if request.percent is None else int(card.memory * float(request.percent) / 100.0)


def _may_use(annotations: Mapping[str, str], kind: str) -> bool:
    """Return whether the pod's annotations allow this type of card."""
    if _VENDOR not in kind:
        return False
    if _USE_TYPES in annotations:
        return _names(annotations[_USE_TYPES], kind)
    return _AVOID_TYPES not in annotations or not _names(annotations[_AVOID_TYPES], kind)


def _names(types: str, kind: str) -> bool:
    return any(each.upper() in kind.upper() for each in types.split(","))


def _group_of(pod: Pod) -> str:
    name = pod.annotations.get(GROUP_ANNOTATION) or pod.annotations.get("scheduling.volcano.sh/group-name")
    return f"{pod.namespace}/{name}" if name else ""


def _encoded(found: list[list[Share]]) -> str:
    return ";".join("".join(f"{s.card},{_VENDOR},{s.memory},{s.cores}:" for s in shares) for shares in found)


@functools.lru_cache(maxsize=4096)
def shares_of(text: str) -> tuple[Share, ...]:
    """Return the shares that an annotation of a pod names, of all containers."""
    found = []
    for entry in text.replace(";", ":").split(":", MOST_DEVICES)[:MOST_DEVICES]:
        items = entry.split(",", 4)
        if len(items) >= 4:
            found.append(Share(items[0], integer(items[2]), integer(items[3])))
    return tuple(found)
