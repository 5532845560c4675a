"""Build the wheel and its bill of materials in a folder: `python scripts/sbom.py FOLDER`, or `make sbom`.

The bill (CycloneDX 1.6, JSON) lists the wheel and the packages that the image has: those of the extra `all`, with the
versions of constraints.txt. The image also contains an operating system, which scanners of images list.
"""

# ruff: noqa: T201  (scripts print)

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pinned

ROOT = Path(__file__).resolve().parent.parent


def main(folder: Path) -> None:
    """Build the wheel, install it as the image does, and describe what is installed."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.whl"):
        old.unlink()
    with tempfile.TemporaryDirectory() as scratch:
        target = Path(scratch) / "environment"
        run(sys.executable, str(ROOT / "scripts" / "image.py"), str(target), "--wheel-dir", str(folder))
        (wheel,) = folder.glob("*.whl")
        bill = folder / f"{wheel.name.removesuffix('.whl')}.cdx.json"
        describe = ("environment", "--output-reproducible", "--pyproject", str(ROOT / "pyproject.toml"))
        run(sys.executable, "-m", "cyclonedx_py", *describe, "--output-file", str(bill), str(target / "bin" / "python"))
    complete(bill, wheel)
    print(f"-- {bill}: {len(json.loads(bill.read_text())['components'])} components")


def complete(bill: Path, wheel: Path) -> None:
    """Add what pyproject.toml does not say: the version and the hash of the wheel."""
    document = json.loads(bill.read_text())
    name, version = pinned.project()["project"]["name"], wheel.name.split("-")[1]
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    document["metadata"]["component"] |= {
        "version": version,
        "purl": f"pkg:pypi/{name}@{version}",
        "hashes": [{"alg": "SHA-256", "content": digest}],
    }
    # It is the described component, not one of its parts.
    document["components"] = [each for each in document["components"] if each["name"] != name]
    bill.write_text(json.dumps(document, indent=1) + "\n")


def run(*command: str) -> None:
    """Run a command."""
    subprocess.run(command, check=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]))
