"""SessionShadow: judges the placements of Volcano's sessions too, by sessions that are not carried out.

A session decides about all gangs at once, and its binds are observed one by one. At the first bind that is not judged
yet, a session runs on the state just before it. Where several nodes have the highest score, it chooses the node that
Volcano chose, so that the tasks after it are decided on the same state. All binds that the session explains are judged
by it; the others are judged when it is their turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec
import numpy as np

from mooring.api.meta import KubeObject
from mooring.api.pod import Pod
from mooring.api.volcano import PodGroup
from mooring.batch.actions import ACTIONS
from mooring.batch.conf import DEFAULT_CONF, BatchConf, PluginOption, read_conf
from mooring.batch.device_config import DeviceConfig
from mooring.batch.job import JobInfo
from mooring.batch.pending_reasons import job_message, task_reason
from mooring.batch.plugin import SessionGuards
from mooring.batch.plugins import PLUGINS
from mooring.batch.rankings import Floats, Parts, Rankings, Rows
from mooring.batch.run import close_plugins, open_session, run_actions
from mooring.batch.search import ErrorCache, find_nodes
from mooring.batch.session import Session
from mooring.batch.session_nodes import SessionNode
from mooring.batch.task import TaskInfo
from mooring.config import SchedulerConfiguration
from mooring.config.document import read_config_file
from mooring.framework.plugin import Plugin
from mooring.live.batch.batch_settings import BatchSettings, batch_cluster
from mooring.live.batch.session_gang import group_of
from mooring.live.informers import BATCH_KINDS, DEVICE_KINDS
from mooring.scheduler.sampling import nodes_to_find
from mooring.scheduler.shadow import (
    WINDOW,
    Judgement,
    ObservedChange,
    Shadow,
    Verdict,
    after,
    before,
    is_bind,
    is_equivalent,
    is_new_failure,
    unbound,
)

_replace = msgspec.structs.replace

#: The name under which the choice between equal nodes is registered.
_NAME: Final = "mooring-shadow"
#: The plugin that asks HTTP servers, which a session that is not carried out must not do.
_EXTENDER: Final = "extender"
#: The numbers of changes that are taken back, or applied early, to explain a decision.
_STATES: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, WINDOW)
#: How often to look for gangs that Volcano leaves pending, in seconds. A gang is reported if it is found twice.
_CHECK_SECONDS: Final = 10.0


class _Choice(NamedTuple):
    """A decision of a session about a pod."""

    #: The node; empty if the pod is not bound.
    node: str
    #: The number of nodes with the highest score, and one of them.
    best: int = 1
    first: str = ""
    #: Why the node of the other scheduler is not among them, or why the pod is not bound.
    why: str = ""
    #: Whether the node of the other scheduler is feasible.
    feasible: bool = False


_UNKNOWN: Final = _Choice("", 0, why="its PodGroup or its queue does not exist")


class _Followed(Rankings):
    """Chooses the nodes of the other scheduler where they are among the best, and records the reasons."""

    def __init__(self, session: Session, wanted: Mapping[str, str], *, always: bool) -> None:
        """With ``always``, feasible nodes of the other scheduler are chosen even if others have a higher score."""
        super().__init__(session.node_list)
        self._session = session
        self._wanted = wanted
        self._always = always
        self.choices: dict[str, _Choice] = {}

    def choose(self, task: TaskInfo, by_score: Mapping[float, list[SessionNode]]) -> SessionNode | None:
        """Return the node of the other scheduler; None if the best one is to be chosen."""
        wanted = self._wanted.get(task.uid)
        if wanted is None or not by_score:
            return None
        groups = by_score.values() if self._always else (by_score[max(by_score)],)
        found = next((node for nodes in groups for node in nodes if node.name == wanted), None)
        if found is None and not any(node.name == wanted for nodes in by_score.values() for node in nodes):
            self.choices[task.uid] = _Choice("", why=self._rejection(task, wanted))
        return found

    def put_scores(self, uid: str, rows: Rows, totals: Floats, parts: Parts, place: int) -> None:
        """Record how many nodes have the highest score, and what the node of the other scheduler lacks."""
        nodes = self._session.node_list
        top = np.flatnonzero(totals == totals.max())
        first = place if place in top else int(top[0])
        name, best = nodes[int(rows[place])].name, nodes[int(rows[first])].name
        wanted = self._session.nodes.get(self._wanted.get(uid, ""))
        (found,) = (rows == (-1 if wanted is None else wanted.row)).nonzero()
        if wanted is None or not len(found):
            known = self.choices.get(uid)
            self.choices[uid] = _Choice(name, len(top), best, "" if known is None else known.why)
            return
        theirs = int(found[0])
        why = ""
        if totals[theirs] < totals[first]:
            vectors = {plugin: np.broadcast_to(part, len(rows)) for plugin, part in parts.items()}
            differing = [
                f"{plugin} {each[theirs]:g} and {each[first]:g}"
                for plugin, each in vectors.items()
                if each[theirs] != each[first]
            ]
            scores = f"{wanted.name} has {totals[theirs]:g} and {best} {totals[first]:g} points"
            why = f"{scores}: {', '.join(differing)}"
        self.choices[uid] = _Choice(name, len(top), best, why, feasible=True)

    def only(self, uid: str) -> None:
        """Record that a task had one feasible node."""
        self.choices[uid] = _Choice("", why="no other node is feasible")

    def _rejection(self, task: TaskInfo, wanted: str) -> str:
        node = self._session.nodes.get(wanted)
        if node is None:
            return f"there is no node {wanted}"
        errors = find_nodes(self._session, task, "allocate", ErrorCache(enabled=False)).errors
        for row, verdict in errors.verdicts():
            if row == node.row:
                return f"{wanted} is rejected: {', '.join(status.message for status in verdict)}"
        return f"{wanted} has room only after other pods have terminated"


class SessionShadow(Shadow):
    """A shadow of kube-scheduler and of Volcano."""

    def __init__(
        self,
        config: SchedulerConfiguration,
        settings: BatchSettings,
        *,
        plugins: Mapping[str, type[Plugin]] | None = None,
        report: Callable[[Judgement], None],
        clock: Callable[[], float],
    ) -> None:
        """Raises ConfigError if the configuration of the sessions is invalid."""
        super().__init__(config, plugins=plugins, report=report, clock=clock)
        self._guards = SessionGuards(clock=clock)
        self._plugins = {**PLUGINS, **settings.plugins}
        users = {name: self._guards.action(name, each) for name, each in settings.actions.items()}
        self._actions = {**ACTIONS, **users}
        path = settings.scheduler_conf
        conf = read_conf(
            DEFAULT_CONF if path is None else read_config_file(path, encoding="utf-8-sig"),
            source="" if path is None else str(path),
            actions=self._actions,
            plugins=self._plugins,
            both_spellings=False,  # as Volcano reads it
        )
        tiers = [tuple(option for option in tier if option.name != _EXTENDER) for tier in conf.tiers]
        self._conf = _replace(conf, tiers=(*tiers, (PluginOption(_NAME),)))
        self._cluster = batch_cluster(
            self._engine.cache,
            scheduler_names=settings.scheduler_names,
            default_queue=settings.default_queue,
            node_selector=settings.node_selector,
            clock=clock,
            as_volcano=True,
        )
        #: The pods (uid) whose binds were judged before their turn.
        self._explained: set[str] = set()
        #: The last session, until the state changes: the wanted nodes, and its choices.
        self._last: tuple[dict[str, str], dict[str, _Choice]] | None = None
        #: Pods (uid) that the last check would have placed, pods that were reported, and the time of the next check.
        self._placeable: set[str] = set()
        self._reported: set[str] = set()
        self._next_check = 0.0

    @property
    def conf(self) -> BatchConf:
        """The configuration of the sessions."""
        return self._conf

    def use_device_config(self, config: DeviceConfig) -> None:
        """Use the ConfigMap of the device plugins."""
        self._cluster.device_config = config

    @property
    def kinds(self) -> tuple[type[KubeObject], ...]:
        """The additional kinds that the plugins and the sessions read."""
        return tuple(dict.fromkeys((*super().kinds, *BATCH_KINDS, *DEVICE_KINDS)))

    @property
    def needs_finished_pods(self) -> bool:
        """Whether finished pods matter: a gang counts them."""
        return True

    def judge(self, before: float) -> None:
        """Judge the changes before a time, and look for gangs that only Mooring would place."""
        super().judge(before)
        if self._next_check <= before < float("inf"):
            self._next_check = before + _CHECK_SECONDS
            self._check_waiting(before)

    # Judging

    def _judge(self, change: ObservedChange) -> None:
        pod = change.new
        if not isinstance(pod, Pod) or pod.scheduler_name not in self._cluster.scheduler_names:
            super()._judge(change)
        elif group_of(pod) and not pod.is_finished:
            if is_bind(change):
                self._judge_bind(pod, change)
            elif is_new_failure(change):
                self._judge_failure(pod, change)

    def _judge_bind(self, pod: Pod, change: ObservedChange) -> None:
        if pod.uid in self._explained:
            self._explained.discard(pod.uid)
            return
        if change.old is None:
            self._apply(None, unbound(pod))
        binds = [change, *(each for each in self._future if is_bind(each) and self._is_ours(each.new))]
        wanted = _nodes(binds)
        choices = self._decide(wanted)
        choice = choices.get(pod.uid, _UNKNOWN)
        if not _explains(choices, pod):
            # The tasks before it may have got nodes with a lower score.
            choices = self._decide(wanted, always=True)
        if _explains(choices, pod):
            for each in binds:
                found = each.new
                if isinstance(found, Pod) and found.uid not in self._explained and _explains(choices, found):
                    self._conclude_placement(found, choices[found.uid], each)
                    self._explained.add(found.uid)
            self._explained.discard(pod.uid)
            return
        why, ours = choice.why, choice.first
        nodes = len(self._cluster.handle.table)
        race = self._race(pod, change, wanted)
        if race:
            verdict, why = Verdict.RACE, f"{race} ({why})"
        elif choice.feasible and nodes_to_find(nodes, 0) < nodes:
            verdict = Verdict.SAMPLED
        else:
            verdict = Verdict.DIFFERS
        self._tell(pod, pod.node_name, change, verdict, counts=self.counts, ours=ours, best=choice.best, why=why)

    def _conclude_placement(self, pod: Pod, choice: _Choice, change: ObservedChange) -> None:
        verdict = Verdict.AGREES if choice.best <= 1 else Verdict.TIE
        self._tell(pod, pod.node_name, change, verdict, counts=self.counts, ours=pod.node_name, best=choice.best)

    def _judge_failure(self, pod: Pod, change: ObservedChange) -> None:
        wanted = _nodes(self._future)
        choice = self._decide(wanted).get(pod.uid, _UNKNOWN)
        if not choice.node:
            self._tell(pod, pod.node_name, change, Verdict.AGREES, counts=self.failures)
            return
        why = f"Mooring places it on {choice.node}"
        race = f"it was bound to {wanted[pod.uid]} shortly after" if pod.uid in wanted else ""
        race = race or self._race(pod, change, wanted)
        verdict, why = (Verdict.RACE, f"{race} ({why})") if race else (Verdict.DIFFERS, why)
        if verdict is Verdict.DIFFERS:
            self._reported.add(pod.uid)
        self._tell(
            pod, pod.node_name, change, verdict, counts=self.failures, ours=choice.node, best=choice.best, why=why
        )

    def _check_waiting(self, now: float) -> None:
        """Report the pods that Mooring would have placed in two checks, and that are still pending."""
        pods = self._cluster.handle.lister(Pod)
        waiting = [pod for pod in pods.list() if self._is_ours(pod) and not pod.node_name]
        self._reported &= {pod.uid for pod in waiting}
        placed = {uid: choice for uid, choice in self._decide({}).items() if choice.node} if waiting else {}
        bound = _nodes(self._future)
        for pod in waiting:
            choice = placed.get(pod.uid)
            if choice is None or pod.uid not in self._placeable or pod.uid in bound or pod.uid in self._reported:
                continue
            self._reported.add(pod.uid)
            why = (
                f"it has been pending for {_CHECK_SECONDS:g} seconds or longer, and Mooring places it on {choice.node}"
            )
            change = ObservedChange(0, now, pod, pod)
            counts = self.failures
            self._tell(
                pod, pod.node_name, change, Verdict.DIFFERS, counts=counts, ours=choice.node, best=choice.best, why=why
            )
        self._placeable = set(placed)

    def _is_ours(self, item: KubeObject | None) -> bool:
        if not isinstance(item, Pod) or item.scheduler_name not in self._cluster.scheduler_names:
            return False
        return bool(group_of(item)) and not item.is_finished

    # Races

    def _race(self, pod: Pod, change: ObservedChange, wanted: Mapping[str, str]) -> str:
        """Return which other state explains a decision; empty if none does."""
        nodes = {**_nodes(self._past), **wanted}

        def agrees() -> bool:
            choices = self._decide(nodes)
            return _explains(choices, pod) if pod.node_name else not choices.get(pod.uid, _UNKNOWN).node

        return self._explaining_state(pod, change, agrees)

    def _other_states(
        self, pod: Pod, decided: ObservedChange
    ) -> Iterator[tuple[list[ObservedChange], list[ObservedChange], str]]:
        """Yield fewer states than for one pod, because each costs a session."""
        past, future = self._changes_around(pod, decided)
        # The order of the pods of a gang is known.
        future = [each for each in future if not (isinstance(each.new, Pod) and group_of(each.new) == group_of(pod))]
        for count in (each for each in _STATES if each <= len(past)):
            yield past[:count], [], before(past[count - 1])
        for count in (each for each in _STATES if each <= len(future)):
            yield [], future[:count], after(future[count - 1])

    # Sessions

    def _decide(self, wanted: Mapping[str, str], *, always: bool = False) -> dict[str, _Choice]:
        """Run a session on the current state, and undo it. Return its choices by the uid of the pod."""
        if self._last is not None and not always and self._last[0] == wanted:
            return self._last[1]
        session = self._cluster.session(self._conf)
        session.memory = dict(session.memory)
        try:
            opened = open_session(session, self._plugins, self._guards)
            followed = session.rankings = _Followed(session, wanted, always=always)
            session.opening = _NAME
            session.add_best_node(followed.choose)
            session.opening = ""
            run_actions(session, self._actions)
            choices = _choices(session, followed)
            for item, message, _ in session.invalid:
                if isinstance(item, PodGroup):
                    invalid = _Choice("", 0, why=message)
                    choices |= {pod.uid: invalid for pod in self._cluster.pending_members(item)}
            close_plugins(session, opened)
        finally:
            session.bindings.clear()  # nothing is kept
            session.end()
        if not always:
            self._last = (dict(wanted), choices)
        return choices

    def _apply(self, old: KubeObject | None, new: KubeObject | None) -> None:
        if not (isinstance(old, Pod) and isinstance(new, Pod) and is_equivalent(old, new)):
            self._last = None
        super()._apply(old, new)
        if isinstance(old, Pod) and (new is None or not isinstance(new, Pod) or not new.is_finished):
            self._cluster.remove(old)
        if new is not None:
            self._cluster.put(new)


def _choices(session: Session, followed: _Followed) -> dict[str, _Choice]:
    found: dict[str, _Choice] = {}
    for task in session.bindings:
        choice = followed.choices.get(task.uid, _Choice(""))
        found[task.uid] = choice._replace(node=task.node_name, first=choice.first or task.node_name)
    for job in session.jobs.values():
        for task in job.tasks.values():
            if task.uid not in found and not task.pod.node_name:
                found[task.uid] = _Choice("", 0, why=_why_pending(job, task))
    return found


def _why_pending(job: JobInfo, task: TaskInfo) -> str:
    return job.held or task_reason(job, task).message or job_message(job)


def _explains(choices: Mapping[str, _Choice], pod: Pod) -> bool:
    """Return whether a session chooses the node of a bound pod, and no other node has a higher score."""
    choice = choices.get(pod.uid)
    return choice is not None and choice.node == pod.node_name and not (choice.feasible and choice.why)


def _nodes(changes: Iterable[ObservedChange]) -> dict[str, str]:
    """Return the nodes of the pods that were bound, by uid."""
    return {each.new.uid: each.new.node_name for each in changes if isinstance(each.new, Pod) and is_bind(each)}
