"""Hostile configuration files: one clear message, soon, whatever the file contains."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.config import ConfigError, load_config
from mooring.config.document import MAX_CONFIG_BYTES, read_config_file

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
LAUGHS = "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12))
BLOCKS = "".join(" " * depth + "a:\n" for depth in range(1000))

HOSTILE = {
    "empty": ("", "kind is missing"),
    "NUL bytes": (HEAD + "\0" * 100, "the control character '\\x00' is not allowed"),
    "deep lists": (HEAD + "profiles: " + "[" * 100_000 + "]" * 100_000, "nested more than 200 levels deep"),
    "deep mappings": (HEAD + "profiles: " + "{a: " * 20_000 + "}" * 20_000, "nested more than 200 levels deep"),
    "deep blocks": (HEAD + BLOCKS, "nested more than 200 levels deep"),
    "deep JSON": ('{"kind": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested"),
    "billion laughs": (HEAD + "a0: &a0 [x]\n" + LAUGHS, "aliases expand the document too much"),
    "laughs in arguments": (
        HEAD + "profiles:\n- pluginConfig:\n  - name: NodeAffinity\n    args:\n      a0: &a0 [x]\n"
        + "".join(f"      {line}\n" for line in LAUGHS.splitlines()),
        "aliases expand the document too much",
    ),
    "an alias to itself": (HEAD + "profiles: &a\n- *a\n", "contains itself"),
    "duplicate keys": (HEAD + "parallelism: 3\nparallelism: 5\n", 'the key "parallelism" is set twice'),
    "code": (HEAD + 'profiles: !!python/object/apply:os.system ["true"]\n', "expected a mapping"),
    "a long key": (HEAD + "k" * 100_000 + ": 1\n", "not valid YAML"),
    "a long number": (HEAD + "parallelism: " + "9" * 100_000 + "\n", "expected a 32-bit integer"),
    "too large": (HEAD + "# comment\n" * (MAX_CONFIG_BYTES // 10), "has more than 1 MiB"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_texts_have_one_clear_message(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(text, source="hostile.yaml")
    (line,) = caught.value.lines()
    assert message in line
    assert line.startswith("hostile.yaml")
    assert len(line) < 400


def test_the_number_of_reported_errors_is_limited() -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(HEAD + "profiles:\n" + "- schedulerName: 5\n" * 150, source="f")
    lines = caught.value.lines()
    assert lines[0].startswith("f:4: profiles[0].schedulerName: expected text")
    assert len(lines) == 101
    assert lines[-1] == "f: 50 more errors"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe", "not UTF-8 text; save the file as UTF-8"),
        (b"x" * (MAX_CONFIG_BYTES - 1) + "\u20ac".encode(), "has more than 1 MiB"),
        (None, "cannot be read: No such file or directory"),
    ],
    ids=["encoding", "size", "missing"],
)
def test_files_that_cannot_be_read(tmp_path: Path, content: bytes | None, message: str) -> None:
    file = tmp_path / "scheduler.yaml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=message) as caught:
        read_config_file(file)
    assert str(caught.value).startswith(f"{file}: ")
