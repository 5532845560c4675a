"""`python -m bench.hostile`: the cost of hostile pods, alone or next to kube-scheduler on a real API server."""

from __future__ import annotations

import asyncio
import json
import sys

import click

from bench.hostile import offline
from bench.hostile.shapes import SHAPES


@click.command()
@click.option("--nodes", default=1000, show_default=True)
@click.option("--shape", "shapes", multiple=True, type=click.Choice(SHAPES), help="By default all.")
@click.option("--live", is_flag=True, help="On a real API server, next to kube-scheduler; fails beyond the limits.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def main(nodes: int, shapes: tuple[str, ...], live: bool, output: str) -> None:
    """Time decisions about hostile pods."""
    if live:
        asyncio.run(_compare(shapes or SHAPES, nodes))
        return
    for shape in shapes or SHAPES:
        found = offline.measure(shape, nodes)
        if output == "json":
            print(json.dumps(found), flush=True)
        else:
            print("  ".join(f"{key}={value}" for key, value in found.items()), flush=True)


async def _compare(shapes: tuple[str, ...], nodes: int) -> None:
    """Print the table next to kube-scheduler, then what exceeds the limits."""
    from bench.hostile.live import HEADER, compare, line
    from tests.e2e.controlplane import build

    build(["kubectl", "etcd", "kube-apiserver", "kube-scheduler"])
    violations = []
    print(HEADER)
    async for row in compare(shapes, nodes):
        print(line(row), flush=True)
        violations += [f"{row.shape}: {text}" for text in row.violations()]
    if violations:
        sys.exit("\n".join(["beyond the limits:", *violations]))


if __name__ == "__main__":
    main()
