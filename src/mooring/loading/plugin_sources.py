"""``kind: PluginSources``: the second document of a configuration file, which lists plugins and their options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, get_args

import msgspec

from mooring.api.decode_errors import locate_error, path_text
from mooring.api.quantity import QuantityError, value
from mooring.api.yaml_nodes import ReadError, line_of, plain
from mooring.api.yaml_reader import read_node
from mooring.config import ConfigError, FieldError
from mooring.config.config_errors import nearest
from mooring.config.document import check_size
from mooring.config.durations import SECOND, DurationError, parse_duration
from mooring.config.model import TieBreak
from mooring.loading.plugin_options import DEFAULT, FailurePolicy, Isolation, PluginOptions

API_VERSION: Final = "mooring.dev/v1alpha1"
KIND: Final = "PluginSources"
_IS_SOURCES: Final = re.compile(rf"^kind:[ \t]*[\"']?{KIND}[\"']?[ \t]*(#.*)?$", re.MULTILINE)
_SEPARATOR: Final = re.compile(r"^---([ \t].*)?$")
_UNKNOWN: Final = re.compile(r"unknown field `(.+?)`")

#: The minimum memory for a Python interpreter with NumPy.
_MIN_MEMORY: Final = 256 << 20

PointName = Literal[
    "preEnqueue", "queueSort", "preFilter", "filter", "postFilter", "preScore", "score", "reserve", "permit", "preBind",
    "bind", "postBind",
    # The methods and callbacks of session plugins and actions.
    "onSessionOpen", "onSessionClose", "execute", "allocatable", "allocateHandler", "batchNodeOrder", "bestNode",
    "deallocateHandler", "hyperNodeGradient", "hyperNodeOrder", "jobEnqueueable", "jobEnqueued", "jobOrder",
    "jobPipelined", "jobReady", "jobStarving", "jobValid", "mayEvict", "nodeOrder", "overused", "prePredicate",
    "predicate", "preemptable", "preemptive", "queueOrder", "reclaimable", "reservation", "simulation", "subJobOrder",
    "subJobPipelined", "subJobReady", "taskOrder", "unifiedEvictable", "victimQueueOrder", "victimTasks"
]  # fmt: skip
#: The allowed values of some fields.
_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "budgets": get_args(PointName),
    "failurePolicy": get_args(FailurePolicy),
    "isolation": get_args(Isolation),
    "tieBreak": get_args(TieBreak),
}
Sha256 = Annotated[
    str, msgspec.Meta(pattern=r"^((sha256:)?[0-9a-fA-F]{64})?$", description="A SHA-256 in hexadecimal.")
]


class _Strict(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A struct with camelCase fields that rejects unknown ones."""


class PluginEntry(_Strict, frozen=True, kw_only=True):
    """One plugin: its file and its options, which apply wherever the plugin was found."""

    name: Annotated[str, msgspec.Meta(min_length=1, description="The plugin's name, as in the profiles.")]
    path: Annotated[
        str,
        msgspec.Meta(
            description="Its file or package, relative to this file. Omit it if the plugin is found otherwise."
        ),
    ] = ""
    sha256: Annotated[
        Sha256,
        msgspec.Meta(
            description="The checksum that `mooring plugin check` prints. A plugin with another one is rejected."
        ),
    ] = ""
    replace_builtin: Annotated[
        bool, msgspec.Meta(description="Whether it replaces the built-in plugin of the same name.")
    ] = False

    failure_policy: Annotated[
        FailurePolicy,
        msgspec.Meta(
            description="Whether attempts fail or continue without the plugin while it is disabled after failures."
        ),
    ] = DEFAULT.failure_policy
    failure_threshold: Annotated[
        int, msgspec.Meta(ge=1, description="The number of consecutive failed attempts after which it is disabled.")
    ] = DEFAULT.failure_threshold
    retry_after: Annotated[str, msgspec.Meta(description="How long it stays disabled, such as 30s.")] = "30s"
    budget: Annotated[str, msgspec.Meta(description="The duration after which a call is logged as slow.")] = "100ms"
    budgets: Annotated[
        dict[PointName, str],
        msgspec.Meta(description="Budgets of single extension points, or callbacks of a session plugin: {score: 5ms}."),
    ] = {}
    timeout: Annotated[str, msgspec.Meta(description="The duration after which a call counts as hanging.")] = "5s"

    isolation: Annotated[
        Isolation, msgspec.Meta(description="process: it runs in its own process, which is killed if it hangs.")
    ] = DEFAULT.isolation
    memory_limit: Annotated[
        str, msgspec.Meta(description="The memory limit of that process, such as 1Gi. Without it there is no limit.")
    ] = ""

    def options(self) -> PluginOptions:
        """Return the plugin's options."""
        return PluginOptions(
            isolation=self.isolation,
            memory_limit=_bytes(self.memory_limit),
            failure_policy=self.failure_policy,
            failure_threshold=self.failure_threshold,
            retry_after=_seconds(self.retry_after),
            budget=_seconds(self.budget),
            budgets={point: _seconds(text) for point, text in self.budgets.items()},
            timeout=_seconds(self.timeout),
        )

    def durations(self) -> Iterator[tuple[str, str]]:
        """Yield the path and the value of each duration."""
        yield "retryAfter", self.retry_after
        yield "budget", self.budget
        yield "timeout", self.timeout
        for point, text in self.budgets.items():
            yield f"budgets.{point}", text


class PluginSources(_Strict, frozen=True, kw_only=True):
    """The plugins of a configuration, in addition to those of the command line."""

    api_version: Literal["mooring.dev/v1alpha1"]
    kind: Literal["PluginSources"]
    directories: Annotated[
        tuple[str, ...], msgspec.Meta(description="Folders of plugin files and packages, relative to this file.")
    ] = ()
    plugins: Annotated[tuple[PluginEntry, ...], msgspec.Meta(description="Single plugins.")] = ()
    entry_points: Annotated[
        bool, msgspec.Meta(description="Whether to use plugins of installed packages (entry points mooring.plugins).")
    ] = True
    tie_break: Annotated[
        TieBreak,
        msgspec.Meta(
            description="Which of several nodes with the highest score is chosen: random, as in kube-scheduler, or "
            "stable: the first in an order that is fixed by the names of the nodes."
        ),
    ] = "random"
    allow_writable: Annotated[
        bool, msgspec.Meta(description="Whether to accept files and folders that other users can change or replace.")
    ] = False


def _bytes(text: str) -> int:
    try:
        return value(text)
    except QuantityError:
        return 0


def _seconds(text: str) -> float:
    return parse_duration(text) / SECOND


#: The default, for a configuration without the document.
NO_SOURCES: Final = PluginSources(api_version="mooring.dev/v1alpha1", kind="PluginSources")


def schema() -> dict[str, Any]:
    """Return the JSON schema of the document."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(PluginSources)}


def split(text: str) -> tuple[str, str]:
    """Split a file into configuration and PluginSources. In each, the other's lines are blank to keep line numbers."""
    if not _IS_SOURCES.search(text):
        return text, ""
    documents: list[list[str]] = [[]]
    for line in text.splitlines():
        if _SEPARATOR.match(line):
            documents.append([""])
        else:
            documents[-1].append(line)
    parts: tuple[list[str], list[str]] = ([], [])
    for lines in documents:
        chosen = bool(_IS_SOURCES.search("\n".join(lines)))
        parts[chosen].extend(lines)
        parts[not chosen].extend([""] * len(lines))
    rest, sources = ("\n".join(part) + "\n" for part in parts)
    return rest, sources


def read_sources(text: str, *, source: str) -> PluginSources:
    """Read the document. Raises ConfigError with the field and its line."""

    def fail(path: str, message: str, line: int | None, remedy: str | None = None) -> ConfigError:
        return ConfigError([FieldError(path, message, line, remedy)], stage="decode", source=source)

    check_size(text, source=source)
    if not text.strip():
        return NO_SOURCES
    try:
        root = read_node(text)
    except ReadError as error:
        raise fail("", str(error), error.line) from None
    written = plain(root)
    try:
        sources = msgspec.convert(written, PluginSources)
    except msgspec.ValidationError as error:
        steps, message = locate_error(error, written, PluginSources)
        path = path_text(steps)
        unknown = _UNKNOWN.search(message)
        if unknown is not None:
            message, path = f'unknown field "{unknown[1]}"', f"{path}.{unknown[1]}".lstrip(".")
        raise fail(path, message, line_of(root, path), _remedy(path, message, unknown)) from None
    names = [entry.name for entry in sources.plugins]
    for index, name in enumerate(names):
        if name in names[:index]:
            path = f"plugins[{index}].name"
            raise fail(path, f"{name} is listed twice", line_of(root, path), "Remove one.")
    for index, entry in enumerate(sources.plugins):
        for field, length in entry.durations():
            try:
                positive = parse_duration(length) > 0
            except DurationError:
                positive = False
            if not positive:
                path = f"plugins[{index}].{field}"
                raise fail(
                    path,
                    f'"{length}" is not a positive duration',
                    line_of(root, path),
                    "Write for example 100ms or 5s.",
                )
        if entry.memory_limit and _bytes(entry.memory_limit) < _MIN_MEMORY:
            path = f"plugins[{index}].memoryLimit"
            message = f'"{entry.memory_limit}" is not a quantity, or is too small'
            raise fail(path, message, line_of(root, path), "Write for example 512Mi; Python and NumPy need 256Mi.")
        if entry.sha256 and not entry.path:
            path = f"plugins[{index}].sha256"
            message = f"{entry.name} has a sha256 but no path"
            raise fail(path, message, line_of(root, path), "Add the path of its file or package.")
    return sources


def _remedy(path: str, message: str, unknown: re.Match[str] | None) -> str | None:
    choices = _CHOICES.get(path.rpartition(".")[2]) if "enum value" in message else None
    if choices is not None:
        return f"Write {', '.join(choices[:-1])} or {choices[-1]}."
    if unknown is None:
        return f"Write  apiVersion: {API_VERSION}." if "mooring.dev" in message or "apiVersion" in message else None
    known = [field.encode_name for struct in (PluginSources, PluginEntry) for field in msgspec.structs.fields(struct)]
    close = nearest(unknown[1], known)
    return f'Did you mean "{close}"?' if close else f"Known fields: {', '.join(sorted(set(known)))}."
