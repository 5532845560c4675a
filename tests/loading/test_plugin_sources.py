from __future__ import annotations

import json
from pathlib import Path

import pytest

from mooring.config import ConfigError
from mooring.loading.plugin_sources import read_sources, schema, split
from tests.loading.builders import SOURCES

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("directories: 3", "directories: Expected `array`, got `int`"),
        ("plugins: [{path: x.py}]", "missing required field `name`"),
        ("plugins: [{name: A, path: a}, {name: A, path: b}]", r"plugins\[1\].name: A is listed twice"),
        ("plugins: [{name: A, path: a, sha256: 12}]", "sha256"),
        (f"plugins: [{{name: A, sha256: {'a' * 64}}}]", "has a sha256 but no path"),
        ("plugins: [", "while parsing|expected|end"),
        ("plugins: [{name: A, failurePolicy: Ignor}]", r"f:3: plugins\[0\].failurePolicy: .*'Ignor'. Write Fail or Ig"),
        ("plugins:\n- name: A\n  budgets: {scor: 5ms}", r"f:5: plugins\[0\].budgets: .*'scor' for a key. Write preE"),
        ("plugins:\n- name: A\n  budgets:\n    filter: 1s\n    score: 5", r"f:7: plugins\[0\].budgets.score: Expected"),
    ],
)
def test_invalid_documents(document: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_sources(f"{SOURCES}{document}\n", source="f")


def test_an_unknown_api_version() -> None:
    with pytest.raises(ConfigError, match=r"Write apiVersion: mooring.dev/v1alpha1"):
        read_sources("apiVersion: mooring.dev/v9\nkind: PluginSources\n", source="f")


def test_files_without_the_document_are_not_split() -> None:
    text = "a: 1\n---\nkind: Other\n"
    assert split(text) == (text, "")


def test_the_callbacks_of_session_plugins_have_budgets() -> None:
    from mooring.batch.callbacks import _FLAG

    others = {"allocate_handler", "deallocate_handler", "reservation", "on_session_open", "on_session_close", "execute"}
    budgets = {"".join(part.capitalize() for part in name.split("_")): name for name in (*_FLAG, *others)}
    text = ", ".join(f"{name[0].lower()}{name[1:]}: 5ms" for name in budgets)
    document = f"apiVersion: mooring.dev/v1alpha1\nkind: PluginSources\nplugins: [{{name: p, budgets: {{{text}}}}}]\n"
    (entry,) = read_sources(document, source="f").plugins
    assert {entry.options().budget_of(method) for method in budgets.values()} == {0.005}


def test_the_schema_in_the_documentation_is_current() -> None:
    assert json.loads((ROOT / "docs/plugins/plugin-sources.schema.json").read_text()) == json.loads(
        json.dumps(schema())
    )
