"""Decodes a configuration file: its version, its fields and their lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from mooring.api.json_reader import read_json
from mooring.api.yaml_nodes import Mapping, Node, ReadError, Scalar, is_null, line_of, raw_json
from mooring.api.yaml_reader import read_yaml
from mooring.config.config_errors import ConfigError, FieldError, nearest
from mooring.config.field_decoder import Faults, decode_struct, raw_value, repeated_keys
from mooring.config.schema import ARGS, GROUP, KIND, VERSIONS, Version, configuration
from mooring.releases import NEWEST, Release

#: The maximum size of a configuration file. One of the same size as a ConfigMap is read within seconds.
MAX_CONFIG_BYTES: Final = 1 << 20
#: White space as Go defines it. A text that starts with a brace after it is JSON.
_SPACES: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
#: Other versions that the release of a version could decode. Their arguments are decoded, but never match.
_KNOWN_BESIDES: Final[dict[Version, tuple[Version, ...]]] = {"v1": (), "v1beta3": ("v1",), "v1beta2": ("v1beta3", "v1")}


class PluginArgs(msgspec.Struct):
    """An entry of pluginConfig: the arguments of one plugin."""

    name: str
    #: A dictionary if the plugin's arguments are declared; otherwise any value.
    value: Any
    declared: bool
    #: The arguments as JSON text, for comparing undeclared ones; None if there are none.
    raw: str | None = None


class Document(msgspec.Struct):
    """A decoded file, before defaulting."""

    version: Version
    root: Node
    #: The fields that are set. A profile's pluginConfig is a list of PluginArgs.
    values: dict[str, Any]
    source: str = ""
    release: Release = NEWEST

    def fail(self, errors: list[FieldError], stage: Any) -> ConfigError:
        """Return a ConfigError with the lines of the errors."""
        placed = [
            error if error.line is not None else msgspec.structs.replace(error, line=line_of(self.root, error.path))
            for error in errors
        ]
        return ConfigError(placed, stage=stage, source=self.source)


def read_config_file(path: Path, *, encoding: str = "utf-8") -> str:
    """Return the text of a configuration file. Raises ConfigError if it cannot be read or is too large."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_CONFIG_BYTES + 1)
        check_size(data, source=str(path))
        return data.decode(encoding)
    except UnicodeError:
        problem = "not UTF-8 text; save the file as UTF-8"
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
    raise ConfigError([FieldError("", problem)], stage="decode", source=str(path))


def check_size(content: str | bytes, *, source: str) -> None:
    """Raise ConfigError if a configuration is too large."""
    if len(content) > MAX_CONFIG_BYTES:
        problem = f"has more than {MAX_CONFIG_BYTES >> 20} MiB, the maximum size of a ConfigMap"
        raise ConfigError([FieldError("", problem, None, "Is it a configuration?")], stage="decode", source=source)


def read_document(text: str, *, source: str, release: Release = NEWEST) -> Document:
    """Decode a file of a release. Raises ConfigError with all decoding errors."""
    check_size(text, source=source)
    try:
        root = read_json(text) if text.lstrip(_SPACES).startswith("{") else read_yaml(text)
    except ReadError as error:
        raise ConfigError([FieldError("", str(error), error.line)], stage="decode", source=source) from None
    version = _version(root, source)
    faults = Faults()
    values = decode_struct(root, configuration(version, release), "", faults)
    document = Document(version, root, values, source, release)
    nested = _decode_args(document)
    repeated = list(repeated_keys(root))
    if faults.types:
        everything = [*faults.types, *faults.strict, *nested.fatal, *nested.strict, *repeated]
        raise document.fail(everything, "decode")
    if nested.fatal or nested.misfit:
        # kube-scheduler reports nothing else about a file with arguments that cannot be decoded.
        raise document.fail((nested.fatal or nested.misfit)[:1], "decode")
    if faults.strict or nested.strict or repeated:
        raise document.fail([*repeated, *faults.strict, *nested.strict], "decode")
    return document


# Version and kind


def _version(root: Node, source: str) -> Version:
    """Return the version of a file. Raises ConfigError if it is not a scheduler configuration."""

    def fail(message: str, path: str, remedy: str) -> ConfigError:
        error = FieldError(path, message, line_of(root, path), remedy)
        return ConfigError([error], stage="decode", source=source)

    start = f"Start the file with:  apiVersion: {GROUP}/v1  and  kind: {KIND}."
    if not isinstance(root, Mapping) and not is_null(root):
        raise fail(f"expected a configuration, found {root.describe()}", "", start)
    api_version, kind, problem = _meta(root)
    if problem is not None:
        raise fail(f"expected text, found {problem[1].describe()}", problem[0], start)
    if not kind:
        raise fail("kind is missing", "kind", f"Add  kind: {KIND}.")
    if not api_version:
        raise fail("apiVersion is missing", "apiVersion", f"Add  apiVersion: {GROUP}/v1.")
    version = next((each for each in VERSIONS if api_version == f"{GROUP}/{each}"), None)
    if version is None:
        known = [f"{GROUP}/{each}" for each in VERSIONS]
        close = nearest(api_version, known) or known[0]
        raise fail(f'the version "{api_version}" is not known', "apiVersion", f'Did you mean "{close}"?')
    if kind != KIND:
        _check_lone_args(root, kind, version, source)
        raise fail(f'"{kind}" is not a scheduler configuration', "kind", f"Write  kind: {KIND}.")
    return version


def _check_lone_args(root: Node, kind: str, version: Version, source: str) -> None:
    """Report unknown fields first in a file that contains only the arguments of a plugin."""
    struct = ARGS[version].get(kind.removesuffix("Args")) if kind.endswith("Args") else None
    faults = Faults()
    if struct is not None:
        decode_struct(root, struct, "", faults)
    if faults.strict and not faults.types:
        raise ConfigError([*faults.strict, *repeated_keys(root)], stage="decode", source=source)


def _meta(node: Node) -> tuple[str, str, tuple[str, Node] | None]:
    """Return apiVersion and kind, whose keys are case-insensitive, and the place of one that is not text."""
    found = {"apiversion": "", "kind": ""}
    if isinstance(node, Mapping):
        in_order = node.entries if node.source is not None else sorted(node.entries, key=lambda each: each.key)
        for entry in in_order:
            folded = entry.key.casefold()
            if folded not in found or is_null(entry.value):
                continue
            if not isinstance(entry.value, Scalar) or entry.value.kind != "string":
                return "", "", (entry.key, entry.value)
            found[folded] = entry.value.text
    return found["apiversion"], found["kind"], None


# Plugin arguments


class _Nested(msgspec.Struct):
    """Errors in plugin arguments."""

    #: Arguments that cannot be decoded.
    fatal: list[FieldError] = msgspec.field(default_factory=list)
    #: Arguments of another version, which are reported after all are decoded.
    misfit: list[FieldError] = msgspec.field(default_factory=list)
    strict: list[FieldError] = msgspec.field(default_factory=list)


def _decode_args(document: Document) -> _Nested:
    """Decode all plugin arguments in place."""
    nested = _Nested()
    for i, profile in enumerate(document.values.get("profiles") or []):
        entries = profile.get("pluginConfig") or []
        decoded = []
        for j, entry in enumerate(entries):
            path = f"profiles[{i}].pluginConfig[{j}]"
            decoded.append(_decode_entry(entry, path, document.version, nested))
        if "pluginConfig" in profile:
            profile["pluginConfig"] = decoded
    return nested


def _decode_entry(entry: dict[str, Any], path: str, version: Version, nested: _Nested) -> PluginArgs:
    name, node = entry.get("name", ""), entry.get("args")
    struct = ARGS[version].get(name)
    if struct is None:
        raw = raw_json(node) if node is not None and not is_null(node) else None
        return PluginArgs(name, raw_value(node), declared=False, raw=raw)
    if node is None:
        return PluginArgs(name, {}, declared=True)
    problem = _kind_problem(node, name, version)
    if problem is not None:
        nested.fatal.append(FieldError(path, problem, node.line))
        return PluginArgs(name, {}, declared=True)
    faults = Faults()
    value = decode_struct(node, struct, "", faults)
    if faults.types:
        told = "; ".join(f"args.{error.path}: {error.message}" for error in faults.types)
        nested.fatal.append(FieldError(path, told, faults.types[0].line, faults.types[0].remedy))
    nested.strict += [msgspec.structs.replace(error, path=f"{path}.args.{error.path}") for error in faults.strict]
    stated = _meta(node)[0]
    value = {field: each for field, each in value.items() if field not in ("apiVersion", "kind")}
    if stated not in ("", f"{GROUP}/", "/", f"{GROUP}/{version}"):
        message = f'the arguments have version "{stated}", but the file has version {version}'
        nested.misfit.append(FieldError(path, message, node.line, "Remove apiVersion and kind from the arguments."))
    return PluginArgs(name, value, declared=True)


def _kind_problem(node: Node, name: str, version: Version) -> str | None:
    """Return the reason why the arguments are not those of the plugin, or None."""
    if not isinstance(node, Mapping):
        return f"args: expected a mapping with the arguments of {name}, found {node.describe()}"
    api_version, kind, problem = _meta(node)
    if problem is not None:
        return f"args.{problem[0]}: expected text, found {problem[1].describe()}"
    known = {"", "/", f"{GROUP}/", *(f"{GROUP}/{each}" for each in (version, *_KNOWN_BESIDES[version]))}
    if api_version not in known:
        return f'args.apiVersion: "{api_version}" has no arguments of {name}: write {GROUP}/{version} or remove it'
    if kind not in ("", f"{name}Args"):
        return f'args.kind: "{kind}" is not {name}Args, which {name} takes: write that or remove it'
    return None
