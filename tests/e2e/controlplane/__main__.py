"""`python -m tests.e2e.controlplane build|run|ready|where`: build the control plane, or keep one running to play."""

from __future__ import annotations

import signal
import sys
from types import FrameType

import click

from tests.e2e.controlplane.building import BuildError, build, missing
from tests.e2e.controlplane.parts import PARTS, binary, cache_folder
from tests.e2e.controlplane.plane import ControlPlane


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """A real control plane on loopback, built from Go modules and kept outside the checkout."""
    signal.signal(signal.SIGTERM, _end)


@main.command("build")
@click.argument("parts", nargs=-1)
def build_command(parts: tuple[str, ...]) -> None:
    """Build what is missing: everything that tests use, or the PARTS named."""
    _build(parts or tuple(part.name for part in PARTS if not part.on_request))


@main.command("run")
@click.option("--controller-manager", is_flag=True, help="With Kubernetes' controllers.")
@click.option("--kwok", is_flag=True, help="With fake kubelets.")
@click.option("--kube-scheduler", is_flag=True, help="With Kubernetes' own scheduler.")
def run_command(controller_manager: bool, kwok: bool, kube_scheduler: bool) -> None:
    """Keep a control plane running until Ctrl-C."""
    _build(())
    with ControlPlane(controller_manager=controller_manager, kwok=kwok, kube_scheduler=kube_scheduler) as plane:
        print(f"export KUBECONFIG={plane.kubeconfig()}\nexport PATH={cache_folder()}:$PATH", flush=True)
        signal.pause()


@main.command()
def ready() -> None:
    """Say by the exit code whether all that tests need is built."""
    raise SystemExit(bool(missing()))


@main.command()
def where() -> None:
    """Say where the programs are, and which are missing."""
    unbuilt = {part.name for part in missing([part.name for part in PARTS])}
    print(cache_folder())
    for part in PARTS:
        print(f"  {part.name:<24} {part.version:<8} {'missing' if part.name in unbuilt else binary(part.name)}")


def _build(parts: tuple[str, ...]) -> None:
    try:
        build(parts)
    except BuildError as error:
        raise SystemExit(str(error)) from None


def _end(number: int, frame: FrameType | None) -> None:
    """End in order, so that nothing that was started is left behind."""
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
