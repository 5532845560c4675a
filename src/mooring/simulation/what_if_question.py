"""What-if questions as data: changes to a cluster in one request, and the answer to them.

The command, the service and the dashboard ask the same questions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from mooring.api.meta import KubeObject
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.config.config_loader import load_document
from mooring.config.document import read_document
from mooring.loading import Setup
from mooring.scheduler.engine import Engine
from mooring.simulation.outcome import Outcome
from mooring.simulation.run import build_scenario, simulate_scenario
from mooring.simulation.scenario import Scenario
from mooring.simulation.sources import Given, InputError, Source, given_in
from mooring.simulation.what_if import Changes, Comparison, Fit, compare, fit, settle, unassign_all, with_weight

#: Limits of one question.
_MAX_CHANGES: Final = 1000
_MAX_COUNT: Final = 100_000
_MAX_REPLICAS: Final = 100_000

#: Simulates objects with a setup, and returns the scenario and the outcome.
Simulate = Callable[[Sequence[Given], Setup], tuple[Scenario, Outcome]]


class _Part(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Base of the parts of a question."""


class AddNodes(_Part, frozen=True):
    """Nodes like an existing one, named by its instance type or by its name."""

    type: str
    count: int = 1


class Scale(_Part, frozen=True):
    """The replicas of a workload."""

    kind: str
    name: str
    replicas: int
    namespace: str = "default"


class Question(_Part, frozen=True):
    """Changes to a cluster; with ``fit``, how many copies of its objects fit after them."""

    add_nodes: list[AddNodes] = []
    cordon: list[str] = []
    drain: list[str] = []
    scale: list[Scale] = []
    #: Manifests in YAML or JSON of objects that are added or replaced.
    add: str = ""
    #: Score plugin -> weight.
    weights: dict[str, int] = {}
    #: A KubeSchedulerConfiguration in YAML or JSON that is used after the changes, with the plugins of the scheduler.
    config: str = ""
    #: Manifests of which copies are added until one does not fit.
    fit: str = ""
    limit: int = 10_000


def read_question(body: bytes) -> Question:
    """Decode and check a question. Raises InputError."""
    try:
        found = msgspec.json.decode(body, type=Question)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InputError(f"the question is not valid: {error}") from None
    changes = len(found.add_nodes) + len(found.cordon) + len(found.drain) + len(found.scale) + len(found.weights)
    if changes > _MAX_CHANGES:
        raise InputError(f"the question has {changes} changes; at most {_MAX_CHANGES} are allowed")
    for each in found.add_nodes:
        if not 0 < each.count <= _MAX_COUNT:
            raise InputError(f"addNodes {each.type}: the count must be from 1 to {_MAX_COUNT}")
    for scaled in found.scale:
        if not 0 <= scaled.replicas <= _MAX_REPLICAS:
            raise InputError(f"scale {scaled.kind}/{scaled.name}: the replicas must be from 0 to {_MAX_REPLICAS}")
    if not 0 < found.limit <= _MAX_COUNT:
        raise InputError(f"limit: must be from 1 to {_MAX_COUNT}")
    return found


def apply(question: Question, changes: Changes) -> None:
    """Apply the changes of a question, except added objects. Raises InputError."""
    for each in question.add_nodes:
        changes.add_nodes(each.type, each.count)
    for scaled in question.scale:
        changes.scale(scaled.kind, scaled.name, scaled.replicas, namespace=scaled.namespace)
    for node in question.cordon:
        changes.cordon(node)
    for node in question.drain:
        changes.drain(node)


def with_weights(setup: Setup, weights: dict[str, int]) -> Setup:
    """Return a setup with other weights of Score plugins. Raises InputError."""
    config = setup.config
    for plugin, weight in weights.items():
        config = with_weight(config, plugin, weight)
    return msgspec.structs.replace(setup, config=config)


def with_config(setup: Setup, text: str) -> Setup:
    """Return a setup with another configuration. Raises InputError, ConfigError.

    Extenders are not called in simulations. Here they are refused, because checking them would read files of this
    machine, which the one who asks may not read.
    """
    document = read_document(text, source="config", release=setup.config.release)
    if document.values.get("extenders"):
        raise InputError("config: extenders are not called in simulations; leave them out")
    return msgspec.structs.replace(setup, config=load_document(document, plugins=setup.catalog.specs()))


def ask(
    question: Question,
    given: Sequence[Given],
    *,
    present: Setup,
    changed: Setup | None = None,
    added: Sequence[Given] = (),
    copied: Sequence[Given] = (),
    seed: int = 0,
    run: Simulate | None = None,
) -> Comparison | Fit:
    """Answer a question about the objects of a cluster. Raises InputError, ManifestError, ConfigError, ProfileError.

    ``changed`` is another setup after the changes. ``added`` and ``copied`` are objects in addition to those in the
    question. ``run`` simulates, for example to show the progress.
    """
    simulate = run or (lambda objects, setup: run_simulation(objects, setup, seed))
    added = [*added, *_objects(question.add, "add")]
    copied = [*copied, *_objects(question.fit, "fit")]
    if question.config.strip():
        changed = with_config(changed or present, question.config)
    after_setup = with_weights(changed or present, question.weights)
    notes: list[str] = []
    if changed is not None or question.weights:
        given = unassign_all(given)
        notes.append("the configuration changes, so all pods were placed again, with both configurations")
        settled, before = given, simulate(given, present)[1]
    else:
        scenario, before = simulate(given, present)
        settled = settle(given, scenario, before)
    changes = Changes(settled)
    apply(question, changes)
    changes.add(added)
    if copied:
        return fit(changes.given, copied, lambda each: simulate(each, after_setup)[1], limit=question.limit)
    after = simulate(changes.given, after_setup)[1]
    return compare(before, after, (*notes, *changes.notes))


def run_simulation(given: Sequence[Given], setup: Setup, seed: int, progress: Any = None) -> tuple[Scenario, Outcome]:
    """Simulate objects."""
    scenario, sessions = build_scenario(given, setup, seed=seed)
    return scenario, simulate_scenario(scenario, setup, seed=seed, sessions=sessions, progress=progress)


def placed_objects(given: Sequence[Given], setup: Setup) -> list[KubeObject]:
    """Return the objects of manifests after a simulation that places their pods. Raises as ``ask`` does."""
    scenario, outcome = run_simulation(given, setup, 0)
    found: list[KubeObject] = [*scenario.nodes]
    for each in settle(given, scenario, outcome):
        item = each.item
        ended = isinstance(item, Pod) and item.is_finished
        if isinstance(item, KubeObject) and not isinstance(item, Node) and not ended:
            found.append(item)
    return found


def objects_of(engine: Engine, kinds: Sequence[type[KubeObject]]) -> list[KubeObject]:
    """Return the objects of some kinds in an engine's cache, and its nodes."""
    found: list[KubeObject] = [info.node for info in engine.cache.table.nodes]
    for kind in kinds:
        if kind is not Node:
            found += engine.cache.objects.lister(kind).list()
    return found


def _objects(text: str, field: str) -> list[Given]:
    return given_in(Source(field, text.encode())) if text.strip() else []
