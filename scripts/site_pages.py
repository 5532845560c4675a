"""Hooks of mkdocs that add the repository files that pages link to.

A page may link to `../examples/plugins/nodenumber/nodenumber.py`. In the repository that is a file; in the site it
becomes the page `repository/examples/plugins/nodenumber/nodenumber.py.md`, so that the site is complete without a
network. A link to a missing file stays unchanged, and mkdocs reports it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
#: Pages of the navigation that are outside of docs/.
START = ("CHANGELOG.md", "CONTRIBUTING.md", "examples/plugins")
_LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")
_LANGUAGES = {".py": "python", ".sh": "sh", ".yaml": "yaml", ".json": "json", ".wat": "wat", ".go": "go"}
_SKIPPED = {"__pycache__", "__init__.py"}


def on_files(files: Files, *, config: Any) -> Files:
    """Add a page for each file and folder outside of docs/ that a page links to."""
    waiting = [*START]
    for page in files.documentation_pages():
        path = Path(page.abs_src_path or "")
        if path.is_file():
            waiting += _linked(path.read_text(), page.src_uri)
    done: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in done:
            continue
        done.add(path)
        uri, text = _uri(path), _text(ROOT / path)
        files.append(File.generated(config, uri, content=text))
        waiting += _linked(text, uri)
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Convert links to repository files to links to pages of the site."""
    here = page.file.src_uri

    def replace(match: re.Match[str]) -> str:
        target = _target(match[1], here)
        if target is None:
            return match[0]
        return f"]({posixpath.relpath(_uri(target), posixpath.dirname(here))}{match[2] or ''})"

    return _LINK.sub(replace, markdown)


def _linked(text: str, uri: str) -> list[str]:
    """Return the paths outside of docs/ that a page links to."""
    found = (_target(match[1], uri) for match in _LINK.finditer(text))
    return [path for path in found if path is not None and not _is_page(path)]


def _is_page(path: str) -> bool:
    return path == "docs" or path.startswith("docs/")


def _target(link: str, uri: str) -> str | None:
    """Return the repository path of a link on a page; None if it is not a path or does not exist."""
    if ":" in link or link.startswith("/"):
        return None
    source = uri.removeprefix("repository/") if uri.startswith("repository/") else f"docs/{uri}"
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
    return None if path.startswith("..") or not (ROOT / path).exists() else path


def _uri(path: str) -> str:
    """Return the address, in the site's sources, of the page for a path in the repository."""
    if path == "docs":
        return "README.md"
    if (ROOT / path).is_dir():
        path = f"{path}/README.md" if (ROOT / path / "README.md").exists() else f"{path}/index.md"
    if _is_page(path):
        return path.removeprefix("docs/")
    return f"repository/{path}" if path.endswith(".md") else f"repository/{path}.md"


def _text(path: Path) -> str:
    """Return the content of the page for a file or folder."""
    if path.is_dir():
        readme = path / "README.md"
        return readme.read_text() + _attachments(path) if readme.exists() else _listing(path)
    if path.name == "README.md":
        return path.read_text() + _attachments(path.parent)
    if path.suffix == ".md":
        return path.read_text()
    return f"---\nsearch: {{exclude: true}}\n---\n# {path.name}\n\n`{path.relative_to(ROOT)}`\n\n{_code(path)}"


def _attachments(folder: Path) -> str:
    """Return the files of a plugin of the gallery, to follow its page."""
    if folder.parent != ROOT / "examples" / "plugins":
        return ""
    names = (f"{folder.name}.py", "scheduler.yaml", f"test_{folder.name}.py")
    return "".join(f"\n## {name}\n\n{_code(folder / name)}" for name in names if (folder / name).is_file())


def _code(path: Path) -> str:
    return f"````{_LANGUAGES.get(path.suffix, 'text')}\n{path.read_text()}````\n"


def _listing(folder: Path) -> str:
    """Return a page that lists a folder, with the first sentence of each README."""
    title = "Gallery" if folder == ROOT / "examples" / "plugins" else f"{folder.relative_to(ROOT)}/"
    lines = [f"# {title}", "", f"The folder `{folder.relative_to(ROOT)}/`:", ""]
    for each in sorted(folder.iterdir()):
        if each.name.startswith(".") or each.name in _SKIPPED:
            continue
        readme = each / "README.md"
        if readme.is_file():
            heading, _, rest = readme.read_text().partition("\n")
            lines.append(f"- [{heading.lstrip('# ')}]({each.name}/README.md): {_first_sentence(rest)}")
        elif each.is_file() and each.suffix in _LANGUAGES:
            lines.append(f"- [{each.name}]({each.name})")
    return "\n".join([*lines, ""])


def _first_sentence(text: str) -> str:
    """Return the first sentence of Markdown, without its links."""
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).strip()
    return re.split(r"(?<=\.)\s", plain.replace("\n", " "), maxsplit=1)[0]
