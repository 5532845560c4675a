"""`mooring tune`: search for a better configuration on recordings, traces, manifests or generated load."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mooring.api.decode_errors import ManifestError
from mooring.api.yaml_writer import documents_text
from mooring.cli.input_files import fail, read_setup
from mooring.cli.options import ReleaseChoice, config_option, output_option, plugin_options, release_options
from mooring.config import ConfigError
from mooring.loading import Requested
from mooring.scheduler.profile import ProfileError
from mooring.simulation.sources import InputError

if TYPE_CHECKING:
    from mooring.simulation.report import Cell, Part
    from mooring.simulation.tuning.study import Candidate, Objective, Report, Study, Workers
    from mooring.simulation.tuning.workload import Generated


@click.command()
@click.argument("files", nargs=-1, metavar="[RECORDING|TRACE|MANIFESTS]...")
@click.option("--nodes", metavar="MANIFEST", help="The nodes for traces (CSV), which have none.")
@click.option(
    "--generate",
    metavar="nodes=20,pods=400,load=90",
    help="Generate load instead: the number of nodes and pods, and the requests in percent of the capacity.",
)
@click.option(
    "--objective",
    "names",
    multiple=True,
    default=("waiting",),
    show_default=True,
    metavar="NAME",
    help="utilization, fragmentation, cost, waiting, spread, unscheduled, or FILE.py:FUNCTION. Repeatable.",
)
@click.option("--trials", default=64, show_default=True, type=click.IntRange(min=1), help="The number of trials.")
@click.option("--seeds", default=3, show_default=True, type=click.IntRange(min=1), help="Generated workloads to use.")
@click.option("--repeats", default=1, show_default=True, type=click.IntRange(min=1), help="Replays with other ties.")
@click.option("--space", "space_file", metavar="FILE", help="The search space (YAML). By default weights and strategy.")
@click.option("--jobs", type=click.IntRange(min=1), help="Local processes. By default one for each core.")
@click.option("--dask", metavar="ADDRESS", help="Run on a Dask cluster, such as tcp://host:8786.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("mooring-tune"),
    show_default=True,
    help="The folder for the study, which is resumed, the configuration, the report and the chart.",
)
@config_option
@plugin_options
@release_options
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the search and of generated load.")
@output_option("table", "json")
def tune(
    files: tuple[str, ...],
    nodes: str | None,
    generate: str | None,
    names: tuple[str, ...],
    trials: int,
    seeds: int,
    repeats: int,
    space_file: str | None,
    jobs: int | None,
    dask: str | None,
    out: Path,
    config_file: str | None,
    requested: Requested,
    emulated: ReleaseChoice,
    seed: int,
    output: str,
) -> None:
    """Search weights, strategies and arguments of plugins for an objective, and show the evidence on held-out data.

    Replays the pods of recordings (`mooring record`), traces or manifests, or generated load, with every configuration
    that the search tries. Nothing is read from or written to a cluster. With several objectives the result is a Pareto
    front. Run the same command again to resume, or with more --trials to continue.

    \b
    Examples:
      mooring tune --generate nodes=20,pods=400,load=90 --objective waiting --objective cost
      mooring tune cluster.mooring --objective utilization
      mooring tune trace.csv --nodes nodes.yaml --config scheduler.yaml --objective my.py:loss
    """
    if bool(files) == bool(generate):
        raise click.UsageError("give recordings, traces or manifests, or --generate")
    from mooring.simulation.tuning.space import Space
    from mooring.simulation.tuning.study import MissingExtraError, Study
    from mooring.simulation.tuning.workload import workloads_of

    generated = _generated(generate) if generate else None
    objectives = [_objective(name) for name in dict.fromkeys(names)]
    release = emulated.release()
    setup = read_setup(config_file, requested, release)
    try:
        space = Space(setup.config, _space_document(space_file))
        training, held_out = workloads_of(files, nodes, generated, seeds=seeds, seed=seed)
        study = Study(
            space,
            objectives,
            training,
            held_out,
            requested=requested,
            release=release,
            file=out / "study.journal",
            seed=seed,
            repeats=repeats,
        )
        with _workers(jobs, dask) as workers:
            study.search(trials, workers, _Progress(trials, objectives))
            report = study.report(workers)
    except (InputError, ManifestError, ProfileError, MissingExtraError) as error:
        fail(str(error).splitlines())
    except ConfigError as error:
        fail(error.lines())
    except KeyboardInterrupt:
        click.echo("\ninterrupted; run the same command again to resume", err=True)
        raise SystemExit(130) from None
    _write(out, study, report, objectives)
    from mooring.cli.output import print_result

    print_result(report, output, lambda: _tables(report, objectives, out))


# Arguments


def _generated(text: str) -> Generated:
    import msgspec

    from mooring.simulation.tuning.workload import Generated

    try:
        given = dict(part.split("=", 1) for part in text.split(",") if part)
        made = msgspec.convert(given, Generated, strict=False)
    except (ValueError, msgspec.ValidationError):
        raise click.UsageError(f"--generate {text}: give nodes=20,pods=400,load=90") from None
    unknown = given.keys() - set(Generated.__struct_fields__)
    if unknown or made.nodes < 1 or made.pods < 2 or made.load < 1:
        raise click.UsageError(f"--generate {text}: give nodes=20,pods=400,load=90")
    return made


def _objective(name: str) -> Objective:
    from mooring.simulation.tuning.study import OBJECTIVES, Objective

    if name in OBJECTIVES:
        return Objective(name)
    path, separator, function = name.rpartition(":")
    if not separator or not path.endswith(".py"):
        raise click.UsageError(f"--objective {name}: give one of {', '.join(OBJECTIVES)}, or FILE.py:FUNCTION")
    namespace: dict[str, Any] = {"__name__": "objective", "__file__": path}
    try:
        exec(compile(Path(path).read_text(encoding="utf-8"), path, "exec"), namespace)  # the user's file
    except OSError as error:
        raise click.UsageError(f"--objective {name}: {error.strerror or error}") from None
    except Exception as error:
        raise click.UsageError(f"--objective {name}: {type(error).__name__}: {error}") from None
    found = namespace.get(function)
    if not callable(found):
        raise click.UsageError(f"--objective {name}: there is no function {function} in {path}")
    return Objective(name, _guarded(found, name))


def _guarded(function: Callable[[Mapping[str, float]], Any], name: str) -> Callable[[Mapping[str, float]], float]:
    def call(measures: Mapping[str, float]) -> float:
        try:
            return float(function(measures))
        except Exception as error:
            raise InputError(f"--objective {name}: {type(error).__name__}: {error}") from None

    return call


def _space_document(file: str | None) -> Mapping[str, Any] | None:
    if file is None:
        return None
    from mooring.api.yaml_reader import read_documents
    from mooring.cli.input_files import read_text

    document = next(iter(read_documents(read_text(file))), None)
    if not isinstance(document, dict):
        raise InputError(f"{file}: give a mapping of parameters, such as weight/NodeResourcesFit: [0, 10]")
    return document


def _workers(jobs: int | None, dask: str | None) -> Workers:
    from mooring.simulation.tuning.study import DaskWorkers, LocalWorkers

    return LocalWorkers(jobs or os.cpu_count() or 1) if dask is None else DaskWorkers(dask)


class _Progress:
    """Prints a line on standard error: it is replaced on a terminal."""

    def __init__(self, trials: int, objectives: Sequence[Objective]) -> None:
        self._trials = trials
        self._objectives = objectives
        self._terminal = sys.stderr.isatty()

    def __call__(self, done: int, best: Sequence[float]) -> None:
        """Print the number of finished trials and the best values."""
        values = ", ".join(f"{each.name} {value:.4g}" for each, value in zip(self._objectives, best, strict=False))
        text = f"{done}/{self._trials} trials" + (f", best so far: {values}" if values else "")
        end = done >= self._trials
        click.echo(f"\r{text:<78}" if self._terminal else text, err=True, nl=end or not self._terminal)


# The result


def _write(out: Path, study: Study, report: Report, objectives: Sequence[Objective]) -> None:
    """Write the configuration, the report and the chart."""
    import msgspec

    from mooring.simulation.tuning.chart import Point, draw
    from mooring.simulation.tuning.study import PRESENT

    (out / "config.yaml").write_text(documents_text(report.configuration))
    (out / "report.json").write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2))
    trials = [report.present, *study.trials()]
    if len(objectives) > 1:
        points = [Point(each.trial, each.values[0], each.values[1]) for each in trials]
        titles = (objectives[0].name, objectives[1].name)
    else:
        points = [Point(each.trial, max(each.trial, 0), each.values[0]) for each in trials]
        titles = ("trial", objectives[0].name)
    best = {each.trial for each in report.front}
    (out / "pareto.svg").write_text(draw(*titles, points, best, PRESENT))


def _tables(report: Report, objectives: Sequence[Objective], out: Path) -> list[Part]:
    from mooring.cli.output import table

    titles = [name for each in objectives for name in (each.name, "held out")]
    rows: list[tuple[Cell, ...]] = [("present", *_values(report.present), "")]
    rows += [(f"trial {each.trial}", *_values(each), "chosen" * (each.trial == report.chosen)) for each in report.front]
    parts: list[Part] = [
        _summary(report, objectives),
        table("Pareto front", ("", *titles, " "), rows, right=tuple(titles)),
    ]
    evidence: list[tuple[Cell, ...]] = []
    for each in report.evidence:
        for objective in objectives:
            old, new = (_value(each[which], objective) for which in ("present", "chosen"))
            evidence.append((each["workload"], objective.name, f"{old:.4g}", f"{new:.4g}", _change(old, new)))
    columns = ("workload", "objective", "present", "chosen", "change")
    parts.append(table("Held-out workloads", columns, evidence, right=("present", "chosen", "change")))
    parts.append(f"Written to {out}: config.yaml, report.json, pareto.svg, and study.journal to resume.")
    return parts


def _summary(report: Report, objectives: Sequence[Objective]) -> str:
    chosen = next((each for each in report.front if each.trial == report.chosen), None)
    if chosen is None:
        return f"{report.trials} trials: none is better on held-out workloads. Keep the present configuration."
    changes = [
        f"{each.name} {old:.4g} -> {new:.4g} ({_change(old, new)})"
        for each, old, new in zip(objectives, report.present.held_out, chosen.held_out, strict=True)
    ]
    return f"{report.trials} trials. On held-out workloads, trial {chosen.trial} changes {', '.join(changes)}."


def _values(candidate: Candidate) -> list[str]:
    pairs = zip(candidate.values, candidate.held_out, strict=True)
    return [f"{value:.4g}" for pair in pairs for value in pair]


def _value(measures: Mapping[str, float], objective: Objective) -> float:
    return measures[objective.name] if objective.function is None else objective.function(measures)


def _change(old: float, new: float) -> str:
    return f"{100 * (new - old) / abs(old):+.1f}%" if old else "-"
