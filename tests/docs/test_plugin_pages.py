"""What the pages about plugins say of interfaces is what the code has."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from mooring.cli.main import main
from mooring.loading.wasm import abi
from mooring.loading.wasm.args import GuestArgs
from mooring.loading.wasm.columns import ColumnError, make_column
from tests.docs.commands import ROOT

RESOURCES, WASM = ((ROOT / "docs" / "plugins" / name).read_text() for name in ("custom-resources.md", "wasm.md"))


def test_the_custom_resource_of_the_page_works(tmp_path: Path) -> None:
    """With the hint that the page adds further down."""
    plugin, hint = re.findall(r"```python\n(.*?)```", RESOURCES, re.DOTALL)
    path = tmp_path / "reports.py"
    path.write_text(f"{plugin}\n{hint}")
    for arguments in (["plugin", "check", str(path)], ["plugin", "manifests", str(path)]):
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == 0, done.output
    assert "nodereports.example.com" in done.output
    assert "description: 0 to 100, by resource." in done.output


def test_the_arguments_of_a_guest_are_all_explained() -> None:
    """With their defaults."""
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| (\S+) \|$", WASM, re.MULTILINE))
    fields = {field.encode_name: field.default for field in msgspec.structs.fields(GuestArgs)}
    assert rows.keys() == fields.keys() - {"Args"}
    assert {name: rows[name].strip("`") for name in ("timeLimit", "memoryLimit", "logSeverity")} == {
        name: str(fields[name]) for name in ("timeLimit", "memoryLimit", "logSeverity")
    }


def test_every_function_of_the_interfaces_is_named() -> None:
    for name in abi.NODE_EXPORTS:
        assert f"`{name}`" in WASM, name
    for name in (*abi.BATCH_EXPORTS, *abi.BATCH_HELPERS):
        assert f"`{name}(" in WASM, name


@pytest.mark.parametrize("cell", re.findall(r"^\| (`[a-z_]+(?::[A-Z]+)?`(?:, `[^`]+`)*) \|", WASM, re.MULTILINE))
def test_every_column_of_the_page_can_be_had(cell: str) -> None:
    for name in re.findall(r"`([^`]+)`", cell):
        if name in {field.encode_name for field in msgspec.structs.fields(GuestArgs)}:
            continue
        make_column(name.replace("NAME", "cpu").replace("KEY", "zone"))


def test_no_other_column_can_be_had() -> None:
    with pytest.raises(ColumnError):
        make_column("weather")
