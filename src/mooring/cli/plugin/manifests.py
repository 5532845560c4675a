"""`mooring plugin manifests`: what follows from a plugin's declarations, for `kubectl apply`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from mooring.framework.custom_resources import CustomResource
    from mooring.framework.plugin import Plugin

#: What the role, its binding and the ConfigMap are called.
_NAME = "mooring-plugins"


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--crd", "part", flag_value="crd", help="Only the CustomResourceDefinitions.")
@click.option("--rbac", "part", flag_value="rbac", help="Only the role and its binding.")
@click.option("--sample", "part", flag_value="sample", help="Only a sample object of each custom resource.")
@click.option("--config", "part", flag_value="config", help="Only a KubeSchedulerConfiguration, for --config.")
@click.option("-n", "--namespace", default="kube-system", show_default=True, help="Where the service account is.")
@click.option("--service-account", default="mooring", show_default=True, help="Who will be allowed to read.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["yaml", "json", "values"]),
    default="yaml",
    show_default=True,
    help="values: what the Helm chart wants to know.",
)
def manifests(path: Path, part: str | None, namespace: str, service_account: str, output: str) -> None:
    """Print what a cluster needs for the plugins of a file, package or folder, or for a built-in plugin by its name.

    CustomResourceDefinitions for the classes that they declare, a role to read them (and what else the plugins say they
    need), and a configuration that enables the plugins, as a ConfigMap; ready for `kubectl apply -f -`. Sample objects
    stand at the end as comments: a cluster takes them once it knows the definitions.
    """
    from mooring.cli.inputs import fail
    from mooring.framework.custom_resources import DeclarationError

    plugins = _plugins(path)
    for cls in plugins:
        if not _kinds([cls]) and part in ("crd", "sample"):
            click.echo(f"note: {cls.name} declares no custom resource", err=True)
    try:
        made = _Manifests(plugins, namespace, service_account)
        if output == "values":
            _show([made.values(part)], "yaml")
        else:
            _show(made.part(part), output)
            if part is None and output == "yaml":
                _show_samples(made.samples(), path)
    except DeclarationError as error:
        fail([f"{path}: {error}"])


class _Manifests:
    """All manifests of some plugins."""

    def __init__(self, plugins: Sequence[type[Plugin]], namespace: str, service_account: str) -> None:
        self._plugins = plugins
        self._namespace = namespace
        self._service_account = service_account

    def part(self, name: str | None) -> list[dict[str, Any]]:
        """One part of them, or all that can be applied at once."""
        parts = {"crd": self.definitions, "rbac": self.roles, "sample": self.samples, "config": self.configurations}
        if name is not None:
            return parts[name]()
        return [*self.definitions(), *self.roles(), self._config_map()]

    def definitions(self) -> list[dict[str, Any]]:
        """A CustomResourceDefinition for each declared kind."""
        from mooring.framework.custom_definitions import definition_of

        return [definition_of(kind) for kind in _kinds(self._plugins)]

    def samples(self) -> list[dict[str, Any]]:
        """An object of each declared kind."""
        from mooring.framework.custom_definitions import sample_of

        return [sample_of(kind) for kind in _kinds(self._plugins)]

    def rules(self) -> list[dict[str, Any]]:
        """What the plugins must be allowed."""
        from mooring.live.rbac_manifests import plugin_rules

        return [rule.document() for rule in plugin_rules(self._plugins)]

    def roles(self) -> list[dict[str, Any]]:
        """A role with these rules and its binding; nothing if nothing is needed."""
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
        """A configuration with a profile that enables the plugins, with their arguments as they are by default."""
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

        from mooring.framework.plugin import ArgsError, decode_args

        found = []
        for cls in self._plugins:
            if cls.Args is not None:
                try:
                    arguments = msgspec.to_builtins(decode_args(cls, None))
                except (ArgsError, TypeError):
                    arguments = {}  # some have no default: the author must say
                if arguments:
                    found.append({"name": cls.name, "args": arguments})
        return found

    def _config_map(self) -> dict[str, Any]:
        import yaml

        text = yaml.safe_dump(self.configurations()[0], sort_keys=False)
        metadata = {"name": _NAME, "namespace": self._namespace}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"scheduler.yaml": text}}

    def values(self, part: str | None) -> dict[str, Any]:
        """What the chart wants to know: of the plugins, of the rights they need, or of both."""
        if part in ("crd", "sample"):
            raise click.UsageError(f"-o values knows nothing of --{part}; use it alone, with --rbac or with --config")
        found: dict[str, Any] = {}
        if part != "rbac":
            found["plugins"] = {"enabled": [cls.name for cls in self._plugins]}
            if arguments := self._arguments():
                found["pluginConfig"] = arguments
        if part != "config":
            found["rbac"] = {"extraRules": self.rules()}
        return found


def _plugins(path: Path) -> list[type[Plugin]]:
    """The plugins of a file, package or folder, or a built-in one. Ends the command if they cannot be loaded."""
    from mooring.cli.inputs import fail
    from mooring.loading import POD, PluginLoadError
    from mooring.loading.files import in_folder, load_file
    from mooring.plugins.registry import BUILTIN

    if not path.exists() and str(path) in BUILTIN:
        return [BUILTIN[str(path)]]
    try:
        is_folder = path.is_dir() and not (path / "__init__.py").is_file()
        found = [each for file in (in_folder(path) if is_folder else [path]) for each in load_file(file, str(path))]
    except PluginLoadError as error:
        fail(map(str, error.faults))
    plugins = [each.cls for each in found if each.kind is POD]
    if not plugins:
        fail([f"{path}: no plugin here; derive a class from Plugin and define filter, score or another point"])
    return plugins


def _kinds(plugins: Sequence[type[Plugin]]) -> list[type[CustomResource]]:
    from mooring.framework.declarations import custom_kinds

    return [kind for kinds in custom_kinds(plugins).values() for kind in kinds[:1]]


def _show(documents: list[dict[str, Any]], output: str) -> None:
    import msgspec
    import yaml

    if output == "json":
        whole = documents[0] if len(documents) == 1 else {"apiVersion": "v1", "kind": "List", "items": documents}
        click.echo(msgspec.json.format(msgspec.json.encode(whole), indent=2).decode())
    elif documents:

        class Dumper(yaml.SafeDumper):
            """Writes texts of several lines as people do."""

        def text(dumper: Dumper, value: str) -> yaml.ScalarNode:
            return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

        Dumper.add_representer(str, text)
        click.echo(yaml.dump_all(documents, Dumper=Dumper, sort_keys=False, allow_unicode=True), nl=False)


def _show_samples(samples: list[dict[str, Any]], path: Path) -> None:
    import yaml

    if samples:
        click.echo(f"# Samples, for when the definitions are there: mooring plugin manifests {path} --sample")
        for line in yaml.safe_dump_all(samples, sort_keys=False).splitlines():
            click.echo(f"# {line}")
