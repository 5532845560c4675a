"""`mooring batch`: evaluate batch sessions, and install Volcano's resource definitions."""

from __future__ import annotations

from typing import Any, BinaryIO

import click

from mooring.cli.cluster_access import ClusterChoice
from mooring.cli.options import cluster_options


@click.group()
def batch() -> None:
    """Evaluate batch sessions, and install Volcano's resource definitions."""


@batch.command()
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--trace", is_flag=True, help="Also print the orders, shares and scores at the start, and every step.")
def evaluate(file: BinaryIO, trace: bool) -> None:
    """Print what a session would decide, for one case per line.

    A case is a JSON object {"id", "conf": TEXT, "objects": [...], "sessions"?: 2}, where conf is the text of a
    volcano-scheduler.conf. FILE may be gzipped; the default is standard input. Each answer contains the pods that are
    bound, pipelined and evicted, and the statuses of PodGroups, pods and queues. The answer to an invalid case is
    {"id", "error"}; the other cases are still answered, and the exit code is 1.
    """
    from mooring.batch.evaluate import CaseError
    from mooring.batch.evaluate import evaluate as evaluate_case
    from mooring.cli.json_lines import answer_cases

    def answer(case: dict[str, Any]) -> dict[str, Any]:
        try:
            return evaluate_case(case, trace=trace)
        except CaseError:
            raise
        except Exception as error:  # a bug must not prevent the answers to other cases
            raise CaseError(f"no answer: {type(error).__name__}: {error}") from error

    answer_cases(file, answer, CaseError, "{id, conf, objects}")


@batch.command()
@cluster_options
@click.option("--dry-run", is_flag=True, help="Print what would be done without doing it.")
@click.option(
    "-o", "--output", type=click.Choice(["yaml", "json"]), help="Print the definitions instead of installing them."
)
def install(choice: ClusterChoice, dry_run: bool, output: str | None) -> None:
    """Install the CustomResourceDefinitions of queues, pod groups, jobs and commands.

    Existing definitions that Mooring did not install, such as Volcano's own, are not changed.
    """
    from mooring.cli.cluster_access import on_cluster
    from mooring.cli.output import print_documents
    from mooring.controllers.definitions import DEFINITIONS
    from mooring.controllers.definitions.installer import InstallError
    from mooring.controllers.definitions.installer import install as install_on

    if output is not None:
        print_documents(DEFINITIONS, output)
        return
    try:
        done = on_cluster(choice, lambda client: install_on(client, dry_run=dry_run))
    except InstallError as error:
        raise click.ClickException(str(error)) from None
    for each in done:
        note = " (not installed by Mooring)" if each.outcome == "kept" else " (dry run)" if dry_run else ""
        click.echo(f"customresourcedefinition.apiextensions.k8s.io/{each.name} {each.outcome}{note}")
