"""Templates of a profile plugin: its module, its test and its configuration."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from mooring.cli.scaffold.method_examples import EXAMPLES

_REASON: Final = "the node does not accept the pod"
#: Whether there is a custom resource -> the bodies of the filter and score examples.
_BODIES: Final = {
    False: {
        "VERDICT": f'return "{_REASON}" if node.labels.get(self.args.label) == "never" else None',
        "VERDICTS": f'''never = nodes.label(self.args.label).lookup(lambda value: value == "never", absent=False)
        rejected = never[nodes.codes(self.args.label)]
        return Verdicts.reject(rejected, Status.unschedulable("{_REASON}"))''',
        "SCORES_OF_ALL": """always = nodes.label(self.args.label).lookup(lambda value: value == "always", absent=False)
        return np.where(always[nodes.codes(self.args.label)], 100, 0)""",
        "SCORE": 'return 100 if node.labels.get(self.args.label) == "always" else 0',
    },
    True: {
        "VERDICT": f'''found = self.nodes.get(node.name)
        return "{_REASON}" if found is not None and not found.spec.allowed else None''',
        "VERDICTS": f'''rejected = {{each.name for each in self.nodes.list() if not each.spec.allowed}}
        mask = np.array([name in rejected for name in nodes.names], dtype=bool)
        return Verdicts.reject(mask, Status.unschedulable("{_REASON}"))''',
        "SCORES_OF_ALL": """scores = {each.name: each.spec.score for each in self.nodes.list()}
        return np.array([scores.get(name, 0) for name in nodes.names], dtype=np.int64)""",
        "SCORE": """found = self.nodes.get(node.name)
        return found.spec.score if found is not None else 0""",
    },
}
_RESOURCE: Final = '''
class KIND(CustomResource, group="GROUP", version="v1alpha1", scope="Cluster"):
    """Data about the node of the same name."""

    class Spec:
        allowed: Annotated[bool, Meta(description="Whether pods may be placed on the node.")] = True
        score: Annotated[int, Meta(description="How suitable the node is.", ge=0, le=100)] = 0

    spec: Spec
'''


class PodPlugin:
    """The files of a new plugin."""

    def __init__(self, name: str, points: Iterable[str], crd: str = "") -> None:
        """``points`` are keys of EXAMPLES."""
        self.name, self.crd = name, crd
        self.file = snake(name)
        chosen = set(points)
        if "pre_score" in chosen and not chosen & {"score", "score_nodes"}:
            chosen.add("score")  # pre_score runs only for plugins that score
        self.points = [point for point in EXAMPLES if point in chosen]
        self._examples = [EXAMPLES[point] for point in self.points]
        self.group = f"{self.file.replace('_', '-')}.example.com"
        self.label = f"example.com/{self.file.replace('_', '-')}"

    def files(self) -> dict[str, str]:
        """Return the contents of the files by name."""
        return {
            f"{self.file}.py": self.plugin(),
            f"test_{self.file}.py": self.test(),
            "scheduler.yaml": self.configuration(),
        }

    def plugin(self) -> str:
        """Return the module of the plugin."""
        methods = "".join(example.method for example in self._examples)
        for word, body in _BODIES[bool(self.crd)].items():
            methods = methods.replace(f"        {word}\n", f"        {body}\n")
        framework = {"Plugin", *(name for example in self._examples for name in example.imports)}
        head = ""
        if self.crd:
            head, framework = _RESOURCE, framework | {"CustomResource", "Lister", "Meta"}
        constants = "".join(dict.fromkeys(example.constants for example in self._examples))
        setup = "".join(example.setup for example in self._examples)
        text = f'"""{self.name}: one line about its purpose."""\n\n'
        text += "from typing import Annotated\n\n" if self.crd else ""
        text += "import numpy as np\n\n" if "np." in methods else ""
        text += f"from mooring.framework import {', '.join(sorted(framework))}\n"
        text += f"\n{constants}" if constants else ""
        text += f"\n{head}" if head else ""
        text += f'\n\nclass {self.name}(Plugin):\n    """Describe here what the plugin does, for its users."""\n'
        text += "\n    nodes = Lister(KIND)\n" if self.crd else ""
        if "self.args" in methods:
            text += f'\n    class Args:\n        label: str = "{self.label}"\n'
        text += f"\n    def setup(self):\n{setup}" if setup else ""
        return self._named(text + methods)

    def test(self) -> str:
        """Return the test module."""
        imports = {name for example in self._examples for name in example.test_imports}
        standard = sorted(imports & {"asyncio"})
        framework = sorted(imports & {"PermitWait", "Code"})
        tests = "\n".join(dict.fromkeys(example.test for example in self._examples))
        testing = imports - {"asyncio", "SimpleNamespace", *framework}
        if "NODES" in tests:
            testing.add("make_node")
        text = "".join(f"import {name}\n" for name in standard)
        text += "import sys\n" if "MODULE" in tests or (self.crd and "OBJECTS" in tests) else ""
        text += "from pathlib import Path\n"
        text += "from types import SimpleNamespace\n" if "SimpleNamespace" in imports else ""
        text += "\n"
        text += "from mooring.api import ObjectMeta\n" if self.crd and "OBJECTS" in tests else ""
        text += f"from mooring.framework import {', '.join(framework)}\n" if framework else ""
        text += "from mooring.loading import load_plugin\n"
        text += f"from mooring.testing import {', '.join(sorted(testing))}\n\n"
        text += f'NAME = load_plugin("NAME", Path(__file__).with_name("{self.file}.py"))\n'
        text += self._cluster(tests)
        return self._named(text + "\n" + tests)

    def _cluster(self, tests: str) -> str:
        """Return the nodes and objects that the tests use."""
        text = f'LABEL = "{self.label}"\n' if "LABEL" in tests or ("NODES" in tests and not self.crd) else ""
        filters = {"filter", "filter_nodes"} & set(self.points)
        if "MODULE" in tests or (self.crd and "OBJECTS" in tests):
            text += "MODULE = sys.modules[NAME.__module__]\n"
        if "NODES" in tests and self.crd:
            text += 'NODES = [make_node(name).obj() for name in ("good", "plain", "bad")]\n'
            if "OBJECTS" in tests:
                text += "KIND = MODULE.KIND\nOBJECTS = [\n"
                text += '    KIND(metadata=ObjectMeta(name="good"), spec=KIND.Spec(score=100)),\n'
                text += '    KIND(metadata=ObjectMeta(name="bad"), spec=KIND.Spec(allowed=False)),\n]\n'
        elif "NODES" in tests:
            text += "NODES = [\n"
            text += '    make_node("good").label({LABEL: "always"}).obj(),\n'
            text += '    make_node("plain").obj(),\n    make_node("bad").label({LABEL: "never"}).obj(),\n]\n'
            text += "OBJECTS = []\n" if "OBJECTS" in tests else ""
        if "SCORES" in tests:
            bad = "" if filters else ', "bad": 0'
            text += f'SCORES = {{"good": 100, "plain": 0{bad}}}\n'
        return text

    def configuration(self) -> str:
        """Return a configuration that enables the plugin, for `mooring run` and `mooring up`."""
        at = {example.point for example in self._examples}
        special = ""
        if "queueSort" in at:
            special += '    queueSort: {disabled: [{name: "*"}], enabled: [{name: NAME}]}\n'
        if "bind" in at:
            special += '    bind: {disabled: [{name: "*"}], enabled: [{name: NAME}, {name: DefaultBinder}]}\n'
        weight = ", weight: 10" if "score" in at else ""
        args = f"  pluginConfig:\n  - name: NAME\n    args: {{label: {self.label}}}\n" if self._has_args else ""
        return self._named(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
            "- schedulerName: default-scheduler\n  plugins:\n"
            f"    multiPoint: {{enabled: [{{name: NAME{weight}}}]}}\n{special}{args}"
            "---\n# The file of the plugin.\n"
            "apiVersion: mooring.dev/v1alpha1\nkind: PluginSources\n"
            f"plugins:\n- {{name: NAME, path: {self.file}.py}}\n"
        )

    @property
    def _has_args(self) -> bool:
        return "self.args" in self.plugin()

    def _named(self, text: str) -> str:
        text = re.sub(r"\bKIND\b", self.crd, text.replace("GROUP", self.group)) if self.crd else text
        return re.sub(r"\bNAME\b", self.name, text)


def snake(name: str) -> str:
    """Convert ``NodeNumber`` to ``node_number``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def parse_points(text: str) -> tuple[list[str], list[str]]:
    """Return the extension points that a text names (``filter,preScore``), and the names that are not valid."""
    by_config: dict[str, str] = {}
    for key, example in EXAMPLES.items():
        by_config.setdefault(example.point.lower(), key)
    found: list[str] = []
    unknown: list[str] = []
    for word in filter(None, (each.strip() for each in text.split(","))):
        key = "queue_sort" if word == "less" else word
        key = key if key in EXAMPLES else by_config.get(word.lower(), "")
        (found if key else unknown).append(key or word)
    return found, unknown
