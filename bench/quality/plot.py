"""Draws results as an SVG: `python -m bench.quality -o json | python -m bench.quality.plot -o FILE`."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path

import click

from bench.quality.trace import WORKLOADS
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


def draw(values: dict[tuple[str, str], float]) -> str:
    """Return a bar chart: a group for each workload, a bar for each policy."""
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
        parts.append(f'<text transform="translate({left + 10} {base + 10}) rotate(45)">{workload}</text>')
    return "\n".join([*parts, "</svg>", ""])


@click.command()
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), required=True)
def main(output: Path) -> None:
    """Read runs, one JSON object a line, and write a chart."""
    output.write_text(draw(medians(sys.stdin)))


if __name__ == "__main__":
    main()
