"""Study: a search for a better configuration with Optuna, on local processes or on a Dask cluster.

Trials are chosen in batches of a fixed size, and the random numbers of a batch depend only on its number. So the result
depends neither on the number of processes nor on where they run, and a study that was interrupted and resumed ends as
one that was not. It needs the extra `tune`, and `dask` for a Dask cluster.
"""

from __future__ import annotations

import functools
import hashlib
import multiprocessing
import pickle
import statistics
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import msgspec

from mooring.api.yaml_writer import documents_text
from mooring.config import ConfigError
from mooring.loading import Requested, load_setup
from mooring.releases import Release
from mooring.simulation.sources import InputError
from mooring.simulation.tuning.replay import Measures, Replay
from mooring.simulation.tuning.space import Choice, Space
from mooring.simulation.tuning.workload import Workload

if TYPE_CHECKING:
    import optuna

#: How many trials are evaluated before the next ones are chosen.
BATCH: Final = 8
#: The measures that a search can optimize, and whether higher is better.
OBJECTIVES: Final = {
    "utilization": True,
    "fragmentation": False,
    "cost": False,
    "waiting": False,
    "spread": False,
    "unscheduled": False,
}
#: The number of the trial that stands for the present configuration.
PRESENT: Final = -1
#: How often work is repeated after a process ended unexpectedly.
_RETRIES: Final = 3
#: The largest part of the Pareto front that is evaluated on held-out workloads.
_FRONT: Final = 8


class MissingExtraError(RuntimeError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f'{package} is not installed: pip install "mooring-scheduler[{extra}]"')


class Objective(msgspec.Struct, frozen=True):
    """What is optimized: a measure, or a function of all measures (lower is better)."""

    name: str
    function: Callable[[Mapping[str, float]], float] | None = None

    @property
    def higher_is_better(self) -> bool:
        """Whether higher values are better."""
        return self.function is None and OBJECTIVES[self.name]

    def of(self, measures: Sequence[Measures]) -> float:
        """Return the mean value over several workloads."""
        if self.function is None:
            return statistics.fmean(getattr(each, self.name) for each in measures)
        return statistics.fmean(float(self.function(each.as_dict())) for each in measures)


# Evaluation


class Task(msgspec.Struct, frozen=True):
    """One replay: a configuration, a workload (compressed), and the seed of tie-breaks."""

    config: str
    requested: Requested
    release: Release
    workload: bytes
    seed: int


@functools.lru_cache(maxsize=16)
def _unpacked(data: bytes) -> Workload:
    workload: Workload = pickle.loads(zlib.decompress(data))  # packed by this program
    return workload


def replay(task: Task) -> Measures:
    """Carry out a task. Runs in a worker process."""
    setup = load_setup(task.config, source="trial", requested=task.requested, release=task.release)
    return Replay(_unpacked(task.workload), setup, seed=task.seed).run()


class Workers(Protocol):
    """Processes that carry out tasks. Use them as a context manager."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def map(self, tasks: Sequence[Task]) -> list[Measures]:
        """Carry out tasks, and return their results in order."""
        ...


class LocalWorkers:
    """Processes on this machine. With one, tasks run in this process."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def map(self, tasks: Sequence[Task]) -> list[Measures]:
        """Carry out tasks. If a process ends unexpectedly, repeat them in new processes."""
        if self._count <= 1:
            return [replay(task) for task in tasks]
        for left in reversed(range(_RETRIES)):
            if self._pool is None:
                self._pool = ProcessPoolExecutor(self._count, mp_context=multiprocessing.get_context("spawn"))
            try:
                return list(self._pool.map(replay, tasks))
            except BrokenProcessPool:
                self._pool = None
                if not left:
                    raise
        raise AssertionError


class DaskWorkers:
    """The workers of a Dask cluster. Dask repeats the tasks of a worker that is lost."""

    def __init__(self, address: str) -> None:
        """Connect to a scheduler such as tcp://host:8786. Raises MissingExtraError and InputError."""
        try:
            from distributed import Client
        except ModuleNotFoundError:
            raise MissingExtraError("Dask", "dask") from None
        try:
            self._client: Any = Client(address, timeout="10s", set_as_default=False)  # type: ignore[no-untyped-call]  # Dask has no types
        except (OSError, ValueError) as error:
            raise InputError(f"--dask {address}: the scheduler cannot be reached: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def map(self, tasks: Sequence[Task]) -> list[Measures]:
        """Carry out tasks on the cluster."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the size of the workloads, which are part of each task
            futures = self._client.map(replay, list(tasks), pure=False, retries=_RETRIES)
            found: list[Measures] = self._client.gather(futures)
        return found


# The search


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A trial with its values for the objectives, in order, on the workloads of the search and on held-out ones."""

    trial: int
    choice: Choice
    values: list[float]
    held_out: list[float] = []


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a study."""

    objectives: list[str]
    trials: int
    #: The present configuration, and the trials that improve on it and that no other one beats in all objectives.
    present: Candidate
    front: list[Candidate]
    #: The number of the chosen trial; that of the present configuration if none is better on held-out workloads.
    chosen: int
    training: list[str]
    held_out: list[str]
    #: The measures of the present and the chosen configuration on each held-out workload.
    evidence: list[dict[str, Any]]
    configuration: list[dict[str, Any]]


#: Called after each batch with the finished trials and the best value of each objective so far.
Progress = Callable[[int, Sequence[float]], None]


class Study:
    """A search, which a file keeps."""

    def __init__(
        self,
        space: Space,
        objectives: Sequence[Objective],
        training: Sequence[Workload],
        held_out: Sequence[Workload],
        *,
        requested: Requested,
        release: Release,
        file: Path,
        seed: int = 0,
        repeats: int = 1,
    ) -> None:
        """``repeats`` is the number of tie-break seeds for each workload. Raises MissingExtraError and InputError."""
        self._space, self._objectives = space, objectives
        self._requested, self._release = requested, release
        self._training = [zlib.compress(pickle.dumps(each)) for each in training]
        self._held_out = [zlib.compress(pickle.dumps(each)) for each in held_out]
        self._names = ([each.name for each in training], [each.name for each in held_out])
        self._seed, self._repeats = seed, repeats
        self._optuna = _import_optuna()
        self._study = self._open(file, training)

    def _open(self, file: Path, workloads: Sequence[Workload]) -> optuna.Study:
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        identity = hashlib.sha256(
            msgspec.json.encode(
                [
                    {name: msgspec.to_builtins(each) for name, each in self._space.parameters.items()},
                    [each.name for each in self._objectives],
                    [hashlib.sha256(msgspec.json.encode(each)).hexdigest() for each in workloads],
                    self._seed,
                    self._repeats,
                ]
            )
        ).hexdigest()
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            storage = JournalStorage(JournalFileBackend(str(file)))
        except OSError as error:
            raise InputError(f"{file}: {error.strerror or error}") from None
        names = self._optuna.study.get_all_study_names(storage)
        if names and names != [identity]:
            raise InputError(
                f"{file}: the study has another search space, other objectives, workloads or seeds; give the same "
                "arguments to resume it, or another --out"
            )
        directions = ["maximize" if each.higher_is_better else "minimize" for each in self._objectives]
        study: optuna.Study = self._optuna.create_study(
            study_name=identity, storage=storage, directions=directions, load_if_exists=bool(names)
        )
        if not names:
            study.enqueue_trial(self._space.current())
        return study

    @property
    def finished(self) -> int:
        """The number of finished trials."""
        return len(self._study.get_trials(deepcopy=False, states=(self._optuna.trial.TrialState.COMPLETE,)))

    def search(self, trials: int, workers: Workers, progress: Progress) -> None:
        """Evaluate trials until there are so many. Those that were interrupted are evaluated first."""
        state = self._optuna.trial.TrialState
        interrupted = self._study.get_trials(deepcopy=False, states=(state.RUNNING,))
        if interrupted:
            self._evaluate([(each.number, dict(each.params)) for each in interrupted], workers)
        while (done := self.finished) < trials:
            progress(done, self._best() if done else [])
            # The number of the batch, not of the run, decides the random numbers.
            self._study.sampler = self._sampler(self._seed + 1000 * (done // BATCH + 1))
            size = min(BATCH - done % BATCH, trials - done)
            distributions = self._distributions()
            asked = [self._study.ask(distributions) for _ in range(size)]
            self._evaluate([(each.number, dict(each.params)) for each in asked], workers)
        progress(self.finished, self._best())

    def _sampler(self, seed: int) -> optuna.samplers.BaseSampler:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # constant_liar is experimental
            made: optuna.samplers.BaseSampler = self._optuna.samplers.TPESampler(
                seed=seed, n_startup_trials=2 * BATCH, constant_liar=True
            )
        return made

    def _distributions(self) -> dict[str, optuna.distributions.BaseDistribution]:
        made = self._optuna.distributions
        found: dict[str, optuna.distributions.BaseDistribution] = {}
        for name, each in self._space.parameters.items():
            if each.choices:
                found[name] = made.CategoricalDistribution(each.choices)
            elif isinstance(each.low, int) and isinstance(each.high, int):
                found[name] = made.IntDistribution(each.low, each.high)
            else:
                found[name] = made.FloatDistribution(each.low, each.high)
        return found

    def _evaluate(self, asked: Sequence[tuple[int, Choice]], workers: Workers) -> None:
        measured = self._measure([choice for _, choice in asked], self._training, workers)
        for (number, _), measures in zip(asked, measured, strict=True):
            self._study.tell(number, [each.of(measures) for each in self._objectives])

    def _measure(self, choices: Sequence[Choice], workloads: Sequence[bytes], workers: Workers) -> list[list[Measures]]:
        """Return the measures of each choice on all workloads."""
        tasks = [
            Task(self._text(choice), self._requested, self._release, workload, self._seed + repeat)
            for choice in choices
            for workload in workloads
            for repeat in range(self._repeats)
        ]
        try:
            found = workers.map(tasks)
        except ConfigError as error:
            raise InputError("a trial has an invalid configuration:\n" + "\n".join(error.lines())) from None
        size = len(workloads) * self._repeats
        return [found[start : start + size] for start in range(0, len(found), size)]

    def _text(self, choice: Choice) -> str:
        return documents_text(self._space.configuration(choice))

    def _best(self) -> list[float]:
        columns = zip(*(each.values for each in self._study.best_trials), strict=True)
        return [
            max(column) if each.higher_is_better else min(column)
            for each, column in zip(self._objectives, columns, strict=True)
        ]

    # The result

    def trials(self) -> list[Candidate]:
        """Return all finished trials."""
        complete = (self._optuna.trial.TrialState.COMPLETE,)
        return [
            Candidate(trial=each.number, choice=dict(each.params), values=list(each.values))
            for each in self._study.get_trials(deepcopy=False, states=complete)
        ]

    def report(self, workers: Workers) -> Report:
        """Evaluate the best trials on the held-out workloads, and choose one."""
        trials = self.trials()
        (now,) = self._measure([{}], self._training, workers)
        present = Candidate(trial=PRESENT, choice={}, values=[each.of(now) for each in self._objectives])
        best = {each.number for each in self._study.best_trials}
        front = [each for each in trials if each.trial in best and self._loss(each.values, present.values) < 0]
        front.sort(key=lambda each: self._loss(each.values, present.values))
        del front[_FRONT:]
        measured = self._measure([each.choice for each in [present, *front]], self._held_out, workers)
        values = [[each.of(measures) for each in self._objectives] for measures in measured]
        present = msgspec.structs.replace(present, held_out=values[0])
        front = [msgspec.structs.replace(each, held_out=found) for each, found in zip(front, values[1:], strict=True)]
        # The search chooses by its own workloads; the held-out ones only decide whether that is an improvement.
        chosen = front[0] if front and self._loss(front[0].held_out, present.held_out) < 0 else present
        number = [present, *front].index(chosen)
        names = [name for name in self._names[1] for _ in range(self._repeats)]
        evidence = [
            {"workload": name, "present": old.as_dict(), "chosen": new.as_dict()}
            for name, old, new in zip(names, measured[0], measured[number], strict=True)
        ]
        return Report(
            objectives=[each.name for each in self._objectives],
            trials=len(trials),
            present=present,
            front=front,
            chosen=chosen.trial,
            training=self._names[0],
            held_out=self._names[1],
            evidence=evidence,
            configuration=self._space.configuration(chosen.choice),
        )

    def _loss(self, values: Sequence[float], present: Sequence[float]) -> float:
        """Return the mean relative change of the objectives; negative if they improve."""
        total = 0.0
        for each, value, old in zip(self._objectives, values, present, strict=True):
            change = (value - old) / max(abs(old), 1e-9)
            total += min(max(-change if each.higher_is_better else change, -1.0), 1.0)
        return total / len(self._objectives)


def _import_optuna() -> Any:
    try:
        import optuna
    except ModuleNotFoundError:
        raise MissingExtraError("Optuna", "tune") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
