"""The table of supported flags."""

from __future__ import annotations

from collections import Counter

import pytest

from mooring.cli.flags.go_flags import Flag, FlagOption
from mooring.cli.flags.supported_flags import SUPPORTED_FLAGS
from mooring.cli.flags.unsupported_flags import UNSUPPORTED_FLAGS


def test_no_flag_is_listed_twice() -> None:
    counts = Counter(flag.name for flag in (*SUPPORTED_FLAGS, *UNSUPPORTED_FLAGS))
    assert [name for name, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("flag", SUPPORTED_FLAGS, ids=lambda flag: flag.name)
def test_help_is_a_sentence_and_the_default_has_the_type_of_the_flag(flag: Flag) -> None:
    assert flag.help[0].isupper()
    assert flag.help.endswith(".")
    option = FlagOption(flag)
    types = {"text": str, "bool": bool, "int": int, "number": float, "duration": int, "list": tuple, "map": tuple}
    assert flag.default is None or isinstance(option.default, types[flag.kind])
