"""YAML 1.1 scalars mean what Kubernetes' reader makes of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.api.yaml_nodes import ReadError, plain
from mooring.api.yaml_reader import read_yaml
from mooring.api.yaml_scalars import json_float, key_float, resolve_plain, single
from mooring.api.yaml_writer import yaml_text


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("yes", True),
        ("y", True),
        ("On", True),
        ("TRUE", True),
        ("n", False),
        ("off", False),
        ("yEs", "yEs"),
        ("~", None),
        ("null", None),
        ("nUll", "nUll"),
        ("16", 16),
        ("+5", 5),
        ("-5", -5),
        ("010", 8),
        ("0o10", 8),
        ("0x1F", 31),
        ("0b101", 5),
        ("-0b11", -3),
        ("0b-1", -1),
        ("1_000", 1000),
        ("0_7", 7),
        ("08", 8),
        ("09.5", 9.5),
        ("16.0", 16),
        ("1e1", 10),
        ("1e3", 1000),
        ("1.", 1),
        (".5", 0.5),
        (".5_0", 0.5),
        ("+.5", 0.5),
        ("-x", "-x"),
        ("0x", "0x"),
        ("0o8", "0o8"),
        ("1:30", "1:30"),
        ("2001-01-01", "2001-01-01"),
        ("1e400", "1e400"),
        (".5e400", ".5e400"),
        ("9223372036854775807", 2**63 - 1),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 18446744073709552000),
        ("1" * 5000, "1" * 5000),
        ("<<", "<<"),
        ("50%", "50%"),
    ],
)
def test_plain_scalars(scalar: str, value: Any) -> None:
    read = plain(read_yaml(f"a: {scalar}\n"))["a"]
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("!!str 12", "12"),
        ("!!int '12'", 12),
        ("!!float 3", 3),
        ("!!bool yes", True),
        ("!!null ''", None),
        ("!!timestamp 2001-01-01", "2001-01-01"),
        ("!!binary aGk=", "hi"),
        ("! 12", "12"),
        ("!mine 12", "12"),
        ("'yes'", "yes"),
        ('"1"', "1"),
        ("!!str", ""),
        ("&anchor", None),
    ],
)
def test_tags_and_quotes(scalar: str, value: Any) -> None:
    read = plain(read_yaml(f"a: {scalar}\n"))["a"]
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    "scalar", ["!!int x", "!!bool 1", "!!null x", "!!float x", "!!timestamp x", "!!binary '*'", ".inf", "-.Inf", ".nan"]
)
def test_what_does_not_fit_its_tag_or_json(scalar: str) -> None:
    with pytest.raises(ReadError) as caught:
        read_yaml(f"x: 1\na: {scalar}\n")
    assert caught.value.line == 2


@pytest.mark.parametrize(
    ("number", "json_text"),
    [
        (0.0, "0"),
        (-0.0, "-0"),
        (16.0, "16"),
        (1.5, "1.5"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (-1.25e-9, "-1.25e-9"),
    ],
)
def test_floats_in_json(number: float, json_text: str) -> None:
    assert json_float(number) == json_text
    assert json.loads(json_text) == number


@pytest.mark.parametrize(
    ("number", "key"), [(1.5, "1.5"), (1000.0, "1000"), (1e6, "1e+06"), (1e-5, "1e-05"), (0.1, "0.1"), (1e300, ".inf")]
)
def test_floats_as_keys(number: float, key: str) -> None:
    assert key_float(number) == key


def test_single_precision() -> None:
    numbers = (0.1, 1.23456789, 1e39, 16777217.0, 3.4028235e38, 1e-50)
    assert [single(number) for number in numbers] == ["0.1", "1.2345679", None, "16777216", "3.4028235e+38", "0"]


@pytest.mark.parametrize("word", ["yes", "y", "010", "1e3", "0o10", "~", "", "1_0", ".5", "1:30", "plain", "<<", "="])
def test_written_text_stays_text(word: str) -> None:
    """What we write is text to Kubernetes' reader, whatever it looks like."""
    assert plain(read_yaml(yaml_text({"a": word, word: 1}))) == {"a": word, word: 1}


def test_resolving_never_sees_blank_text_as_a_number() -> None:
    assert resolve_plain("") == ("null", "null")
