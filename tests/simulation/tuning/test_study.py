"""Studies: the same result in any number of processes, on a Dask cluster, and after an interruption."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from mooring.config import default_config
from mooring.loading import Requested
from mooring.releases import NEWEST
from mooring.simulation.sources import InputError
from mooring.simulation.tuning import study as module
from mooring.simulation.tuning.replay import Measures
from mooring.simulation.tuning.space import Space
from mooring.simulation.tuning.study import (
    BATCH,
    DaskWorkers,
    LocalWorkers,
    MissingExtraError,
    Objective,
    Study,
    Task,
    Workers,
)
from mooring.simulation.tuning.workload import Generated

LOAD = Generated(nodes=4, pods=30, load=110)
TRIALS = BATCH + 4


def make(folder: Path, *names: str, seed: int = 0) -> Study:
    made = [LOAD.workload(number) for number in range(2)]
    return Study(
        Space(default_config()),
        [Objective(name) for name in names or ("waiting", "cost")],
        made[:1],
        made[1:],
        requested=Requested(),
        release=NEWEST,
        file=folder / "study.journal",
        seed=seed,
    )


def search(study: Study, workers: Workers, trials: int = TRIALS) -> list[object]:
    study.search(trials, workers, lambda done, best: None)
    return study.trials()


class Interrupted(LocalWorkers):
    """A worker that stops after some batches."""

    def __init__(self, batches: int) -> None:
        super().__init__(1)
        self._left = batches

    def map(self, tasks: Sequence[Task]) -> list[Measures]:
        self._left -= 1
        if self._left < 0:
            raise KeyboardInterrupt
        return super().map(tasks)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    return search(make(tmp_path_factory.mktemp("expected")), LocalWorkers(1))


def test_the_result_improves_on_held_out_load(tmp_path: Path, expected: list[object]) -> None:
    study = make(tmp_path)
    assert search(study, LocalWorkers(1)) == expected
    report = study.report(LocalWorkers(1))
    assert report.trials == TRIALS
    assert report.front
    assert report.chosen in {each.trial for each in report.front}
    assert report.configuration[0]["kind"] == "KubeSchedulerConfiguration"
    assert [each["workload"] for each in report.evidence] == ["generated, seed 1"]
    best = report.front[0]
    assert best.values[1] < report.present.values[1]


def test_a_study_resumes_where_it_stopped(tmp_path: Path, expected: list[object]) -> None:
    with pytest.raises(KeyboardInterrupt):
        search(make(tmp_path), Interrupted(1))
    resumed = make(tmp_path)
    assert resumed.finished == BATCH
    assert search(resumed, LocalWorkers(1)) == expected
    with pytest.raises(InputError, match="the study has another search space, other objectives"):
        make(tmp_path, "cost")


def test_an_objective_of_the_user() -> None:
    names = Measures.__struct_fields__
    measures = [Measures(**{**dict.fromkeys(names, 0), "cost": 2, "waiting": wait}) for wait in (2, 4)]
    assert Objective("mine", lambda each: each["waiting"] + each["cost"]).of(measures) == 5
    assert Objective("waiting").of(measures) == 3
    assert Objective("utilization").higher_is_better
    assert not Objective("mine", lambda each: 0.0).higher_is_better


@pytest.mark.filterwarnings("ignore")
def test_a_dask_cluster_that_loses_a_worker(
    tmp_path: Path, expected: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    from distributed import LocalCluster

    # The first task ends its own process, once.
    monkeypatch.setattr(module, "replay", KillOnce(tmp_path / "killed"))
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        DaskWorkers(cluster.scheduler_address) as workers,
    ):
        assert search(make(tmp_path), workers) == expected
    assert (tmp_path / "killed").exists()


_replay = module.replay


class KillOnce:
    """A replay that ends its process the first time."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __call__(self, task: Task) -> Measures:
        try:
            self._marker.open("x").close()
        except FileExistsError:
            return _replay(task)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def test_local_processes_that_end_are_replaced(
    tmp_path: Path, expected: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "replay", KillOnce(tmp_path / "killed"))
    with LocalWorkers(2) as workers:
        assert search(make(tmp_path), workers) == expected


def test_missing_extras(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"mooring-scheduler\[dask\]"):
        DaskWorkers("tcp://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"mooring-scheduler\[tune\]"):
        make(tmp_path)
