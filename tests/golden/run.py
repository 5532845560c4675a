"""How many golden answers are matched, by theme: `python -m tests.golden.run`. The exit code is 1 if any is not."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mooring.batch.evaluate import CaseError as SessionCaseError
from mooring.batch.evaluate import evaluate as evaluate_session
from mooring.config import ConfigError, PluginSpec, effective, load_config
from mooring.framework.points import points_of
from mooring.releases import Release
from mooring.simulation.evaluate import CaseError, evaluate
from tests.config import golden_compare, stub_plugins
from tests.golden import decisions, sessions

_STUBS = (
    stub_plugins.NodeCRDResourceFit,
    stub_plugins.ScoreByName,
    stub_plugins.ScoreByNameLength,
    stub_plugins.BlockAll,
)


#: Shown for themes of sessions.
_SESSIONS = "volcano-1.15"


class Theme(NamedTuple):
    """How one theme went."""

    data: str
    name: str
    cases: int
    #: Case -> what differs.
    mismatches: dict[str, list[str]]


def decision_theme(data: str, name: str, cases: Sequence[decisions.Lines]) -> Theme:
    """Decide the cases of a theme."""
    mismatches = {}
    for case, expected in decisions.decoded(cases):
        try:
            found = decisions.compare(expected, evaluate(case, release=decisions.SETS[data]))
        except CaseError as error:
            found = [f"refused: {error}"]
        if found:
            mismatches[case["id"]] = found
    return Theme(data, name, len(cases), mismatches)


def session_theme(name: str, cases: Sequence[decisions.Lines]) -> Theme:
    """Run the sessions of a theme."""
    mismatches = {}
    for case, expected in decisions.decoded(cases):
        try:
            found = sessions.compare(expected, evaluate_session(case))
        except SessionCaseError as error:
            found = [f"refused: {error}"]
        if found:
            mismatches[case["id"]] = found
    return Theme(_SESSIONS, name, len(cases), mismatches)


def config_themes() -> dict[tuple[str, str], list[tuple[Any, Any]]]:
    """The configuration files of each set and theme, with what kube-scheduler makes of them."""
    found: dict[tuple[str, str], list[tuple[Any, Any]]] = {}
    for data in golden_compare.SETS:
        for case, answer in golden_compare.cases(data):
            found.setdefault((data, case["id"].rpartition("/")[0]), []).append((case, answer))
    return found


def config_theme(data: str, name: str, cases: Sequence[tuple[Any, Any]]) -> Theme:
    """Read the configuration files of a theme."""
    specs = {each.name: PluginSpec(each.name, points_of(each)) for each in _STUBS}
    mismatches = {}
    for case, expected in cases:
        found = golden_compare.compare(
            {**case, "expected": expected}, _read(case["config"], specs, golden_compare.SETS[data])
        )
        if found:
            mismatches[case["id"]] = found
    return Theme(data, name, len(cases), mismatches)


def _read(text: str, specs: Mapping[str, PluginSpec], release: Release) -> dict[str, Any]:
    try:
        config = load_config(text, source="", plugins=specs, release=release)
    except ConfigError as error:
        return {"ok": False, "errors": [{"path": each.path, "message": each.message} for each in error.errors]}
    return {"ok": True, "effective": effective(config)}


def main() -> int:
    """Run everything and print a table."""
    started = time.monotonic()
    results = []
    print(f"{'data':<30} {'theme':<20} {'cases':>6} {'match':>6}")
    for (data, name), cases in decisions.themes().items():
        results.append(_shown(decision_theme(data, name, cases)))
    for name, cases in sessions.themes().items():
        results.append(_shown(session_theme(name, cases)))
    for (data, name), cases in config_themes().items():
        results.append(_shown(config_theme(data, name, cases)))
    kinds = (("decisions", decisions.SETS), ("sessions", (_SESSIONS,)), ("configurations", golden_compare.SETS))
    for kind, chosen in kinds:
        group = [theme for theme in results if theme.data in chosen]
        total = sum(theme.cases for theme in group)
        wrong = sum(len(theme.mismatches) for theme in group)
        print(f"{kind}: {total - wrong:,} of {total:,} match")
    print(f"{time.monotonic() - started:.0f} s")
    return 1 if any(theme.mismatches for theme in results) else 0


def _shown(theme: Theme) -> Theme:
    match = theme.cases - len(theme.mismatches)
    print(f"{theme.data:<30} {theme.name:<20} {theme.cases:>6} {match:>6}", flush=True)
    for case, found in list(theme.mismatches.items())[:5]:
        print(f"    {case}: {'; '.join(found[:3])[:300]}")
    return theme


if __name__ == "__main__":
    sys.exit(main())
