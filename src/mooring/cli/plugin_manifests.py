"""`mooring plugin manifests`: print the CRDs, RBAC, samples and configuration for plugins."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from mooring.framework.custom_resources import CustomResource
    from mooring.framework.plugin import Plugin

#: Name of the role, its binding and the ConfigMap.
_NAME = "mooring-plugins"


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--crd", "part", flag_value="crd", help="Print only the CustomResourceDefinitions.")
@click.option("--rbac", "part", flag_value="rbac", help="Print only the role and its binding.")
@click.option("--sample", "part", flag_value="sample", help="Print only a sample object of each custom resource.")
@click.option("--config", "part", flag_value="config", help="Print only a KubeSchedulerConfiguration, for --config.")
@click.option("-n", "--namespace", default="kube-system", show_default=True, help="Namespace of the service account.")
@click.option("--service-account", default="mooring", show_default=True, help="Service account to bind the role to.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["yaml", "json", "values"]),
    default="yaml",
    show_default=True,
    help="Output format; values prints values for the Helm chart.",
)
def manifests(path: Path, part: str | None, namespace: str, service_account: str, output: str) -> None:
    """Print the manifests that plugins need. PATH is a file, a package, a directory, or the name of a built-in plugin.

    The output is for `kubectl apply -f -`: the CustomResourceDefinitions of the classes that the plugins declare, a
    role with the permissions that they need, and a ConfigMap with a configuration that enables them. Sample objects
    follow as comments, because a cluster accepts them only after the definitions are established.
    """
    from mooring.cli.input_files import fail
    from mooring.cli.output import print_documents, print_json
    from mooring.framework.custom_resources import DeclarationError

    plugins = _plugins(path)
    for cls in plugins:
        if not _kinds([cls]) and part in ("crd", "sample"):
            click.echo(f"note: {cls.name} declares no custom resource", err=True)
    try:
        made = _Manifests(plugins, namespace, service_account)
        if output == "values":
            print_documents([made.values(part)], "yaml")
        else:
            documents = made.part(part)
            if output == "json" and len(documents) == 1:
                print_json(documents[0])
            else:
                print_documents(documents, output)
            if part is None and output == "yaml":
                _print_samples(made.samples(), path)
    except DeclarationError as error:
        fail([f"{path}: {error}"])


class _Manifests:
    """The manifests of some plugins."""

    def __init__(self, plugins: Sequence[type[Plugin]], namespace: str, service_account: str) -> None:
        self._plugins = plugins
        self._namespace = namespace
        self._service_account = service_account

    def part(self, name: str | None) -> list[dict[str, Any]]:
        """Return one part, or all parts that can be applied together."""
        parts = {"crd": self.definitions, "rbac": self.roles, "sample": self.samples, "config": self.configurations}
        if name is not None:
            return parts[name]()
        return [*self.definitions(), *self.roles(), self._config_map()]

    def definitions(self) -> list[dict[str, Any]]:
        """Return a CustomResourceDefinition for each declared kind."""
        from mooring.framework.custom_definitions import definition_of

        return [definition_of(kind) for kind in _kinds(self._plugins)]

    def samples(self) -> list[dict[str, Any]]:
        """Return a sample object of each declared kind."""
        from mooring.framework.custom_definitions import sample_of

        return [sample_of(kind) for kind in _kinds(self._plugins)]

    def rules(self) -> list[dict[str, Any]]:
        """Return the RBAC rules that the plugins need."""
        from mooring.live.rbac_manifests import plugin_rules

        return [rule.document() for rule in plugin_rules(self._plugins)]

    def roles(self) -> list[dict[str, Any]]:
        """Return a role with these rules and its binding, or nothing if there are no rules."""
        rules = self.rules()
        if not rules:
            return []
        group = "rbac.authorization.k8s.io"
        version, metadata = f"{group}/v1", {"name": _NAME}
        role = {"apiVersion": version, "kind": "ClusterRole", "metadata": metadata, "rules": rules}
        binding = {
            "apiVersion": version,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": _NAME},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": _NAME},
            "subjects": [{"kind": "ServiceAccount", "name": self._service_account, "namespace": self._namespace}],
        }
        return [role, binding]

    def configurations(self) -> list[dict[str, Any]]:
        """Return a configuration with a profile that enables the plugins with their default arguments."""
        from mooring.framework.points import points_of

        everywhere: dict[str, Any] = {"enabled": [{"name": cls.name} for cls in self._plugins]}
        if any("queueSort" in points_of(cls) for cls in self._plugins):
            everywhere["disabled"] = [{"name": "PrioritySort"}]  # only one plugin can sort the queue
        profile: dict[str, Any] = {"schedulerName": "my-scheduler", "plugins": {"multiPoint": everywhere}}
        if arguments := self._arguments():
            profile["pluginConfig"] = arguments
        return [
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "leaderElection": {"leaderElect": True, "resourceName": "my-scheduler"},
                "profiles": [profile],
            }
        ]

    def _arguments(self) -> list[dict[str, Any]]:
        import msgspec

        from mooring.framework.plugin_args import ArgsError, decode_args

        found = []
        for cls in self._plugins:
            if cls.Args is not None:
                try:
                    arguments = msgspec.to_builtins(decode_args(cls, None))
                except (ArgsError, TypeError):
                    arguments = {}  # the user must add arguments without defaults
                if arguments:
                    found.append({"name": cls.name, "args": arguments})
        return found

    def _config_map(self) -> dict[str, Any]:
        import yaml

        text = yaml.safe_dump(self.configurations()[0], sort_keys=False)
        metadata = {"name": _NAME, "namespace": self._namespace}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"scheduler.yaml": text}}

    def values(self, part: str | None) -> dict[str, Any]:
        """Return values for the Helm chart: the plugins, their RBAC rules, or both."""
        if part in ("crd", "sample"):
            raise click.UsageError(f"-o values does not support --{part}; use it alone, with --rbac or with --config")
        found: dict[str, Any] = {}
        if part != "rbac":
            found["plugins"] = {"enabled": [cls.name for cls in self._plugins]}
            if arguments := self._arguments():
                found["pluginConfig"] = arguments
        if part != "config":
            found["rbac"] = {"extraRules": self.rules()}
        return found


def _plugins(path: Path) -> list[type[Plugin]]:
    """Return the plugins at a path, or a built-in plugin. Ends the command if they cannot be loaded."""
    from mooring.cli.input_files import fail
    from mooring.loading import POD, PluginLoadError
    from mooring.loading.plugin_files import in_folder, load_file
    from mooring.plugins.registry import BUILTIN

    if not path.exists() and str(path) in BUILTIN:
        return [BUILTIN[str(path)]]
    try:
        is_directory = path.is_dir() and not (path / "__init__.py").is_file()
        found = [each for file in (in_folder(path) if is_directory else [path]) for each in load_file(file, str(path))]
    except PluginLoadError as error:
        fail(map(str, error.faults))
    plugins = [each.cls for each in found if each.kind is POD]
    if not plugins:
        fail([f"{path}: contains no plugin; derive a class from Plugin and define filter, score or another method"])
    return plugins


def _kinds(plugins: Sequence[type[Plugin]]) -> list[type[CustomResource]]:
    from mooring.framework.declarations import custom_kinds

    return [kind for kinds in custom_kinds(plugins).values() for kind in kinds[:1]]


def _print_samples(samples: list[dict[str, Any]], path: Path) -> None:
    import yaml

    if samples:
        click.echo(f"# Samples, to apply after the definitions: mooring plugin manifests {path} --sample")
        for line in yaml.safe_dump_all(samples, sort_keys=False).splitlines():
            click.echo(f"# {line}")
