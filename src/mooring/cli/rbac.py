"""`mooring rbac`: what the scheduler must be allowed to do, as manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mooring.cli.documents import echo_documents
from mooring.cli.plugin_options import plugin_options

if TYPE_CHECKING:
    from mooring.loading import Requested

#: The lease of `mooring controller`.
LEASE = "mooring-controller"


@click.command()
@click.option("--config", "config_file", metavar="FILE", help="The KubeSchedulerConfiguration that will be run with.")
@plugin_options
@click.option(
    "--lease-name", default="", help="Overrides leaderElection.resourceName, as --leader-elect-resource-name."
)
@click.option("-n", "--namespace", default="kube-system", show_default=True, help="Where the service account is.")
@click.option("--service-account", default="mooring", show_default=True, help="Who will be allowed.")
@click.option("--user", default="", help="A user who will be allowed instead, such as system:kube-scheduler.")
@click.option("--name", default="mooring", show_default=True, help="What roles and bindings are called.")
@click.option("--serve/--no-serve", default=True, show_default=True, help="Whether the endpoints will be served.")
@click.option("--batch", is_flag=True, help="Batch sessions will be run too (--scheduler-conf).")
@click.option("--controller", is_flag=True, help="For `mooring controller` instead of a scheduler.")
@click.option(
    "--viewer", is_flag=True, help="Add a role for those who may read metrics and decisions; bind it yourself."
)
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
def rbac(
    config_file: str | None,
    requested: Requested,
    lease_name: str,
    namespace: str,
    service_account: str,
    user: str,
    name: str,
    serve: bool,
    batch: bool,
    controller: bool,
    viewer: bool,
    output: str,
) -> None:
    """Print the least that a scheduler must be allowed to do, for `kubectl apply -f -`.

    The roles follow from the configuration: what its plugins read and write, and the lease that it holds.
    """
    import msgspec

    from mooring.cli.inputs import read_setup
    from mooring.live.rbac_manifests import Grantee, manifests, plugin_rules
    from mooring.scheduler.build import enabled_classes

    grantee = Grantee(service_account=service_account, namespace=namespace, name=name, user=user)
    if controller:
        from mooring.controllers.roles import manifests as for_controllers

        echo_documents(for_controllers(grantee, served=serve, lease_name=lease_name or LEASE), output)
        return
    setup = read_setup(config_file, requested)
    config = setup.config
    if lease_name:
        election = msgspec.structs.replace(config.leader_election, resource_name=lease_name)
        config = msgspec.structs.replace(config, leader_election=election)
    extra = plugin_rules(enabled_classes(config, setup.plugins))
    found = manifests(config, grantee, served=serve, batch=batch, viewer=viewer, extra=extra)
    echo_documents(found, output)
