"""Writes down what kube-scheduler's queue did, for ``test_traces.py``.

``python -m tests.scheduler.queue.oracle.record SCENARIOS ANSWERS... > traces.jsonl.gz`` takes several files of answers
to the same scenarios; those that differ from run to run (Go asks plugins in random order) are left out.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any


def changes(steps: list[dict[str, Any]]) -> list[list[Any]]:
    """Each step as its result, the pods in flight, and the pods whose state is another (None: gone)."""
    found, before = [], {}
    for step in steps:
        state = step["state"]
        changed = {name: state.get(name) for name in {*before, *state} if before.get(name) != state.get(name)}
        found.append([step["result"], step["inFlight"], dict(sorted(changed.items()))])
        before = state
    return found


def main() -> None:
    """Write the traces to standard output."""
    scenarios, *answers = (Path(name).read_text().splitlines() for name in sys.argv[1:])
    lines = []
    for scenario, *runs in zip(scenarios, *answers, strict=True):
        if len(set(runs)) == 1:
            answer = json.loads(runs[0])
            trace = {
                "scenario": json.loads(scenario),
                "steps": changes(answer["steps"]),
                "incoming": answer["incoming"],
            }
            lines.append(json.dumps(trace, separators=(",", ":")))
    text = "".join(f"{line}\n" for line in lines)
    sys.stdout.buffer.write(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
