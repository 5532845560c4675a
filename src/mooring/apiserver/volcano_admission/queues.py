"""Defaults and validation of queues (scheduling.volcano.sh), and of the queues that jobs and pod groups name."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from mooring.api.quantity import QuantityLike, format_quantity, milli_value, parse_quantity, value
from mooring.api.resources import is_scalar
from mooring.api.volcano import SCHEDULING_GROUP, Amounts, Queue, QueueSpec
from mooring.apiserver.documents import Document
from mooring.apiserver.field_errors import FieldError, invalid
from mooring.apiserver.quantities import canonical_quantity
from mooring.apiserver.resource_amounts import amount_errors

ROOT: Final = "root"
DEFAULT: Final = "default"
HIERARCHY: Final = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS: Final = "volcano.sh/hierarchy-weights"
_OPEN: Final = "Open"
#: The states of a queue that accepts jobs. A queue without a state is new: the controller will open it.
_ACCEPTING: Final = ("", _OPEN)
#: The states that a client may write.
_STATES: Final = (_OPEN, "Closed")
_PODS: Final = "pods"
#: Smaller amounts count as zero.
_MIN_AMOUNT: Final = 0.1


class QueueTree:
    """All queues, and their children."""

    def __init__(self, queues: Mapping[str, Queue]) -> None:
        self.queues = queues
        self._children: dict[str, list[Queue]] = {}
        for queue in sorted(queues.values(), key=lambda each: each.name):
            self._children.setdefault(queue.spec.parent, []).append(queue)

    def children(self, name: str) -> list[Queue]:
        """Return the queues whose parent is a queue."""
        return self._children.get(name, [])


def set_queue_defaults(document: Document) -> None:
    """Set the defaults of a new queue in place. Fields of a wrong type are not changed."""
    spec = document.setdefault("spec", {})
    annotations = (document.get("metadata") or {}).get("annotations") or {}
    path, weights = annotations.get(HIERARCHY), annotations.get(HIERARCHY_WEIGHTS)
    if isinstance(path, str) and isinstance(weights, str) and path and weights and not path.startswith(ROOT):
        annotations[HIERARCHY] = f"{ROOT}/{path}"
        annotations[HIERARCHY_WEIGHTS] = f"1/{weights}"
    if spec.get("reclaimable") is None:
        spec["reclaimable"] = True
    if not spec.get("weight"):
        spec["weight"] = 1


def queue_errors(
    queue: Queue, old: Queue | None, tree: QueueTree, *, max_depth: int = 5, protect_root: bool = True
) -> list[str]:
    """Return the errors of a new queue, or of a changed one."""
    found = [
        *(str(each) for each in _amount_errors(queue.spec)),
        *(str(each) for each in _state_errors(queue.status.state)),
        *(str(each) for each in _hierarchy_errors(queue, tree)),
    ]
    moved = old is None or old.spec.parent != queue.spec.parent
    if not found and moved:
        found = list(_parent_errors(queue, tree, max_depth))
    if not found and queue.name == ROOT and old is not None and protect_root and _amounts_changed(queue, old):
        found = ["root queue's resource attributes (capability, deserved, guarantee) cannot be modified"]
    if not found and queue.name != ROOT and (moved or old is None or _amounts_changed(queue, old)):
        found = list(_sum_errors(queue, tree))
    return found[:1] if len(found) == 1 else [f"[{', '.join(found)}]"] if found else []


def queue_deletion_error(name: str, tree: QueueTree, *, check_allocated_pods: bool = False) -> str:
    """Return why a queue may not be deleted, or ""."""
    if name in {DEFAULT, ROOT}:
        return f"`{name}` queue can not be deleted"
    queue = tree.queues.get(name)
    if queue is None:
        return not_found(name)
    allocated = _pods(queue)
    if check_allocated_pods and allocated:
        return f"queue {name} cannot be deleted because it has allocated Pods: {allocated}"
    if children := [each.name for each in tree.children(name)]:
        return f"queue {name} can not be deleted because it has {len(children)} child queues: {', '.join(children)}"
    return ""


def not_found(name: str) -> str:
    """Return Volcano's message for a queue that does not exist."""
    return f'queue.{SCHEDULING_GROUP} "{name}" not found'


def job_queue_errors(name: str, tree: QueueTree) -> Iterator[str]:
    """Return why no job can be submitted to a queue. The controller creates the default queue if it does not exist."""
    queue = tree.queues.get(name)
    if queue is None:
        if name != DEFAULT:
            yield f"unable to find job queue: {not_found(name)}"
        return
    if queue.status.state not in _ACCEPTING:
        yield (
            "can only submit job to queue with state `Open`,"
            f" queue `{name}` status is `{queue.status.state}`"
        )  # fmt: skip
    if name == ROOT:
        yield "can not submit job to root queue"
    elif children := tree.children(name):
        yield f"can only submit job to leaf queue, queue `{name}` has {len(children)} child queues"


def group_queue_error(name: str, tree: QueueTree) -> str:
    """Return why no pod group can be submitted to a queue, or ""."""
    queue = tree.queues.get(name)
    if queue is None:
        return "" if name in {"", DEFAULT} else f"unable to find queue: {not_found(name)}"
    if queue.status.state not in _ACCEPTING:
        return (
            "can only submit PodGroup to queue with state `Open`,"
            f" queue `{name}` status is `{queue.status.state}`. "
        )  # fmt: skip
    return ""


# One queue


def _amount_errors(spec: QueueSpec) -> Iterator[FieldError]:
    path = "requestBody.spec"
    guarantee = spec.guarantee.resource
    for field, amounts in (("capability", spec.capability), ("deserved", spec.deserved)):
        for name, amount in amounts.items():
            yield from amount_errors(name, amount, f"{path}.{field}.{name}")
    for name, amount in guarantee.items():
        yield from amount_errors(name, amount, f"{path}.guarantee.resource.{name}")
        least, field = canonical_quantity(amount), f"{path}.deserved.{name}"
        if name not in spec.deserved:
            yield invalid(field, "<nil>", f"deserved[{name}] must be >= guarantee[{name}]={least}")
        elif _exceeds(amount, spec.deserved[name]):
            shown = canonical_quantity(spec.deserved[name])
            yield invalid(field, shown, f"deserved[{name}]={shown} must be >= guarantee[{name}]={least}")
    for name, amount in spec.deserved.items():
        if name in spec.capability and _exceeds(amount, spec.capability[name]):
            shown, most = canonical_quantity(amount), canonical_quantity(spec.capability[name])
            detail = f"deserved[{name}]={shown} must be <= capability[{name}]={most}"
            yield invalid(f"{path}.deserved.{name}", shown, detail)


def _exceeds(one: QuantityLike, other: QuantityLike) -> bool:
    return parse_quantity(one).exceeds(parse_quantity(other))


def _state_errors(state: str) -> Iterator[FieldError]:
    if state and state not in _STATES:
        yield invalid("requestBody.spec.state", state, f"queue state must be in [{' '.join(_STATES)}]")


def _hierarchy_errors(queue: Queue, tree: QueueTree) -> Iterator[FieldError]:
    where = "requestBody.metadata.annotations"
    path, weights = queue.annotations.get(HIERARCHY, ""), queue.annotations.get(HIERARCHY_WEIGHTS, "")
    if not path and not weights:
        return
    if path.count("/") != weights.count("/"):
        yield invalid(where, path, f"{HIERARCHY} must have the same length with {HIERARCHY_WEIGHTS}")
        return
    for weight in weights.split("/"):
        number = _number(weight)
        if number is None:
            detail = (
                f"{weight} in the {weights} is invalid number: strconv.ParseFloat: parsing {weight!r}: invalid syntax"
            )
            yield invalid(where, weights, detail.replace("'", '"'))
            return
        if number <= 0:
            yield invalid(where, weights, f"{weight} in the {weights} must be larger than 0")
            return
    for other in tree.queues.values():
        found = other.annotations.get(HIERARCHY, "")
        if found and other.name != queue.name and found.startswith(f"{path}/"):
            detail = f"{path} is not allowed to be in the sub path of {found} of queue {other.name}"
            yield invalid(where, path, detail)
            return


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


# The tree


def _parent_errors(queue: Queue, tree: QueueTree, max_depth: int) -> Iterator[str]:
    name = queue.spec.parent
    if name in {"", ROOT}:
        return
    if name == queue.name:
        yield f"queue {name} cannot use itself as parent"
        return
    depth, above = 1, name
    while above not in {"", ROOT}:
        depth += 1
        if depth > max_depth:
            yield f"queue {queue.name} exceeds the maximum allowed depth of {max_depth}"
            return
        ancestor = tree.queues.get(above)
        if ancestor is None:
            yield f"failed to get parent queue {above} of queue {queue.name}: {not_found(above)}"
            return
        above = ancestor.spec.parent
    parent = tree.queues[name]
    if not tree.children(name) and (allocated := _pods(parent)):
        yield (
            f"queue {name} cannot be the parent queue of queue {queue.name} because it has allocated Pods: {allocated}"
        )


def _pods(queue: Queue) -> int:
    return value(queue.status.allocated.get(_PODS, 0))


def _amounts_changed(queue: Queue, old: Queue) -> bool:
    new, before = queue.spec, old.spec
    pairs = (
        (new.capability, before.capability),
        (new.deserved, before.deserved),
        (new.guarantee.resource, before.guarantee.resource),
    )
    return any(
        one.keys() != other.keys()
        or any(_exceeds(one[key], other[key]) or _exceeds(other[key], one[key]) for key in one)
        for one, other in pairs
    )


def _sum_errors(queue: Queue, tree: QueueTree) -> Iterator[str]:
    """Return the errors of the amounts of a queue together with those of its ancestors, siblings and descendants."""
    parent = None
    if queue.spec.parent not in {"", ROOT}:
        parent = tree.queues.get(queue.spec.parent)
        if parent is None:
            yield f"parent queue {queue.spec.parent} not found: {not_found(queue.spec.parent)}"
            return
        for name, amount in _counted(queue.spec.capability).items():
            limit = _ancestor_capability(queue, name, tree)
            if limit is not None and amount >= _MIN_AMOUNT and amount > limit:
                yield (
                    f"queue {queue.name} capability[{name}]={_shown(name, amount)} exceeds its ancestor's"
                    f" capability={_shown(name, limit)}"
                )
                return
        siblings = [each for each in tree.children(parent.name) if each.name != queue.name]
        if error := _sum_error(parent, [*siblings, queue], f"parent queue {parent.name}"):
            yield error
            return
    children = tree.children(queue.name)
    for name, amount in _counted(queue.spec.capability).items() if children else ():
        most = max(_subtree_capability(each, name, tree) for each in children)
        if amount >= _MIN_AMOUNT and amount < most:
            yield (
                f"queue {queue.name} capability[{name}]={_shown(name, amount)} is smaller than its descendants' max"
                f" capability={_shown(name, most)}"
            )
            return
    if children and (error := _sum_error(queue, children, f"queue {queue.name}")):
        yield error


def _sum_error(parent: Queue, children: Iterable[Queue], shown: str) -> str:
    limits = {
        "guarantee": _counted(parent.spec.guarantee.resource),
        "deserved": _counted(parent.spec.deserved),
    }
    totals: dict[str, dict[str, float]] = {"guarantee": {}, "deserved": {}}
    for child in children:
        for field, amounts in (("guarantee", child.spec.guarantee.resource), ("deserved", child.spec.deserved)):
            total = totals[field]
            for name, amount in _counted(amounts).items():
                total[name] = total.get(name, 0.0) + amount
            if _is_partly_less(limits[field], total):
                return (
                    f"{shown} validation failed: sum of children's {field} ({_listed(total)}) exceeds parent's"
                    f" {field} limit ({_listed(limits[field])})"
                )
    return ""


def _counted(amounts: Amounts) -> dict[str, float]:
    """Return amounts as Volcano counts them: CPU and scalar resources in thousandths, the others in whole units."""
    found: dict[str, float] = {}
    for name, amount in amounts.items():
        if name in {"memory", _PODS}:
            found[name] = float(value(amount))
        elif name in {"cpu", "ephemeral-storage"} or (not name.startswith("count/") and is_scalar(name)):
            found[name] = float(milli_value(amount))
    return found


def _is_partly_less(limit: Mapping[str, float], total: Mapping[str, float]) -> bool:
    """Return whether a total exceeds a limit. A scalar resource without a limit may not be named at all."""
    return any(
        limit.get(name, 0.0) < amount or (name not in limit and name not in {"cpu", "memory"})
        for name, amount in total.items()
    )


def _ancestor_capability(queue: Queue, name: str, tree: QueueTree) -> float | None:
    above, seen = queue.spec.parent, set[str]()
    while above not in {"", ROOT} and above not in seen:
        seen.add(above)
        ancestor = tree.queues.get(above)
        if ancestor is None:
            return None
        if (found := _counted(ancestor.spec.capability).get(name, 0.0)) > 0:
            return found
        above = ancestor.spec.parent
    return None


def _subtree_capability(queue: Queue, name: str, tree: QueueTree) -> float:
    """Return the greatest capability in a subtree, where a queue's own capability stands for those below it."""
    most, left, seen = 0.0, [queue], set[str]()
    while left:
        each = left.pop()
        if each.name in seen:
            continue
        seen.add(each.name)
        found = _counted(each.spec.capability).get(name, 0.0)
        most = max(most, found)
        if found <= 0:
            left += tree.children(each.name)
    return most


def _shown(name: str, amount: float) -> str:
    if name == "cpu":
        return format_quantity(int(amount), milli=True)
    return format_quantity(int(amount), binary=True) if name == "memory" else f"{amount:.2f}"


def _listed(amounts: Mapping[str, float]) -> str:
    first = {"cpu": 0.0, "memory": 0.0}
    return ", ".join(f"{name} {amount:.2f}" for name, amount in {**first, **amounts}.items())
