"""`mooring serve what-if`: its help, and its errors."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from mooring.cli.main import main


def test_the_help_names_the_description() -> None:
    found = CliRunner().invoke(main, ["serve", "what-if", "--help"])
    assert found.exit_code == 0
    assert "/what-if/openapi.json" in found.output


def test_a_missing_kubeconfig_is_an_error(tmp_path: Path) -> None:
    found = CliRunner().invoke(main, ["serve", "what-if", "--kubeconfig", str(tmp_path / "none")])
    assert found.exit_code == 1
    assert "none" in found.output


def test_a_missing_manifest_is_an_error(tmp_path: Path) -> None:
    found = CliRunner().invoke(main, ["serve", "what-if", "-f", str(tmp_path / "none.yaml")])
    assert found.exit_code == 1
    assert "none.yaml: no such file or folder" in found.output
