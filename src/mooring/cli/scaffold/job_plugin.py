"""Templates of a job plugin: its module, its test and a job that uses it."""

from __future__ import annotations

import re
from typing import Final

from mooring.cli.scaffold.pod_plugin import snake

_PLUGIN: Final = '''\
"""NAME: one line about its purpose."""

from collections.abc import Iterable

from mooring.api.volcano_jobs import TaskSpec, VolcanoJob
from mooring.framework import JobPlugin
from mooring.framework.job_plugin import Document, hosts_of, set_env


class NAMEArgs:
    # A job sets it with  plugins: {KEBAB: ["--team=platform"]}
    team: str = "research"


class NAME(JobPlugin[NAMEArgs]):
    """Describe here what the plugin does, for its users."""

    name = "KEBAB"
    # The plugin svc gives the pods host names.
    needs = ("svc",)

    def on_pod_create(self, job: VolcanoJob, task: TaskSpec, index: int, pod: Document) -> None:
        # Change the manifest of a pod before it is created.
        set_env(pod, TEAM=self.args.team, RANK=str(index))

    def updated_objects(self, job: VolcanoJob) -> Iterable[Document]:
        # These objects are created before the pods, updated with the job, and deleted when it stops.
        hosts = "\\n".join(host for task in job.spec.tasks for host in hosts_of(job, task))
        name = f"{job.name}-KEBAB"
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"hosts": hosts}}
'''
_TEST: Final = """\
from pathlib import Path

from mooring.controllers.jobs import run_job_plugin

HERE = Path(__file__).parent


def test_pods_and_objects() -> None:
    made = run_job_plugin(HERE / "SNAKE.py", HERE / "job.yaml")
    container = made.pods["example-worker-1"]["spec"]["containers"][0]
    variables = {each["name"]: each.get("value") for each in container["env"]}
    assert variables["TEAM"] == "platform"
    assert variables["RANK"] == "1"
    (hosts,) = [each for each in made.objects if each["metadata"]["name"] == "example-KEBAB"]
    assert hosts["data"]["hosts"] == "example-worker-0.example\\nexample-worker-1.example"
"""
_JOB: Final = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: example
spec:
  minAvailable: 2
  plugins:
    KEBAB: ["--team=platform"]
  tasks:
  - name: worker
    replicas: 2
    template:
      spec:
        containers:
        - name: worker
          image: busybox
          command: ["sh", "-c", "env; sleep 10"]
"""


def job_files(name: str) -> dict[str, str]:
    """Return the contents of the files by name."""
    file = snake(name)

    def named(text: str) -> str:
        text = text.replace("KEBAB", file.replace("_", "-")).replace("SNAKE", file)
        return re.sub(r"\bNAME(?=\b|Args\b)", name, text)

    texts = {f"{file}.py": _PLUGIN, f"test_{file}.py": _TEST, "job.yaml": _JOB}
    return {path: named(text) for path, text in texts.items()}
