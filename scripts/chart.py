"""Generator of the parts of the Helm chart that depend on code and values: `python scripts/chart.py [--check]`.

`files/known.yaml` contains the rules and names that the templates use, `files/crds` the definitions of the custom
resources of plugins and batch sessions, `files/alerts.yaml` and `files/dashboard.json` those of docs/operate, and
README.md the list of values, from the comments in values.yaml. With --check nothing is written, and the exit code is 1
if a file is not up to date.
"""

# ruff: noqa: T201  (scripts print)

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from mooring.apiserver.volcano_admission.review import HOOKS
from mooring.batch.conf import DEFAULT_CONF
from mooring.config.builtin_plugins import defaults
from mooring.controllers import roles as controllers
from mooring.controllers.admission import manifests as admission
from mooring.controllers.definitions import DEFINITIONS as BATCH_DEFINITIONS
from mooring.framework.custom_definitions import definition_of
from mooring.framework.declarations import custom_kinds
from mooring.live import rbac_manifests
from mooring.live.rbac_manifests import Rule
from mooring.plugins.registry import BUILTIN
from mooring.releases import RELEASES

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "charts" / "mooring"
OPERATE = ROOT / "docs" / "operate"
NOTE = "# Made by scripts/chart.py: do not edit.\n"


def wanted() -> dict[Path, str]:
    """Return the content of each generated file."""
    definitions = {name: definition_of(BUILTIN_KINDS[name][0]) for name in sorted(BUILTIN_KINDS)}
    definitions |= {each["metadata"]["name"]: each for each in BATCH_DEFINITIONS}
    files = {CHART / "files" / "crds" / f"{name}.yaml": _yaml(each) for name, each in definitions.items()}
    files[CHART / "files" / "known.yaml"] = _yaml(known())
    rules = yaml.safe_load((OPERATE / "alerts.yaml").read_text())["spec"]
    files[CHART / "files" / "alerts.yaml"] = _yaml(rules)
    files[CHART / "files" / "dashboard.json"] = (OPERATE / "dashboard.json").read_text()
    files[CHART / "README.md"] = readme()
    return files


# Data for the templates


def _named_kinds() -> dict[str, Any]:
    return {
        f"{kinds[0].declaration.plural}.{kinds[0].declaration.group}": kinds
        for kinds in custom_kinds(BUILTIN.values()).values()
    }


BUILTIN_KINDS = _named_kinds()


def known() -> dict[str, Any]:
    """Return the RBAC rules by feature, and the names of plugins."""
    # The scheduler emulates the release of the API server, so the roles cover all of them.
    enabled = dict.fromkeys(name for release in RELEASES for name, _ in defaults("v1", release)["multiPoint"])
    plugins = {name: [rule] for name, rule in rbac_manifests.WRITING.items()}
    definitions = {}
    for name, cls in sorted(BUILTIN.items()):
        if rules := rbac_manifests.plugin_rules([cls]):
            plugins[name] = [*plugins.get(name, []), *rules]
        if names := [each for each, kinds in BUILTIN_KINDS.items() if any(kind in kinds for kind in _kinds(cls))]:
            definitions[name] = names
    return {
        "base": _documents(rbac_manifests.base_rules()),
        "plugins": {name: _documents(rules) for name, rules in plugins.items()},
        "batch": _documents(rbac_manifests.batch_rules()),
        "lockingNodes": _documents([rbac_manifests.LOCKING_NODES]),
        "removingGates": _documents([rbac_manifests.ANNOTATING]),
        "readingDevices": _documents([rbac_manifests.READING_DEVICES]),
        "readingReports": _documents([rbac_manifests.READING_REPORTS]),
        "controller": _documents([*controllers.READING, *controllers.WRITING, *controllers.VOLCANO_DETECTION]),
        "webhooks": {
            kind: [{"path": hook.path, **each} for hook, each in zip(hooks, admission.webhooks(hooks), strict=True)]
            for kind, hooks in (
                ("mutating", [each for each in HOOKS if each.mutates]),
                ("validating", [each for each in HOOKS if not each.mutates]),
            )
        },
        "queueGateCondition": admission.QUEUE_GATE_CONDITION,
        "policies": admission.policies("NAME", ("SCHEDULER",)),
        "webhookRules": _documents(admission.cluster_rules("NAME")),
        "webhookSecretRules": _documents(admission.secret_rules("NAME")),
        "serving": _documents(rbac_manifests.SERVING),
        "lookingUp": _documents([rbac_manifests.LOOKING_UP]),
        "lease": _documents(rbac_manifests.lease_rules("NAME")),
        "membership": _documents([rbac_manifests.MEMBERSHIP]),
        "endpoints": list(rbac_manifests.ENDPOINTS),
        "dashboard": rbac_manifests.dashboard_rules(),
        "whatIf": rbac_manifests.what_if_rules(),
        "builtIn": sorted(BUILTIN),
        "defaultPlugins": list(enabled),
        "definitions": definitions,
        "batchDefinitions": [each["metadata"]["name"] for each in BATCH_DEFINITIONS],
        "defaultConf": DEFAULT_CONF,
    }


def _kinds(cls: type[Any]) -> list[type[Any]]:
    return [kind for kinds in custom_kinds([cls]).values() for kind in kinds]


def _documents(rules: Any) -> list[dict[str, Any]]:
    found: list[Rule] = list(rules)
    return [rule.document() for rule in found]


class _Dumper(yaml.SafeDumper):
    """A YAML dumper that writes no anchors, and multi-line strings as blocks."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


def _yaml(document: Any) -> str:
    return NOTE + yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=120)


# The list of values


def readme() -> str:
    """Return README.md: the introduction from README.md.tmpl, and a row for each value."""
    rows = ["| Value | Default | |", "|---|---|---|"]
    for path, default, comment in values():
        rows.append(f"| `{path}` | {default} | {comment.replace('|', chr(92) + '|')} |")
    return (CHART / "README.md.tmpl").read_text().replace("{{ values }}", "\n".join(rows))


def values() -> Iterator[tuple[str, str, str]]:
    """Yield path, default and comment of each value, in the order of the file."""
    text = (CHART / "values.yaml").read_text()
    lines = text.splitlines()
    yield from _values(yaml.compose(text, Loader=yaml.SafeLoader), (), lines)


def _values(node: Any, path: tuple[str, ...], lines: list[str]) -> Iterator[tuple[str, str, str]]:
    for key, value in node.value:
        here, comment = (*path, key.value), _comment_above(lines, key.start_mark.line)
        if isinstance(value, yaml.MappingNode) and not value.flow_style and value.value:
            if comment:
                yield ".".join(here), "", comment
            yield from _values(value, here, lines)
        else:
            yield ".".join(here), f"`{_inline(value)}`", comment


def _inline(node: Any) -> str:
    return json.dumps(yaml.SafeLoader("").construct_document(node), ensure_ascii=False)


def _comment_above(lines: list[str], number: int) -> str:
    found: list[str] = []
    while number and lines[number - 1].lstrip().startswith("# "):
        number -= 1
        found.insert(0, lines[number].lstrip()[2:])
    return " ".join(found)


def main(arguments: list[str]) -> int:
    """Write outdated files. With --check, list them."""
    files = wanted()
    made = set((CHART / "files").rglob("*.yaml"))
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    left = sorted(made - set(files))
    for path in [*stale, *left]:
        print(path.relative_to(ROOT))
    if "--check" in arguments:
        return bool(stale or left)
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[path])
    for path in left:
        path.unlink()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
