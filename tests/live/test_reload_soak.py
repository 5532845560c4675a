"""Hundreds of reloads while pods are placed: nothing of the old versions stays behind."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import types
import weakref
from pathlib import Path

from mooring import Scheduler
from mooring.cluster import EmbeddedCluster
from mooring.cluster.request_context import system_context
from tests.loading.builders import loaded_modules

RELOADS = 400
#: Listens, reads objects, keeps a task and state: everything that could hold on to an old version.
TEXT = """\
import asyncio
from mooring.api import Service
from mooring.framework import Plugin

class Even(Plugin):
    keep = ("seen",)
    volumes_only = False

    class Args:
        number: int = {number}

    def setup(self):
        self.seen = []
        self.handle.listen(self)
        self.handle.lister(Service).listen(lambda old, new: None)

    def pod_added(self, info, row): ...
    def pod_removed(self, info, row): ...

    async def run(self):
        await asyncio.Event().wait()

    def filter(self, state, pod, node):
        return None

    def score(self, state, pod, node):
        return self.args.number % 100
"""


#: The embedded cluster lives in the same process, and keeps a history and events: what it is made of does not count.
CODE = (types.FunctionType, types.MethodType, types.ModuleType, types.CellType, type, asyncio.Task)
OURS = ("mooring.scheduler", "mooring.framework", "mooring.loading", "mooring_plugins")


def counts() -> dict[str, int]:
    gc.collect()
    objects = gc.get_objects()
    return {
        "objects": sum(isinstance(each, CODE) or type(each).__module__.startswith(OURS) for each in objects),
        "modules": len(sys.modules),
        "threads": threading.active_count(),
        "loaded": len(loaded_modules()),
    }


async def test_many_reloads_under_load_leave_nothing_behind(tmp_path: Path) -> None:
    cluster = EmbeddedCluster(controllers=False)
    await cluster.start()
    cluster.add_nodes(5)
    (tmp_path / "kubeconfig").write_text(cluster.kubeconfig())
    file = tmp_path / "even.py"
    file.write_text(TEXT.format(number=0))
    scheduler = Scheduler(
        kubeconfig=tmp_path / "kubeconfig", custom_plugin_files={"Even": file}, leader_elect=False, reload=True
    )
    pods, call = cluster.api.mapper.of("pods"), system_context()
    placed = 0

    async def load() -> None:
        """Pods come, get a node, and go."""
        nonlocal placed
        while True:
            name = f"p{placed}"
            pod = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
            cluster.api.registry.create(pods, "default", {"apiVersion": "v1", "kind": "Pod", **pod}, call)
            while not cluster.store.get("pods", "default", name).document["spec"].get("nodeName"):
                await asyncio.sleep(0.005)
            cluster.store.remove("pods", "default", name)
            placed += 1
            await asyncio.sleep(0.02)

    async with scheduler:
        await scheduler.ready()
        live = scheduler._live
        reloader, engine = live.reloader, live.engine
        live._file_watch._watched.clear()  # we say ourselves when the file has changed
        busy = asyncio.create_task(load())
        old: list[weakref.ref[object]] = []
        before: dict[str, int] = {}
        for number in range(1, RELOADS + 1):
            file.write_text(TEXT.format(number=number))
            plugin = engine.profiles.first.profile.plugins["Even"]
            old += [weakref.ref(plugin), weakref.ref(type(plugin)), weakref.ref(sys.modules[type(plugin).__module__])]
            del plugin
            await reloader.reload()
            assert engine.profiles.first.profile.plugins["Even"].args.number == number
            if number == RELOADS // 5:
                before = counts()
        after = counts()
        busy.cancel()
        assert reloader.state.reloads >= RELOADS  # the watch of files may have begun one, too
        assert placed > 50
        assert sum(each() is not None for each in old) <= 3 * 3  # attempts under way hold the last ones
        assert after["objects"] < before["objects"] + 500  # a leak would make dozens each time
        assert after["threads"] < before["threads"] + 8  # the loop's own pool may still grow
        assert after | {"objects": 0, "threads": 0} == before | {"objects": 0, "threads": 0}
        assert len(engine.cache.table._listeners) <= 3
    await cluster.stop()
