"""Draws results as an SVG: `python -m bench.quality -o json | python -m bench.quality.plot -o FILE`.

A dark line over a bar is the published median. Results of `python -m bench.quality.queueing` are drawn too.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import click

from bench.quality.trace import WORKLOADS, DataOption, read_published
from mooring.plugins.gpu_sharing.policies import POLICIES

_COLORS = ("#b0b0b0", "#c49c94", "#9edae5", "#98df8a", "#ffbb78", "#1f77b4", "#d62728")
_BAR, _GAP, _HEIGHT, _TOP = 7, 14, 240, 44


def medians(lines: Iterable[str]) -> dict[tuple[str, str], float]:
    """Return the median of the unallocated percentages by workload and policy."""
    found: dict[tuple[str, str], list[float]] = {}
    for line in lines:
        run = json.loads(line)
        found.setdefault((run["workload"], run["policy"]), []).append(run["unallocated_pct"])
    return {key: statistics.median(values) for key, values in found.items()}


def published_medians(data: Path) -> dict[tuple[str, str], float]:
    """Return the median of the published unallocated percentages by workload and policy."""
    found: dict[tuple[str, str], list[float]] = {}
    for (workload, policy, _), (unallocated, _) in read_published(data).items():
        found.setdefault((workload, policy), []).append(unallocated)
    return {key: statistics.median(values) for key, values in found.items()}


def draw(values: dict[tuple[str, str], float], published: Mapping[tuple[str, str], float]) -> str:
    """Return a bar chart: a group for each workload, a bar for each policy, a line for each published median."""
    workloads = [name for name in WORKLOADS if any(workload == name for workload, _ in values)]
    policies = [name for name in POLICIES if any(policy == name for _, policy in values)]
    highest = max(values.values())
    group = _BAR * len(policies) + _GAP
    width = 46 + group * len(workloads)
    base = _TOP + _HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {base + 74}" font-family="sans-serif">',
        "<title>Unallocated GPUs in percent, by workload and policy</title><style>text{font-size:11px}</style>",
        f'<rect width="{width}" height="{base + 74}" fill="white"/>',
        '<text x="8" y="14">Unallocated GPUs in % when 100 % of the GPUs have been requested (median)</text>',
    ]
    for place, policy in enumerate(policies):
        x = 8 + 100 * place
        parts.append(f'<rect x="{x}" y="22" width="9" height="9" fill="{_COLORS[list(POLICIES).index(policy)]}"/>')
        parts.append(f'<text x="{x + 13}" y="31">{policy}</text>')
    for percent in range(0, int(highest) + 1, 5):
        y = base - _HEIGHT * percent / highest
        parts.append(f'<path d="M34 {y:.1f}H{width}" stroke="#ddd"/><text x="8" y="{y + 4:.1f}">{percent}</text>')
    for number, workload in enumerate(workloads):
        left = 40 + group * number
        for place, policy in enumerate(policies):
            value = values.get((workload, policy))
            if value is not None:
                height = _HEIGHT * value / highest
                color = _COLORS[list(POLICIES).index(policy)]
                parts.append(
                    f'<rect x="{left + _BAR * place}" y="{base - height:.1f}" width="{_BAR - 1}" height="{height:.1f}" '
                    f'fill="{color}"><title>{workload} {policy} {value:.2f}</title></rect>'
                )
            mark = published.get((workload, policy))
            if value is not None and mark is not None:
                y = base - _HEIGHT * mark / highest
                parts.append(f'<path d="M{left + _BAR * place - 0.5} {y:.1f}h{_BAR}" stroke="#222"/>')
        parts.append(f'<text transform="translate({left + 10} {base + 10}) rotate(45)">{workload}</text>')
    return "\n".join([*parts, "</svg>", ""])


#: Measures of runs with departures, and their titles.
_QUEUEING = {
    "utilization_pct": "Utilization, %",
    "frag_pct": "Fragmented, %",
    "wait_mean_s": "Mean wait, s",
    "wait_p95_s": "p95 wait, s",
}


def draw_queueing(lines: Iterable[str]) -> str:
    """Return bar charts of the means of the seeds: one chart for each measure, a bar for each policy."""
    runs = [json.loads(line) for line in lines]
    policies = [name for name in POLICIES if any(each["policy"] == name for each in runs)]
    panel, bar = 46 + 40 * len(policies), 30
    width, base = panel * len(_QUEUEING), _TOP + _HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {base + 74}" font-family="sans-serif">',
        "<title>Departures and queueing, by policy</title><style>text{font-size:11px}</style>",
        f'<rect width="{width}" height="{base + 74}" fill="white"/>',
    ]
    for number, (measure, title) in enumerate(_QUEUEING.items()):
        left = panel * number + 20
        means = [statistics.fmean(each[measure] for each in runs if each["policy"] == name) for name in policies]
        parts.append(f'<text x="{left}" y="20">{title}</text>')
        for place, (name, mean) in enumerate(zip(policies, means, strict=True)):
            height = (_HEIGHT - 30) * mean / (max(means) or 1.0)
            x, color = left + 40 * place, _COLORS[list(POLICIES).index(name)]
            parts.append(
                f'<rect x="{x}" y="{base - height:.1f}" width="{bar}" height="{height:.1f}" fill="{color}"/>'
                f'<text x="{x}" y="{base - height - 4:.1f}">{mean:.1f}</text>'
                f'<text transform="translate({x + 8} {base + 12}) rotate(45)">{name}</text>'
            )
    return "\n".join([*parts, "</svg>", ""])


@click.command()
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), required=True)
@click.option("--data", type=DataOption, help="The folder with the published results; without it, they are not drawn.")
def main(output: Path, data: Path | None) -> None:
    """Read runs, one JSON object a line, and write a chart."""
    lines = [line for line in sys.stdin if line.strip()]
    if not lines:
        raise click.ClickException("there are no runs on standard input")
    if "wait_mean_s" in json.loads(lines[0]):
        output.write_text(draw_queueing(lines))
    else:
        output.write_text(draw(medians(lines), published_medians(data) if data is not None else {}))


if __name__ == "__main__":
    main()
