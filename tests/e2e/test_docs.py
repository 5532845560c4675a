"""The documentation with kubectl and helm: every command of every page, as a reader types it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.commands import PAGES, Reader
from tests.e2e.controlplane.parts import binary


@pytest.mark.parametrize("page", PAGES)
def test_its_commands_work_with_kubectl_and_helm(built: None, helm_built: None, page: str, tmp_path: Path) -> None:
    with Reader(tmp_path, kubectl=binary("kubectl"), helm=binary("helm")) as reader:
        reader.read(page, with_kubectl=True)
    if page == "README.md":
        assert "Pod default/web-7 is on node node-7." in reader.output
        assert "nodenumber" in reader.output.lower()  # a row or a column, by the width of the terminal
