"""Jobs of batch.volcano.sh: what happens to their pods is turned into actions, and actions into writes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from mooring.api.policy import PriorityClass
from mooring.api.volcano import PodGroup, Queue
from mooring.api.volcano_jobs import JOB_GROUP, Command, VolcanoJob, VolcanoJobStatus
from mooring.config.durations import SECOND, format_duration
from mooring.controllers.commands import commands_for, take
from mooring.controllers.jobs import constants
from mooring.controllers.jobs.defaults import completed, problems
from mooring.controllers.jobs.job_state import Book, with_status
from mooring.controllers.jobs.members import MEMBERS, Member, count, request_of
from mooring.controllers.jobs.plugins import PluginError
from mooring.controllers.jobs.policies import Delayed, Request, cancels, decide, supersedes
from mooring.controllers.jobs.state import SOFT, Place, Step, step
from mooring.controllers.jobs.status import next_status, patch_for
from mooring.controllers.jobs.work import HoldError, Work
from mooring.controllers.names import JOB_NAME, PENDING
from mooring.controllers.reconciler import Reconciler, Selection, Tools
from mooring.kube import Change, NotFound

_LOOK: Final = Request()
#: One change of phase may lead to the next, though not for ever.
_MOST_STEPS: Final = 8
_HOLD_SECONDS: Final = 5.0
#: Counts of pods are written at most this often; a change of phase, at once.
_COUNT_SECONDS: Final = 0.5


class Jobs(Reconciler):
    """Runs jobs."""

    name = "job"

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self._books: dict[str, Book] = {}
        self._work = Work(tools)

    def selections(self) -> Iterable[Selection]:
        """Jobs, their pods and groups, and what is asked of them."""
        yield from (Selection.of(kind) for kind in (VolcanoJob, PodGroup, Queue, Command, PriorityClass))
        yield Selection(MEMBERS, labels=JOB_NAME)

    # What happens

    def concerns(self, change: Change[Any]) -> Iterable[str]:
        """The job that changed, or whose pod or group did, or of which something is asked."""
        found = change.object
        if isinstance(found, VolcanoJob):
            return (found.key,) if _is_news(change) else ()
        if isinstance(found, Member):
            return self._pod_changed(change)
        if isinstance(found, PodGroup):
            return self._group_changed(change)
        if isinstance(found, Command) and change.new is not None:
            target = found.target
            if target.kind == "Job" and target.api_version.startswith(f"{JOB_GROUP}/"):
                return (f"{found.namespace}/{target.name}",)
        return ()

    def _pod_changed(self, change: Change[Member]) -> Iterable[str]:
        pod = change.object
        if not pod.job:
            return ()
        book = self._books.setdefault(pod.job, Book())
        job = self.view.get(VolcanoJob, pod.job)
        if job is not None:
            self._begin(job, book)
        ours = pod.uid in book.going
        book.see(change.old, change.new)
        if job is not None and job.uid == pod.job_uid and not ours:
            self._note(job, book, change.old, change.new)
        return (pod.job,)

    def _begin(self, job: VolcanoJob, book: Book) -> None:
        """Note what happened to the pods of a job before we knew of it."""
        if book.begin(job):
            for pod in book.members(job).values():
                self._note(job, book, None, pod)

    def _note(self, job: VolcanoJob, book: Book, old: Member | None, new: Member | None) -> None:
        name = new.task if new is not None else old.task if old is not None else ""
        task = next((each for each in self._completed(job).spec.tasks if each.name == name), None)
        request = request_of(old, new, task, book.of_task(name))
        if request.event != constants.OUT_OF_SYNC:
            book.requests.append(request)

    def _group_changed(self, change: Change[PodGroup]) -> Iterable[str]:
        group = change.object
        owner = next((each for each in group.metadata.owner_references if each.controller), None)
        if owner is None or owner.kind != "Job" or not owner.api_version.startswith(f"{JOB_GROUP}/"):
            return ()
        key = f"{group.namespace}/{owner.name}"
        old, new = change.old, change.new
        if new is None:
            self._books.setdefault(key, Book()).going.discard(group.uid)
        elif old is not None and old.status.phase != new.status.phase and new.status.phase == constants.UNKNOWN:
            job = self.view.get(VolcanoJob, key)
            version = 0 if job is None else job.status.version
            self._books.setdefault(key, Book()).requests.append(Request(event=constants.JOB_UNKNOWN, version=version))
        return (key,)

    def _completed(self, job: VolcanoJob) -> VolcanoJob:
        settings = self.tools.settings
        return completed(job, scheduler_name=settings.scheduler_names[0], queue=settings.default_queue)

    # What is done about it

    async def reconcile(self, key: str) -> float | None:
        """Carry out what follows from all that happened to a job, and bring its pods up to its spec."""
        job = self.view.get(VolcanoJob, key)
        if job is None:
            self._forget(key)
            return None
        book = self._books.setdefault(key, Book())
        if job.metadata.deletion_timestamp is not None:
            return None
        self._begin(job, book)
        book.held = 0.0
        job = self._completed(book.current(job))
        faults = problems(job)
        if faults:
            await self._reject(job, book, faults)
            return None
        try:
            job = await self._heed(job, book)
            await self._settle(job, book)
        except (HoldError, PluginError) as error:
            reason = error.reason if isinstance(error, HoldError) else "PluginError"
            self._say(job, book, reason, str(error))
            return _HOLD_SECONDS
        waits = [max(each.due - self.tools.clock(), 0.0) for each in book.delayed.values()]
        if book.held > 0:
            waits.append(book.held)
        return min(waits, default=None)

    def _forget(self, key: str) -> None:
        book = self._books.get(key)
        if book is not None and not book.pods:
            del self._books[key]

    async def _reject(self, job: VolcanoJob, book: Book, faults: list[str]) -> None:
        """Say what is wrong with a job; nothing is done for it until it is right."""
        text = "; ".join(faults)
        self._say(job, book, "JobStatusError", text)
        if job.status.state.message != text:
            state = {"phase": job.status.state.phase or constants.PENDING, "reason": "InvalidJob", "message": text}
            patch = {"status": {"state": state}}
            made = await self.tools.client.patch(
                VolcanoJob, job.name, patch, namespace=job.namespace, subresource="status"
            )
            book.wrote(made)

    def _say(self, job: VolcanoJob, book: Book, reason: str, text: str) -> None:
        if book.said != text:
            book.said = text
            self.tools.tell(job, reason, text, type="Warning")

    async def _heed(self, job: VolcanoJob, book: Book) -> VolcanoJob:
        """Carry out commands, what policies say about what happened, and what is due by now."""
        for command in commands_for(self.view, "Job", job.name, job.namespace):
            if command.target.uid in {"", job.uid} and await take(self.tools.client, command):
                note = f"Start to execute command {command.action}, and clean it up to make sure executed not more"
                self.tools.tell(job, "CommandIssued", f"{note} than once.", type="Normal")
                book.requests.append(Request(event=constants.COMMAND_ISSUED, action=command.action))
        while book.requests:
            job = await self._consider(job, book, book.requests[0])
            book.requests.popleft()
        now = self.tools.clock()
        for pod, delayed in list(book.delayed.items()):
            if delayed.due <= now and book.delayed.get(pod) is delayed:
                job = await self._act(job, book, delayed.action, delayed.request)
                book.delayed.pop(pod, None)
        return job

    async def _consider(self, job: VolcanoJob, book: Book, request: Request) -> VolcanoJob:
        delayed = book.delayed.get(request.pod)
        if delayed is not None and cancels(request, delayed):
            del book.delayed[request.pod]
        action, delay = decide(job, request)
        if action == constants.SYNC or job.status.state.phase in constants.FINISHED:
            return job  # the job is looked at in any case
        if not delay:
            return await self._act(job, book, action, request)
        known = book.delayed.get(request.pod)
        if known is None or known.action != action:
            book.delayed[request.pod] = Delayed(request, action, self.tools.clock() + delay)
            after = format_duration(int(delay * SECOND))
            self.tools.tell(job, "ExecuteAction", f"Execute action {action} after {after}", type="Normal")
        return job

    async def _settle(self, job: VolcanoJob, book: Book) -> None:
        """Bring the pods up to the spec; one phase may lead to the next."""
        for _ in range(_MOST_STEPS):
            phase = job.status.state.phase
            job = await self._act(job, book, constants.SYNC, _LOOK)
            if job.status.state.phase == phase:
                return

    async def _act(self, job: VolcanoJob, book: Book, action: str, request: Request) -> VolcanoJob:
        what = step(job.status.state.phase, action)
        if action != constants.SYNC:
            self.tools.tell(job, "ExecuteAction", f"Start to execute action {action} ", type="Normal")
        match what.verb:
            case "sync":
                job = await self._sync(job, book, what)
            case "kill":
                job = await self._kill(job, book, what)
            case "kill part":
                job = await self._kill_part(job, book, what, action, request)
        for pod, delayed in list(book.delayed.items()):
            if supersedes(action, request, delayed):
                del book.delayed[pod]
        return job

    async def _sync(self, job: VolcanoJob, book: Book, what: Step) -> VolcanoJob:
        if not job.status.state.phase:
            job = await self._write(job, book, Place(constants.PENDING, 0), job.status.version, {})
        controlled = await self._work.prepare(job, book)
        await self._work.ensure_group(job, book)
        group = self._work.group(job, book)
        if group is not None:
            self._tell_group(job, book, group)
            # A job whose group still waits to be admitted has no pods: nobody is to make room for them yet.
            if group.status.phase not in {"", PENDING}:
                await self._work.fill_up(job, book)
        return await self._advance(job, book, what, job.status.version, controlled)

    async def _kill(self, job: VolcanoJob, book: Book, what: Step) -> VolcanoJob:
        # What the last attempt leaves behind is kept: somebody will want to know why it failed.
        keep = SOFT if job.status.retry_count >= job.spec.max_retry - 1 else what.keep
        pods = book.members(job).values()
        victims = [pod for pod in pods if not book.is_going(pod) and pod.status.phase not in keep]
        await self._work.delete(job, book, victims)
        known = job.status.controlled_resources
        controlled = {key: value for key, value in known.items() if not key.startswith("plugin-")}
        if len(controlled) != len(known) or book.prepared:
            await self._work.clean_up(job, book)
        job = await self._advance(job, book, what, job.status.version + bool(victims), controlled, killed=True)
        await self._work.delete_group(job, book)
        return job

    async def _kill_part(self, job: VolcanoJob, book: Book, what: Step, action: str, request: Request) -> VolcanoJob:
        victims = [pod for pod in book.members(job).values() if _is_meant(pod, action, request)]
        if action == constants.RESTART_PARTITION and not victims:
            return job
        alive = [pod for pod in victims if not book.is_going(pod)]
        await self._work.delete(job, book, alive, mark=True)
        return await self._advance(job, book, what, job.status.version, job.status.controlled_resources)

    def _tell_group(self, job: VolcanoJob, book: Book, group: PodGroup) -> None:
        """Tell why the group waits, if it does."""
        true = [each for each in group.status.conditions if each.status == "True"]
        latest = max(true, key=lambda each: each.last_transition_time or "", default=None)
        if latest is not None and latest.type != "Scheduled":
            kind = latest.type.lower()
            text = f"PodGroup {job.namespace}:{job.name} {kind}, reason: {latest.message}"
            self._say(job, book, "PodGroupPending", text)

    # The status

    async def _advance(
        self,
        job: VolcanoJob,
        book: Book,
        what: Step,
        version: int,
        controlled: dict[str, str],
        *,
        killed: bool = False,
    ) -> VolcanoJob:
        before = Place(job.status.state.phase, job.status.retry_count)
        counts = count(book.members(job).values(), book.going)
        after = what.advance(job.spec, before, counts) or before
        if killed and after.phase != before.phase and version == job.status.version:
            version += 1  # what still happens to the pods that are kept is no longer a reason for anything
        return await self._write(job, book, after, version, controlled)

    async def _write(
        self, job: VolcanoJob, book: Book, place: Place, version: int, controlled: dict[str, str]
    ) -> VolcanoJob:
        counts = count(book.members(job).values(), book.going)
        now = self.tools.clock()
        status = next_status(job, counts, place, now, version=version, controlled=controlled)
        if status == job.status:
            return job
        if self._may_wait(job.status, status) and now - book.written_at < _COUNT_SECONDS:
            book.held = book.written_at + _COUNT_SECONDS - now
            return with_status(job, status)
        await self._send(job, book, status)
        book.written_at = now
        if place.phase != job.status.state.phase and place.phase in {constants.COMPLETED, constants.FAILED}:
            self.tools.metrics.job_ended(job.key, job.spec.queue, completed=place.phase == constants.COMPLETED)
        return with_status(job, status)

    def _may_wait(self, old: VolcanoJobStatus, new: VolcanoJobStatus) -> bool:
        """Whether only counts of pods changed."""
        return (old.state, old.version, old.retry_count, old.min_available, old.controlled_resources) == (
            new.state,
            new.version,
            new.retry_count,
            new.min_available,
            new.controlled_resources,
        )

    async def _send(self, job: VolcanoJob, book: Book, status: VolcanoJobStatus) -> None:
        patch = patch_for(job.status, status)
        patch["metadata"] = {"uid": job.uid}
        try:
            made = await self.tools.client.patch(
                VolcanoJob, job.name, patch, namespace=job.namespace, subresource="status"
            )
        except NotFound:
            return
        book.wrote(msgspec.structs.replace(made, status=status))


def _is_meant(pod: Member, action: str, request: Request) -> bool:
    if pod.task != request.task:
        return False
    if action == constants.RESTART_POD:
        return pod.name == request.pod
    if action == constants.RESTART_PARTITION:
        return request_of(pod, pod, None, ()).partition == request.partition
    return True


def _is_news(change: Change[VolcanoJob]) -> bool:
    """Whether more changed than what we wrote ourselves."""
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    return (
        old.spec != new.spec
        or old.status.state.phase != new.status.state.phase
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
    )
