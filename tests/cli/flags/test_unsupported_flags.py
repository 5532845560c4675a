"""The table of unsupported flags."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from mooring.cli.flags.go_flags import UnsupportedFlag
from mooring.cli.flags.unsupported_flags import UNSUPPORTED_FLAGS
from mooring.cli.run import run


@pytest.mark.parametrize("flag", UNSUPPORTED_FLAGS, ids=lambda flag: flag.name)
def test_each_flag_has_a_reason_and_is_not_in_help(flag: UnsupportedFlag) -> None:
    assert flag.text
    assert not flag.text.endswith(".")
    assert all(isinstance(value, str) for value in flag.accepted)


@pytest.mark.parametrize("flag", [flag for flag in UNSUPPORTED_FLAGS if flag.is_error], ids=lambda flag: flag.name)
def test_flags_that_would_change_decisions_are_errors(flag: UnsupportedFlag) -> None:
    result = CliRunner().invoke(run, [f"--{flag.name}=surely-not-accepted"])
    assert result.exit_code == 2
    assert flag.text in result.output
