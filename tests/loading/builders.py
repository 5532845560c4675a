"""Plugin files and configurations for the tests of loading."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mooring.loading import PluginLoadError, Requested, find_plugins

CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
SOURCES = "apiVersion: mooring.dev/v1alpha1\nkind: PluginSources\n"


def plugin(name: str, method: str = "score", body: str = "return 1") -> str:
    head = f"from mooring.framework import Plugin\n\nclass {name}(Plugin):\n"
    return f"{head}    def {method}(self, state, pod, node):\n        {body}\n"


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def enabling(*names: str) -> str:
    listed = ", ".join(f"{{name: {name}}}" for name in names)
    return f"{CONFIG}profiles: [{{plugins: {{multiPoint: {{enabled: [{listed}]}}}}}}]\n"


def load_errors(requested: Requested) -> list[str]:
    with pytest.raises(PluginLoadError) as caught:
        find_plugins(requested)
    return str(caught.value).splitlines()


def loaded_modules() -> set[str]:
    """Return the plugin modules that are imported."""
    return {name for name in sys.modules if name.startswith("mooring_plugins.")}
