"""`python -m bench.live.unrecorded FLAGS`: `mooring run FLAGS` without decision records, to measure their cost."""

from __future__ import annotations

import functools
import sys

import mooring.live
from mooring.cli.main import main

if __name__ == "__main__":
    setattr(mooring.live, "LiveScheduler", functools.partial(mooring.live.LiveScheduler, records=False))  # noqa: B010
    main(["run", *sys.argv[1:]])
