"""`mooring rbac`: print the RBAC manifests that the scheduler needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mooring.cli.options import config_option, output_option, plugin_options

if TYPE_CHECKING:
    from mooring.batch.conf import BatchConf
    from mooring.loading import Catalog, Requested

#: Name of the lease of `mooring controller`.
LEASE = "mooring-controller"


@click.command()
@config_option
@plugin_options
@click.option("--lease-name", default="", help="Override leaderElection.resourceName (--leader-elect-resource-name).")
@click.option("-n", "--namespace", default="kube-system", show_default=True, help="Namespace of the service account.")
@click.option("--service-account", default="mooring", show_default=True, help="Service account to bind the roles to.")
@click.option("--user", default="", help="User to bind the roles to instead, such as system:kube-scheduler.")
@click.option("--name", default="mooring", show_default=True, help="Name of the roles and bindings.")
@click.option(
    "--serve/--no-serve", default=True, show_default=True, help="Include the permissions for serving the endpoints."
)
@click.option(
    "--batch", is_flag=True, help="Include the permissions for batch sessions with Volcano's default plugins."
)
@click.option(
    "--scheduler-conf",
    metavar="FILE",
    help="A volcano-scheduler.conf: include the permissions for batch sessions and for its plugins.",
)
@click.option(
    "--pod-groups", is_flag=True, help="Include the permissions for PodGroups (--feature-gates=GenericWorkload=true)."
)
@click.option("--active-active", is_flag=True, help="Include the permissions for --active-active.")
@click.option(
    "--annotations",
    is_flag=True,
    help="Include the permission to annotate pods (--suggestions annotation or simulator-annotations).",
)
@click.option(
    "--queue-gates",
    is_flag=True,
    help="Include the permission to remove scheduling gates (--feature-gates=SchedulingGatesQueueAdmission=true).",
)
@click.option(
    "--controller", is_flag=True, help="Print the manifests for `mooring controller` instead of the scheduler."
)
@click.option("--admission", is_flag=True, help="With --controller: include the permissions for --enabled-admission.")
@click.option(
    "--read-only", is_flag=True, help="Print the manifests for `mooring record` and `mooring shadow`, which only read."
)
@click.option("--viewer", is_flag=True, help="Add an unbound role for readers of metrics and decisions.")
@click.option("--dashboard", is_flag=True, help="Add an unbound role for users of the dashboard.")
@click.option("--what-if", is_flag=True, help="Add an unbound role for clients of the what-if service.")
@output_option("yaml", "json")
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
    scheduler_conf: str | None,
    pod_groups: bool,
    active_active: bool,
    annotations: bool,
    queue_gates: bool,
    controller: bool,
    admission: bool,
    read_only: bool,
    viewer: bool,
    dashboard: bool,
    what_if: bool,
    output: str,
) -> None:
    """Print the RBAC manifests that the scheduler needs, for `kubectl apply -f -`.

    The roles grant only what the configuration requires: what its plugins read and write, and the lease.
    """
    import msgspec

    from mooring.cli.input_files import read_setup
    from mooring.cli.output import print_documents
    from mooring.live.rbac_manifests import ANNOTATING, Grantee, manifests, plugin_rules, read_only_rules, roles
    from mooring.plugins.gang_scheduling import GangScheduling
    from mooring.scheduler.profiles import enabled_classes

    grantee = Grantee(service_account=service_account, namespace=namespace, name=name, user=user)
    if controller:
        from mooring.controllers.roles import manifests as for_controllers
        from mooring.loading import JOB, find_plugins

        classes = find_plugins(requested).classes(JOB).values()
        extra = [rule for cls in classes for rule in cls.permissions]
        found = for_controllers(grantee, served=serve, lease_name=lease_name or LEASE, extra=extra, admission=admission)
        print_documents(found, output)
        return
    setup = read_setup(config_file, requested)
    config = setup.config
    if lease_name:
        election = msgspec.structs.replace(config.leader_election, resource_name=lease_name)
        config = msgspec.structs.replace(config, leader_election=election)
    groups = (GangScheduling,) if pod_groups else ()
    extra = plugin_rules(dict.fromkeys((*enabled_classes(config, setup.plugins), *groups)))
    if annotations or queue_gates:
        extra.append(ANNOTATING)
    if read_only:
        print_documents(roles(grantee, read_only_rules(extra), {}), output)
        return
    found = manifests(
        config,
        grantee,
        served=serve,
        batch=_conf(scheduler_conf, setup.catalog) if scheduler_conf else batch,
        viewer=viewer,
        dashboard=dashboard,
        active_active=active_active,
        what_if=what_if,
        extra=extra,
    )
    print_documents(found, output)


def _conf(file: str, catalog: Catalog) -> BatchConf:
    """Read a volcano-scheduler.conf. Ends the command if it is invalid."""
    from mooring.batch.actions import ACTIONS
    from mooring.batch.conf import read_conf
    from mooring.batch.plugins import PLUGINS
    from mooring.cli.input_files import fail, read_text
    from mooring.config import ConfigError
    from mooring.live.batch.batch_settings import session_actions, session_plugins

    actions, plugins = {**ACTIONS, **session_actions(catalog)}, {**PLUGINS, **session_plugins(catalog)}
    try:
        conf = read_conf(read_text(file), source=file, actions=actions, plugins=plugins)
    except ConfigError as error:
        fail(error.lines())
    for warning in conf.warnings:
        click.echo(f"warning: {warning}", err=True)
    return conf
