"""`python -m tests.e2e.controlplane build|run|where`: build the control plane, or keep one running to play with."""

from __future__ import annotations

import click

from tests.e2e.controlplane.building import BuildError, build, missing
from tests.e2e.controlplane.parts import PARTS, binary, cache_folder


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """A real control plane on loopback, built from Go modules and kept outside the checkout."""


@main.command("build")
@click.argument("parts", nargs=-1)
def build_command(parts: tuple[str, ...]) -> None:
    """Build what is missing: all that tests need, or the PARTS named."""
    try:
        build(parts)
    except BuildError as error:
        raise SystemExit(str(error)) from None


@main.command()
def where() -> None:
    """Say where the programs are, and which are missing."""
    unbuilt = {part.name for part in missing([part.name for part in PARTS])}
    print(cache_folder())
    for part in PARTS:
        print(f"  {part.name:<24} {part.version:<8} {'missing' if part.name in unbuilt else binary(part.name)}")


if __name__ == "__main__":
    main()
