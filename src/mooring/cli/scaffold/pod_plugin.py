"""Templates of a profile plugin: its module, its test and its configuration."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from mooring import framework
from mooring.cli.scaffold.method_examples import EXAMPLES

_LINE_LENGTH: Final = 120
#: The names of mooring.testing that the tests use. Importing the module here would be slow.
_TESTING: Final = ("PluginHarness", "check_run", "make_node", "make_pod", "run_plugin")
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
        constants = "".join(dict.fromkeys(example.constants for example in self._examples))
        setup = "".join(example.setup for example in self._examples)
        args = "self.args" in methods
        body = f"\n{constants}" if constants else ""
        body += f"\n{_RESOURCE}" if self.crd else ""
        body += f'\n\nclass NAMEArgs:\n    label: str = "{self.label}"\n' if args else ""
        body += f"\n\nclass NAME({'Plugin[NAMEArgs]' if args else 'Plugin'}):\n"
        body += '    """Describe here what the plugin does, for its users."""\n'
        body += "\n    nodes = Lister(KIND)\n" if self.crd else ""
        body += f"\n    def setup(self) -> None:\n{setup}" if setup else ""
        body += methods
        text = f'"""{self.name}: one line about its purpose."""\n\n'
        text += "from typing import Annotated\n\n" if self.crd else ""
        text += "import numpy as np\n" if "np." in body else ""
        text += "import numpy.typing as npt\n" if "npt." in body else ""
        text += "\n" if "np." in body else ""
        return self._named(text + _import("mooring.framework", _used(body, framework.__all__)) + body)

    def test(self) -> str:
        """Return the test module."""
        tests = "\n".join(dict.fromkeys(example.test for example in self._examples))
        if not self.crd:
            tests = tests.replace(", objects=OBJECTS", "")
        body = self._cluster(tests) + "\n" + tests
        text = "import asyncio\n" if "asyncio." in body else ""
        text += "import sys\n" if "sys." in body else ""
        text += "from pathlib import Path\n"
        text += "from types import SimpleNamespace\n" if "SimpleNamespace(" in body else ""
        text += "from typing import Any\n" if "Any" in body else ""
        text += "\n"
        text += "from mooring.api import ObjectMeta\n" if "ObjectMeta(" in body else ""
        text += _import("mooring.framework", _used(body, framework.__all__))
        text += "from mooring.loading import load_plugin\n"
        text += _import("mooring.testing", _used(body, _TESTING)) + "\n"
        text += f'NAME = load_plugin("NAME", Path(__file__).with_name("{self.file}.py"))\n'
        return self._named(text + body)

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
        return re.sub(r"\bNAME(?=\b|Args\b)", self.name, text)


def _used(text: str, names: Iterable[str]) -> list[str]:
    """Return the names that occur in a text, not counting comments."""
    words = set(re.findall(r"\w+", re.sub(r"#.*", "", text)))
    return sorted(words & set(names), key=lambda name: (name[0].islower(), name.lower()))


def _import(module: str, names: list[str]) -> str:
    line = f"from {module} import {', '.join(names)}\n" if names else ""
    if len(line) <= _LINE_LENGTH:
        return line
    return f"from {module} import (\n" + "".join(f"    {name},\n" for name in names) + ")\n"


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
