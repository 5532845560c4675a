"""The documentation site: it builds without warnings, contains every page, and needs no network."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.commands import ROOT

_LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=[\"']?((?:https?:)?//[^\"' >]+)")


def build(target: Path, config: Path = ROOT / "mkdocs.yml") -> Path:
    command = [sys.executable, "-m", "mkdocs", "build", "--config-file", str(config), "--site-dir", str(target)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=200, env=environment)
    assert done.returncode == 0, done.stderr
    return target


def test_the_site_is_complete(tmp_path: Path) -> None:
    """One test, because the build takes seconds."""
    site = build(tmp_path / "site")
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix(".html")
        assert (site / (name.with_name("index.html") if name.stem == "README" else name)).is_file(), page
    assert {url for page in site.rglob("*.html") for url in _LOADED.findall(page.read_text())} == set()
    index = json.loads((site / "search" / "search_index.json").read_text())
    places = {each["location"] for each in index["docs"]}
    for member in ("framework.Nodes.free", "framework.WaitingPod.allow", "framework.Status.unresolvable"):
        assert any(place.endswith(f"#mooring.{member}") for place in places), member
    assert (site / "search" / "search_index.js").is_file()  # for pages that are opened as files
    listing = (site / "repository" / "examples" / "plugins" / "index.html").read_text()
    for folder in (path.parent for path in (ROOT / "examples" / "plugins").glob("*/README.md")):
        assert f'href="{folder.name}/index.html"' in listing
        page = site / "repository" / "examples" / "plugins" / folder.name / "index.html"
        assert f"test_{folder.name}.py" in page.read_text()


def test_the_screenshots_are_small_and_of_both_widths() -> None:
    images = {path.stem: path for path in (ROOT / "docs" / "images").glob("*.png")}
    assert {"home-1280", "home-390", "reference-1280", "reference-390", "search-1280", "search-390"} <= set(images)
    for name, path in images.items():
        data = path.read_bytes()
        assert len(data) < 150_000, name
        assert int.from_bytes(data[16:20], "big") == int(name.rpartition("-")[2])  # the width in the header of a PNG


def test_links_that_lead_nowhere_are_errors(tmp_path: Path) -> None:
    """With the settings of mkdocs.yml, for one page."""
    links = {
        "[there](nowhere.md)": "'nowhere.md'",
        "[there](index.md#nowhere)": "no such anchor",
        "[there](../nowhere.py)": "'../nowhere.py'",
        "[there][mooring.framework.Nowhere]": "mooring.framework.Nowhere",
    }
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("\n\n".join(["# Page", *links, ""]))
    config = re.sub(r"^nav:\n.*", "", (ROOT / "mkdocs.yml").read_text(), flags=re.DOTALL | re.MULTILINE)
    config = config.replace("scripts/", f"{ROOT}/scripts/").replace("paths: [src]", f"paths: [{ROOT}/src]")
    (tmp_path / "mkdocs.yml").write_text(config.replace("extra_css: [site/extra.css]\n", ""))
    with pytest.raises(AssertionError) as raised:
        build(tmp_path / "site", tmp_path / "mkdocs.yml")
    for warning in links.values():
        assert warning in str(raised.value)
