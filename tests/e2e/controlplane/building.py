"""Build the parts of a control plane from Go modules into the cache folder. A part that is there is left alone."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.e2e.controlplane.parts import MODULES, PARTS, Module, ModuleCopy, Part, binary, cache_folder

_STAMP: Final = "built.json"
#: How often a line of progress comes where there is no screen to rewrite one on.
_LINE_SECONDS: Final = 30.0
_STAGING_REQUIREMENT: Final = re.compile(r"^\s*(?:require\s+)?(\S+)\s+v0\.0\.0(?:\s|$)", re.MULTILINE)


class BuildError(Exception):
    """What kept a part from being built, in words for the user."""


def missing(names: Sequence[str] = ()) -> list[Part]:
    """The parts that have still to be built; all that tests need unless named."""
    return [
        part
        for part in chosen(names)
        if not binary(part.name).exists() or _stamps(part.folder).get(part.name) != _recipe(part)
    ]


def chosen(names: Sequence[str] = ()) -> list[Part]:
    """The parts of these names in the order of building; without names all that tests need."""
    known = {part.name: part for part in PARTS}
    if unknown := [name for name in names if name not in known]:
        raise BuildError(f"there is no part {', '.join(unknown)}; there are {', '.join(known)}")
    return [part for part in PARTS if (part.name in names if names else part.needed)]


def build(names: Sequence[str] = ()) -> None:
    """Build what is missing. A build that was interrupted goes on where it was; two at a time wait for each other."""
    if not missing(names):
        return
    if shutil.which("go") is None:
        raise BuildError(
            "Go is missing: it is needed once, to build " + ", ".join(part.name for part in missing(names)) + "; "
            "install Go 1.21 or later (https://go.dev/dl) and run this again"
        )
    with _lock():
        # Another process may have built them while this one waited.
        left = missing(names)
        _say(f"building {len(left)} programs into {cache_folder()} (once; a quarter of an hour on two cores)")
        for number, part in enumerate(left, 1):
            _build_part(part, f"[{number}/{len(left)}] {part.name} {part.version}")


def _build_part(part: Part, title: str) -> None:
    folder = _write_module(MODULES[part.module])
    target = binary(part.name)
    unfinished = target.with_suffix(".unfinished")
    started = time.monotonic()
    _say(f"{title}: reading its packages")
    total = len(_go(folder, "list", "-deps", part.package).splitlines())
    command = ["build", "-v", "-trimpath", "-buildvcs=false", "-ldflags", _ldflags(part)]
    _follow([*_nice(), "go", *command, "-o", str(unfinished), part.package], folder, title, total)
    unfinished.replace(target)
    _stamp(part)
    _say(f"{title}: built in {_duration(time.monotonic() - started)}")


def _recipe(part: Part) -> str:
    """What the stamp says of a part that is up to date."""
    module = MODULES[part.module]
    digest = [_digest(module.sources)] if module.sources else []
    copies = [[each.path, each.version, each.files] for each in module.copies]
    more = [copies] if copies else []
    return json.dumps([part.package, part.version, module.requires, *digest, *more], sort_keys=True)


def _digest(folder: Path) -> str:
    """A digest of the Go files of a program of this repository."""
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sorted(folder.glob("*.go")))).hexdigest()


def _ldflags(part: Part) -> str:
    """Without these the API server calls itself v0.0.0, and clients misjudge it."""
    major, minor, _ = part.folder.split(".")
    parts = (("Major", major), ("Minor", minor))
    version = "k8s.io/component-base/version"
    values = {f"{version}.gitVersion": f"v{part.folder}", f"{version}.gitMajor": major, f"{version}.gitMinor": minor}
    values["sigs.k8s.io/kwok/pkg/consts.Version"] = f"v{part.version}"
    values["volcano.sh/volcano/pkg/version.Version"] = f"v{part.version}"
    values["helm.sh/helm/v3/internal/version.version"] = f"v{part.version}"
    # The cluster that charts are rendered for where there is none.
    for package in ("chartutil", "lint/rules"):
        values |= {f"helm.sh/helm/v3/pkg/{package}.k8sVersion{name}": each for name, each in parts}
    return "-s -w " + " ".join(f"-X {name}={value}" for name, value in values.items())


def _write_module(module: Module) -> Path:
    """Write the Go module that a part is built in, unless it is there; `go mod tidy` completes it."""
    folder = cache_folder(module.folder) / "src" / module.name
    lines = [f"module mooring.test/{module.name}", "", "go 1.26.0", ""]
    lines += [f"require {path} {version}" for path, version in module.requires.items()]
    lines += [f"replace {path} => {path} {module.staging_version}" for path in _staging(module)]
    lines += [f"replace {old} => {new}" for old, new in _own_replaces(module)]
    lines += [f"replace {each.path} => ./{_copy_folder(each)}" for each in module.copies]
    text = "\n".join(lines) + "\n"
    recipe = folder / "recipe"
    wanted = text + (f"// {_digest(module.sources)}\n" if module.sources else "")
    wanted += "".join(
        f"// {each.path} {each.version} {name}\n{content}" for each in module.copies for name, content in each.files
    )
    if recipe.exists() and recipe.read_text() == wanted:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "go.mod").write_text(text)
    ours = [(path.name, path.read_text()) for path in sorted(module.sources.glob("*.go"))] if module.sources else []
    for name, content in (*module.files, *ours, ("parts.go", _blank_imports(module))):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    for each in module.copies:
        _copy(each, folder / _copy_folder(each))
    _say(f"completing the Go module {module.name} (downloads what is not there yet)")
    _go(folder, "mod", "tidy")
    recipe.write_text(wanted)
    return folder


def _blank_imports(module: Module) -> str:
    """A file that is never compiled: it only tells `go mod tidy` which packages the module is about."""
    if module.sources:
        return "//go:build parts\n\npackage main\n"
    packages = [
        part.package for part in PARTS if MODULES[part.module].name == module.name and not part.package.startswith(".")
    ]
    return "//go:build parts\n\npackage parts\n\nimport (\n" + "".join(f'\t_ "{each}"\n' for each in packages) + ")\n"


def _staging(module: Module) -> list[str]:
    """The requirements that exist only inside the module's own repository, as its go.mod tells by their version."""
    if not module.staging_of:
        return []
    found = _download(module.staging_of, module.requires[module.staging_of])
    return _STAGING_REQUIREMENT.findall(Path(found["GoMod"]).read_text())


def _own_replaces(module: Module) -> list[tuple[str, str]]:
    """The replacements of a module that Go ignores in others, without those by folders of its repository."""
    if not module.replaces_of:
        return []
    found = _download(module.replaces_of, module.requires[module.replaces_of])
    listed = json.loads(_go(Path.home(), "mod", "edit", "-json", found["GoMod"])).get("Replace") or []
    pairs = [(each["Old"]["Path"], each["New"]) for each in listed]
    return [(old, f"{new['Path']} {new['Version']}") for old, new in pairs if new.get("Version")]


def _copy_folder(copy: ModuleCopy) -> str:
    return copy.path.rpartition("/")[2]


def _copy(copy: ModuleCopy, to: Path) -> None:
    """Copy a module from Go's cache, where files are read-only, and complete it."""
    shutil.copytree(_download(copy.path, copy.version)["Dir"], to, copy_function=shutil.copyfile)
    for path in (to, *to.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    for name, content in copy.files:
        (to / name).write_text(content)


def _download(path: str, version: str) -> dict[str, str]:
    """Where Go's cache holds a module."""
    found: dict[str, str] = json.loads(_go(Path.home(), "mod", "download", "-json", f"{path}@{version}"))
    return found


def _go(folder: Path, *arguments: str) -> str:
    """Run a quick go command; on failure its own words are the error."""
    done = subprocess.run([*_nice(), "go", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"`go {arguments[0]}` failed: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout


def _nice() -> list[str]:
    return ["nice", "-n", "10"] if shutil.which("nice") else []


def _follow(command: list[str], folder: Path, title: str, total: int) -> None:
    """Run `go build -v`, which prints the packages that it compiles, and show how far it has come."""
    said: list[str] = []
    last = started = time.monotonic()
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stderr or ():
                said.append(line)
                now = time.monotonic()
                text = f"{title}: {len(said):,} of at most {total:,} packages, {_duration(now - started)}"
                if sys.stdout.isatty():
                    print(f"\r\x1b[K-- {text}", end="", flush=True)
                elif now - last >= _LINE_SECONDS:
                    last = now
                    _say(text)
        except BaseException:
            process.terminate()
            raise
    if sys.stdout.isatty():
        print("\r\x1b[K", end="", flush=True)
    if process.returncode:
        raise BuildError(f"{title}: go build failed:\n{''.join(said[-40:])}")


def _stamps(folder: str) -> dict[str, str]:
    try:
        found: dict[str, str] = json.loads((cache_folder(folder) / _STAMP).read_text())
    except (OSError, ValueError):
        return {}
    return found


def _stamp(part: Part) -> None:
    path = cache_folder(part.folder) / _STAMP
    fresh = path.with_suffix(".unfinished")
    fresh.write_text(json.dumps(_stamps(part.folder) | {part.name: _recipe(part)}, indent=1))
    fresh.replace(path)


@contextlib.contextmanager
def _lock() -> Iterator[None]:
    """Hold the cache folder for this process."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / "lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            _say(f"another build (process {file.read().strip() or '?'}) is under way; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        file.truncate()
        file.write(str(os.getpid()))
        file.flush()
        yield


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _say(text: str) -> None:
    print(f"-- {text}", flush=True)
