"""`mooring batch`: batch sessions, as Volcano has them."""

from __future__ import annotations

from typing import Any, BinaryIO

import click

from mooring.cli.cluster_access import kubeconfig_option


@click.group()
def batch() -> None:
    """Batch sessions, as Volcano has them."""


@batch.command()
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--trace", is_flag=True, help="Also tell the orders, shares and scores at the start, and every step.")
def evaluate(file: BinaryIO, trace: bool) -> None:
    """Answer what a session would decide, for one case a line.

    A case is a JSON object {"id", "conf": TEXT, "objects": [...], "sessions"?: 2}, where conf is the text of a
    volcano-scheduler.conf; FILE may be gzipped, and standard input is read where it is left out. Each answer holds what
    is bound, promised and evicted, and the statuses of PodGroups, pods and queues. A case that cannot be read gives
    {"id", "error"}; the exit code is 1 then, and the other cases are answered all the same.
    """
    from mooring.batch.evaluate import CaseError
    from mooring.batch.evaluate import evaluate as evaluate_case
    from mooring.cli.case_lines import answer_cases

    def answer(case: dict[str, Any]) -> dict[str, Any]:
        try:
            return evaluate_case(case, trace=trace)
        except CaseError:
            raise
        except Exception as error:  # a fault of ours; the other cases are to be answered all the same
            raise CaseError(f"no answer: {type(error).__name__}: {error}") from error

    answer_cases(file, answer, CaseError, "{id, conf, objects}")


@batch.command()
@kubeconfig_option
@click.option("--dry-run", is_flag=True, help="Tell what would be done, and do nothing.")
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), help="Print the definitions and do nothing else.")
def install(kubeconfig: str, dry_run: bool, output: str | None) -> None:
    """Put the definitions of queues, pod groups, jobs and commands on a cluster.

    Definitions that are there already and were not put there by Mooring, such as Volcano's own, are left as they are.
    """
    from mooring.cli.cluster_access import on_cluster
    from mooring.cli.documents import echo_documents
    from mooring.controllers.definitions import DEFINITIONS
    from mooring.controllers.definitions.installer import InstallError
    from mooring.controllers.definitions.installer import install as install_on

    if output is not None:
        echo_documents(DEFINITIONS, output)
        return
    try:
        done = on_cluster(kubeconfig, lambda client: install_on(client, dry_run=dry_run))
    except InstallError as error:
        raise click.ClickException(str(error)) from None
    for each in done:
        note = " (not installed by Mooring)" if each.outcome == "kept" else " (dry run)" if dry_run else ""
        click.echo(f"customresourcedefinition.apiextensions.k8s.io/{each.name} {each.outcome}{note}")
