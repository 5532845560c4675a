"""Manifests from files, folders and standard input."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.api.decode_errors import ManifestError
from mooring.simulation.sources import Given, InputError, read

LIST = """\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata: {name: other}
- apiVersion: v1
  kind: Pod
  metadata: {name: p}
  spec:
    containers: []
"""
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: %s}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, node in (("b.yaml", "b"), ("a.yml", "a"), ("c.json", "c"), ("inner/d.yaml", "d"), ("notes.txt", "x")):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(NODE % node)
    return tmp_path


def names(found: list[Given]) -> list[str]:
    return [each.item.metadata.name for each in found]


def test_a_folder_is_read_in_order_without_its_folders(folder: Path) -> None:
    assert names(read([str(folder)])) == ["a", "b", "c"]


def test_recursive_reads_its_folders_too(folder: Path) -> None:
    assert names(read([str(folder)], recursive=True)) == ["a", "b", "c", "d"]


def test_several_places_keep_their_order(folder: Path) -> None:
    paths = [str(folder / "b.yaml"), "-", str(folder / "inner")]
    assert names(read(paths, stdin=(NODE % "in").encode)) == ["b", "in", "d"]


@pytest.mark.parametrize(
    ("path", "message"),
    [("missing.yaml", "missing.yaml: no such file or folder"), ("empty", "no manifest in this folder")],
)
def test_nothing_there(tmp_path: Path, path: str, message: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=message):
        read([str(tmp_path / path)])


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: [")
    with pytest.raises(ManifestError, match=r"a\.yaml"):
        read([str(tmp_path)])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers: []\n", 5),
        ("---\n---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: p\nspec:\n  containers: []\n", 8),
        (LIST, 11),
        ('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},\n "spec": {"containers": []}}', 2),
    ],
)
def test_a_fault_knows_its_line(tmp_path: Path, text: str, line: int) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(text)
    found = next(each for each in read([str(file)]) if each.item.metadata.name == "p")
    error = found.fault("is required", "spec", "containers", remedy="add one")
    assert error.line == line
    assert str(error) == f"{file}, line {line}: Pod p: spec.containers: is required; add one"


@pytest.mark.parametrize("text", ["", " \n", "# nothing yet\n", "---\n---\n# c\n...\n", "\ufeff"])
def test_an_empty_file_is_an_error(tmp_path: Path, text: str) -> None:
    file = tmp_path / "pods.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=r"pods\.yaml: there is no Kubernetes object in it; give manifests"):
        read([str(file)])
    with pytest.raises(InputError, match=r"standard input: there is no Kubernetes object in it"):
        read(["-"], stdin=text.encode)
    with pytest.raises(InputError, match=r"pods\.yaml: there is no Kubernetes object in it"):
        read([str(tmp_path)])


def test_a_folder_may_contain_an_empty_file(folder: Path) -> None:
    (folder / "later.yaml").write_text("# nothing yet\n")
    assert names(read([str(folder)])) == ["a", "b", "c"]


def test_a_list_without_objects_is_not_an_empty_file() -> None:
    assert read(["-"], stdin="apiVersion: v1\nkind: List\nitems: []\n".encode) == []
