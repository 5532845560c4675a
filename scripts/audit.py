"""Look for known vulnerabilities of everything that constraints.txt pins: `make audit`.

Exit codes: 0 none are known, 1 some are, 2 nothing was checked, because the database of vulnerabilities (OSV) cannot be
reached. pip-audit by itself ends with 1 in both of the last cases.
"""

# ruff: noqa: T201  (scripts print)

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
COMMAND = ("-m", "pip_audit", "--vulnerability-service", "osv", "--disable-pip", "--require-hashes", "--strict")


def main() -> int:
    """Run pip-audit and print what it found."""
    arguments = ["--progress-spinner", "off", "--format", "json", "--requirement", str(ROOT / "constraints.txt")]
    done = subprocess.run(
        [sys.executable, *COMMAND, *arguments], capture_output=True, text=True, check=False, timeout=600
    )
    try:
        found = json.loads(done.stdout)["dependencies"]
    except ValueError:
        print(f"audit: nothing was checked: {reason(done.stderr)}", file=sys.stderr)
        print("audit: pip-audit asks the OSV database; run it where that can be reached", file=sys.stderr)
        return 2
    return report(found)


def report(dependencies: list[dict[str, Any]]) -> int:
    """Print the vulnerabilities, and return the exit code."""
    bad = 0
    for each in dependencies:
        for flaw in each.get("vulns", ()):
            bad += 1
            fixed = ", ".join(flaw["fix_versions"]) or "no version"
            print(f"{each['name']} {each['version']}: {flaw['id']}, fixed in {fixed}")
    print(f"audit: {len(dependencies)} packages, {bad} known vulnerabilities")
    return 1 if bad else 0


def reason(text: str) -> str:
    """Return the last line of an error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "pip-audit printed nothing"


if __name__ == "__main__":
    raise SystemExit(main())
