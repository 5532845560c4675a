"""The plugins of a job: creating them from their arguments, calling them, and writing the objects that they return.

Users' plugins run on a thread with a time limit, so that they cannot stop the controller.
"""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar, get_type_hints

import msgspec

from mooring.api.volcano_jobs import JOB_VERSION, TaskSpec, VolcanoJob
from mooring.config.config_errors import nearest
from mooring.controllers.jobs.plugins import PLUGINS
from mooring.framework.job_plugin import Document, JobObject, JobPlugin, JobPluginError
from mooring.framework.plugin_errors import contain, failure_text
from mooring.kube import AlreadyExists, Client, NotFound
from mooring.kube.api_resources import custom_resource, plural_of

T = TypeVar("T")
#: Job plugins by name.
JobPluginClasses = Mapping[str, type[JobPlugin[Any]]]

_OBJECT_METHODS: Final = ("objects", "updated_objects")
#: How long a user's plugin may run.
_SECONDS: Final = 10.0
_FLAG: Final = re.compile(r"--?([^-=][^=]*)(?:=(.*))?", re.DOTALL)
#: The texts that Go accepts as a boolean.
_TRUE: Final = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE: Final = frozenset(("0", "f", "F", "FALSE", "false", "False"))


def owner_of(job: VolcanoJob) -> Document:
    """Return the owner reference of objects that are created for a job."""
    return {
        "apiVersion": JOB_VERSION,
        "kind": "Job",
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


class JobPluginFaultError(JobPluginError):
    """A plugin failed: it raised an exception, did not return, or returned something invalid."""


class JobPlugins:
    """The plugins of one job, in the order in which they change pods."""

    def __init__(self, job: VolcanoJob, classes: JobPluginClasses = PLUGINS) -> None:
        """Raises JobPluginError if a plugin does not exist or an argument is invalid."""
        self._job = job
        #: Messages about unknown arguments of built-in plugins, which have no effect, as in Volcano.
        self.ignored: list[str] = []
        found = [
            (name, _create(name, arguments, classes, self.ignored)) for name, arguments in job.spec.plugins.items()
        ]
        self._plugins: Sequence[tuple[str, JobPlugin[Any]]] = sorted(found, key=lambda each: each[1].order)
        self._trusted = all(type(plugin) is PLUGINS.get(name) for name, plugin in self._plugins)

    def change(self, task: TaskSpec, index: int, pod: Document) -> None:
        """Change the manifest of a pod. Raises JobPluginError."""
        for name, plugin in self._plugins:
            if (method := getattr(plugin, "on_pod_create", None)) is not None:
                _contained(name, functools.partial(method, self._job, task, index, pod))

    async def run(self, function: Callable[[], T]) -> T:
        """Call a function that calls the plugins; on a thread if there are users' plugins. Raises JobPluginError."""
        if self._trusted:
            return function()
        try:
            return await asyncio.wait_for(asyncio.to_thread(function), _SECONDS)
        except TimeoutError:
            names = ", ".join(name for name, plugin in self._plugins if type(plugin) is not PLUGINS.get(name))
            raise JobPluginFaultError(f"plugins {names} did not return within {_SECONDS:g} s") from None

    # Objects

    async def begin(self, client: Client) -> None:
        """Create missing objects and update the others. Raises JobPluginError.

        Objects of plugins that the status names as controlled exist already.
        """
        for name, plugin in self._plugins:
            if f"plugin-{name}" not in self._job.status.controlled_resources:
                for each in await self._objects(name, plugin, "objects"):
                    # The content may be expensive.
                    document = await asyncio.to_thread(_contained, name, functools.partial(self._document, name, each))
                    await self._create(client, document)
            for each in await self._objects(name, plugin, "updated_objects"):
                document = self._document(name, each)
                if not await self._create(client, document):
                    await self._update(client, document)

    async def end(self, client: Client) -> None:
        """Delete the objects, because the pods are being deleted. Objects of others are kept. Raises JobPluginError."""
        for name, plugin in self._plugins:
            for method in _OBJECT_METHODS:
                for each in await self._objects(name, plugin, method):
                    await self._delete(client, self._path(name, each))

    async def _objects(self, name: str, plugin: JobPlugin[Any], method: str) -> list[Document | JobObject]:
        return await self.run(lambda: self._listed(name, plugin, method))

    def _listed(self, name: str, plugin: JobPlugin[Any], method: str) -> list[Document | JobObject]:
        function = getattr(plugin, method, None)
        found = [] if function is None else _contained(name, lambda: list(function(self._job) or ()))
        for each in found:
            _identity(name, each)
        return found

    def documents(self) -> list[Document]:
        """Return the manifests of all objects, without writing them. Raises JobPluginError."""
        return [
            _contained(name, functools.partial(self._document, name, each))
            for name, plugin in self._plugins
            for method in _OBJECT_METHODS
            for each in self._listed(name, plugin, method)
        ]

    def _document(self, name: str, item: Document | JobObject) -> Document:
        api_version, kind, own = _identity(name, item)
        content = item.content() if isinstance(item, JobObject) else item
        metadata = {
            **(content.get("metadata") or {}),
            "name": own,
            "namespace": self._job.namespace,
            "ownerReferences": [owner_of(self._job)],
        }
        return {**content, "apiVersion": api_version, "kind": kind, "metadata": metadata}

    def _path(self, name: str, item: Document | JobObject) -> str:
        api_version, kind, own = _identity(name, item)
        return _path(api_version, kind, namespace=self._job.namespace, name=own)

    async def _create(self, client: Client, document: Document) -> bool:
        """Create an object. Return False if it exists."""
        path = _path(document["apiVersion"], document["kind"], namespace=self._job.namespace)
        try:
            await client.send("POST", path, document)
        except AlreadyExists:
            return False
        return True

    async def _update(self, client: Client, document: Document) -> None:
        path = self._path("", document)
        found = await client.send("GET", path)
        if not self._owns(found):
            own = f"{document['kind']} {document['metadata']['name']}"
            raise JobPluginError(f"{own} exists and does not belong to the job; delete it, or rename the job")
        patch = {key: value for key, value in document.items() if key not in ("apiVersion", "kind", "metadata")}
        await client.send("PATCH", path, patch, type="application/merge-patch+json")

    async def _delete(self, client: Client, path: str) -> None:
        try:
            found = await client.send("GET", path)
            if self._owns(found):
                await client.send("DELETE", path, {"preconditions": {"uid": found["metadata"]["uid"]}})
        except NotFound:
            return

    def _owns(self, found: Document) -> bool:
        owners = found["metadata"].get("ownerReferences") or ()
        return any(each.get("uid") == self._job.uid for each in owners)


def _path(api_version: str, kind: str, *, namespace: str, name: str = "") -> str:
    group, _, version = api_version.rpartition("/")
    plural = plural_of(kind)
    place = custom_resource(VolcanoJob, group=group, version=version, kind=kind, plural=plural, namespaced=True)
    return place.path(namespace=namespace, name=name)


def _identity(plugin: str, item: object) -> tuple[str, str, str]:
    """Return the API version, kind and name of an object that a plugin returned. Raises JobPluginError."""
    found: list[Any] = []
    if isinstance(item, JobObject):
        found = [item.api_version, item.kind, item.name]
    elif isinstance(item, dict):
        found = [item.get("apiVersion"), item.get("kind"), (item.get("metadata") or {}).get("name")]
    if not found or not all(isinstance(each, str) and each for each in found):
        raise JobPluginFaultError(f"plugin {plugin} returned an object without apiVersion, kind or metadata.name")
    return found[0], found[1], found[2]


def _contained(name: str, call: Callable[[], T]) -> T:
    """Call a plugin. Raises JobPluginError if it raises anything."""
    try:
        return call()
    except JobPluginFaultError:
        raise
    except JobPluginError as error:
        raise JobPluginError(f"plugin {name}: {error}") from None
    except BaseException as error:
        contain(error)
        raise JobPluginFaultError(f"plugin {name} failed: {failure_text(error)}") from error


# Arguments


def required_plugins(plugins: Iterable[str], classes: JobPluginClasses = PLUGINS) -> list[str]:
    """Return the plugins that some plugins require besides themselves."""
    given, found = list(plugins), dict[str, None]()
    left = list(given)
    while left:
        cls = classes.get(left.pop(0))
        new = [each for each in (cls.needs if cls is not None else ()) if each not in given and each not in found]
        found |= dict.fromkeys(new)
        left += new
    return list(found)


def _create(name: str, arguments: Sequence[str], classes: JobPluginClasses, ignored: list[str]) -> JobPlugin[Any]:
    cls = classes.get(name)
    if cls is None:
        raise JobPluginError(f"unable to find job plugin: {name}")
    lenient = ignored if PLUGINS.get(name) is cls else None
    args = parse_flags(name, arguments, cls.Args, lenient) if cls.Args is not None else tuple(arguments)
    plugin = _contained(name, cls)
    plugin.args = args
    return plugin


def parse_flags(plugin: str, arguments: Sequence[str], declared: type, ignored: list[str] | None = None) -> Any:
    """Parse arguments as Go's package flag does: `-name value`, `--name=value`, `--name` for a boolean.

    Unlike there, an invalid argument is an error; unknown ones are reported in ``ignored``, if that is given.
    Raises JobPluginError.
    """
    hints = get_type_hints(declared)
    fields = {spelling: field for field in hints for spelling in (_kebab(field), _camel(field), field)}
    values: dict[str, Any] = {field: getattr(declared, field) for field in hints if hasattr(declared, field)}
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        match = _FLAG.fullmatch(argument)
        field = fields.get(match[1]) if match is not None else None
        if match is None or field is None:
            known = [_kebab(each) for each in hints]
            close = nearest(match[1] if match is not None else argument, known)
            hint = f"; did you mean --{close}?" if close else f"; it has {', '.join(f'--{each}' for each in known)}"
            problem = f"plugin {plugin}: unknown argument {argument!r}{hint if hints else ''}"
            if ignored is None:
                raise JobPluginError(problem)
            ignored.append(problem)
            continue
        text = match[2]
        if text is None:
            text = "true" if hints[field] is bool else rest.pop(0) if rest else None
        if text is None:
            raise JobPluginError(f"plugin {plugin}: argument {argument!r} needs a value")
        values[field] = _value(plugin, argument, text, hints[field])
    missing = [_kebab(field) for field in hints if field not in values]
    if missing:
        raise JobPluginError(f"plugin {plugin}: argument --{missing[0]} is missing")
    return _args_struct(declared)(**values)


@functools.lru_cache(maxsize=256)
def _args_struct(declared: type) -> type[msgspec.Struct]:
    return msgspec.defstruct(declared.__name__, list(get_type_hints(declared).items()), frozen=True)


def _value(plugin: str, argument: str, text: str, hint: type) -> Any:
    if hint is bool:
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
        raise JobPluginError(f"plugin {plugin}: argument {argument!r} must be true or false")
    if hint is int:
        try:
            return int(text, 0)
        except ValueError:
            raise JobPluginError(f"plugin {plugin}: argument {argument!r} must be an integer") from None
    return text


def _kebab(field: str) -> str:
    return field.replace("_", "-")


def _camel(field: str) -> str:
    first, *others = field.split("_")
    return first + "".join(each.capitalize() for each in others)
