"""Comparing what a plugin said with what was expected, node by node, so that a failing test shows where they differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mooring.framework.status import Status
from mooring.testing.harness import PluginRun

_MISSING = "-"


def check_run(
    run: PluginRun,
    *,
    fits: Iterable[str] | None = None,
    rejected: Mapping[str, str | Sequence[str]] | None = None,
    scores: Mapping[str, int] | None = None,
) -> None:
    """Raise AssertionError, with a table, unless a plugin said what is given; what is not given is not compared.

    ``fits`` are the nodes that will do, ``rejected`` the others with their reason (or reasons), ``scores`` those of the
    nodes that will do.
    """
    tables = []
    if fits is not None or rejected is not None:
        wanted = dict.fromkeys(fits or (), "fits")
        wanted |= {name: _reasons(reason) for name, reason in (rejected or {}).items()}
        said = {name: verdict_text(status) for name, status in run.filter.items()}
        if fits is None:
            said = {name: text for name, text in said.items() if text != "fits" or name in wanted}
        elif rejected is None:
            said = {name: text for name, text in said.items() if text == "fits" or name in wanted}
        if not run.pre_filter.is_success and not run.filter:
            said = dict.fromkeys(wanted, f"PreFilter: {verdict_text(run.pre_filter)}")
        tables += compare("verdicts", wanted, said)
    if scores is not None:
        texts = ({name: str(score) for name, score in each.items()} for each in (scores, run.scores))
        tables += compare("scores", *texts)
    if tables:
        raise AssertionError("\n".join(tables))


def verdict_text(status: Status) -> str:
    """A verdict in one line: fits, or the reasons, with the code where it is not plain Unschedulable."""
    if status.is_success:
        return "fits"
    reasons = ", ".join(status.reasons)
    return reasons if status.code.title == "Unschedulable" else f"{status.code.title}: {reasons}"


def compare(title: str, wanted: Mapping[str, str], said: Mapping[str, str]) -> list[str]:
    """The lines of a table with every node where two mappings differ; nothing if they are equal."""
    names = [name for name in dict.fromkeys((*wanted, *said)) if wanted.get(name) != said.get(name)]
    if not names:
        return []
    rows = [("node", "expected", "got")]
    rows += [(name, wanted.get(name, _MISSING), said.get(name, _MISSING)) for name in names]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    same = len({*wanted, *said}) - len(names)
    lines = [f"{title} differ on {len(names)} of {len(names) + same} nodes:"]
    lines += [f"  {name:<{widths[0]}}  {want:<{widths[1]}}  {got}" for name, want, got in rows]
    return lines


def _reasons(reason: str | Sequence[str]) -> str:
    return reason if isinstance(reason, str) else ", ".join(reason)
