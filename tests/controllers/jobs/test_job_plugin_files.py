"""Users' job plugins: a file in a folder, checked by a dry run, used by jobs, and reloaded when it changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mooring.controllers.jobs.job_plugin_files import JobPluginFiles, dry_run_job
from mooring.loading import PluginLoadError, Requested
from mooring.loading.plugin_files import load_file
from tests.controllers.world import GROUPS, JOBS, PODS, World, controllers
from tests.waiting import until

SOURCE = """
from mooring.framework import JobObject, JobPlugin
from mooring.framework.job_plugin import set_env


class TeamArgs:
    team: str = "research"


class Team(JobPlugin[TeamArgs]):
    def on_pod_create(self, job, task, index, pod):
        set_env(pod, TEAM=self.args.team, VERSION="1")

    def objects(self, job):
        yield JobObject("v1", "Secret", f"{job.name}-team", lambda: {"stringData": {"team": self.args.team}})

    def updated_objects(self, job):
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{job.name}-team"}, "data": {"a": "b"}}
"""


async def submit(world: World, name: str, **plugins: list[str]) -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0}}
    tasks = [{"name": "t", "replicas": 1, "template": template}]
    head = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}}
    await world.post(JOBS, **head, spec={"tasks": tasks, "plugins": plugins})


async def admitted(world: World, name: str) -> dict[str, str]:
    """Admit the job, as a scheduler does, and return the environment of its pod."""

    async def group() -> str:
        found = [each["metadata"]["name"] for each in await world.items(GROUPS)]
        return next((each for each in found if each.startswith(f"{name}-")), "")

    await world.merge(f"{GROUPS}/{await until(group)}", {"status": {"phase": "Inqueue"}})
    pod = await until(lambda: world.get(f"{PODS}/{name}-t-0"))
    return {each["name"]: each.get("value", "") for each in pod["spec"]["containers"][0]["env"]}


async def test_a_plugin_is_used_and_reloaded_and_cleans_up(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "team.py").write_text(SOURCE)
    core = "/api/v1/namespaces/default"
    async with controllers(world, job_plugins=Requested(directories=(folder,))):
        await submit(world, "first", team=["--team=ops"], ssh=[])
        assert await admitted(world, "first") == {"TEAM": "ops", "VERSION": "1"}
        secret = await world.get(f"{core}/secrets/first-team")
        assert secret["metadata"]["ownerReferences"][0]["name"] == "first"
        assert set((await world.get(f"{core}/secrets/first-ssh"))["data"]) == {
            "id_rsa", "id_rsa.pub", "authorized_keys", "config",
        }  # fmt: skip
        (folder / "team.py").write_text(SOURCE.replace('VERSION="1"', 'VERSION="2"'))

        async def renewed() -> bool:
            number = len(await world.items(JOBS))
            await submit(world, f"next-{number}", team=[])
            return (await admitted(world, f"next-{number}"))["VERSION"] == "2"

        await until(renewed)
        await world.command("AbortJob", f"{JOBS}/first")

        async def gone() -> bool:
            left = [f"{core}/secrets/first-team", f"{core}/secrets/first-ssh", f"{core}/configmaps/first-team"]
            return [await world.get(each) for each in left] == [None, None, None]

        await until(gone)


async def test_objects_of_others_are_neither_changed_nor_deleted(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "team.py").write_text(SOURCE)
    core = "/api/v1/namespaces/default"
    foreign = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "j-team"}, "data": {"mine": "1"}}
    await world.post(f"{core}/configmaps", **foreign)
    async with controllers(world, job_plugins=Requested(directories=(folder,))):
        await submit(world, "j", team=[])

        async def refused() -> bool:
            events = await world.items("/api/v1/events")
            text = "ConfigMap j-team exists and does not belong to the job; delete it, or rename the job"
            return any(each.get("message") == text for each in events)

        await until(refused)
        await world.command("AbortJob", f"{JOBS}/j")
        await until(lambda: world.get(f"{JOBS}/j"))
    assert (await world.get(f"{core}/configmaps/j-team"))["data"] == {"mine": "1"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("set_env(pod, TEAM", "undefined(pod, TEAM"), "plugin team failed: .*NameError"),
        (("def on_pod_create(self, job, task, index, pod)", "def on_pod_create(self, job, pod)"), "write 'def on_pod"),
        (("def updated_objects", "def update_objects"), "'update_objects' is never called; did you mean"),
        (("class Team(", "class Svc("), "a plugin svc is built in"),
    ],
)
def test_a_wrong_plugin_is_not_loaded(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    (tmp_path / "team.py").write_text(SOURCE.replace(*change))
    with pytest.raises(PluginLoadError, match=message):
        JobPluginFiles(Requested(directories=(tmp_path,))).load()


def test_the_dry_run_calls_the_plugin(tmp_path: Path) -> None:
    (tmp_path / "team.py").write_text(SOURCE)
    (found,) = load_file(tmp_path / "team.py", "test")
    result: Any = dry_run_job(found, (), 10.0)
    assert (result.faults, result.called) == ((), ("objects", "on_pod_create", "updated_objects"))
    assert "unknown argument" in dry_run_job(found, ("--no",), 10.0).reason
