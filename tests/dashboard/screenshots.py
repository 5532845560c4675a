"""`make screenshots`: take the screenshots of the dashboard in docs/images, in Chromium, from a generated cluster."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
from playwright.sync_api import sync_playwright

from mooring.api.meta import KubeObject, ObjectMeta
from mooring.api.volcano import GROUP_ANNOTATION, PodGroup, PodGroupSpec, Queue, QueueSpec, QueueStatus
from mooring.config import default_config
from mooring.dashboard.what_if_worker import WhatIfWorker
from mooring.live.informers import KINDS
from mooring.loading import Catalog, Setup
from mooring.scheduler.engine import Engine
from mooring.testing import make_node, make_pod
from scripts.site_screenshots import chromium
from tests.dashboard.scene import Served, engine_with

IMAGES = Path(__file__).parents[2] / "docs" / "images"
_TYPE = "node.kubernetes.io/instance-type"
#: Pool, cores and GiB of its nodes.
_POOLS = (("general", 16, 64), ("memory", 16, 256), ("gpu", 64, 512))
_APPS = ("web", "cart", "checkout", "search", "cache", "billing", "mail")
#: Image -> (view, what must be visible, width, colours).
SHOTS = {
    "dashboard-cluster": ("cluster", "canvas", 1280, "light"),
    "dashboard-queue": ("queue", "td", 1280, "light"),
    "dashboard-pod": ("pod/shop%2Fcheckout-3", "#matrix tbody td", 1280, "light"),
    "dashboard-pending": ("pod/ml%2Ffinetune-0", ".fixes", 1280, "dark"),
    "dashboard-dark": ("cluster/gpu-039", "#node", 1280, "dark"),
    "dashboard-what-if": ("what-if", "form.card", 1280, "light"),
    "dashboard-phone": ("cluster", "canvas", 390, "light"),
}


def objects() -> list[KubeObject]:
    """Nodes of three pools in three zones with running pods, gangs and queues, and new pods, of which some wait."""
    rng = random.Random(1)
    found: list[KubeObject] = []
    for number in range(300):
        pool, cpu, memory = _POOLS[min(number % 10, 7) // 3 if number % 10 < 9 else 2]
        node = make_node(name := f"{pool}-{number:03}").zone(f"eu-west-1{'abc'[number % 3]}").condition("Ready", "True")
        node = node.label({"pool": pool, "rack": f"rack-{number % 12:02}", _TYPE: f"{pool}.{cpu}"})
        amounts: dict[str, int | str] = {"cpu": cpu, "memory": f"{memory}Gi", "pods": 110}
        if pool == "gpu":
            amounts["nvidia.com/gpu"] = 8
            node = node.taint("nvidia.com/gpu", "present")
        if number % 41 == 5:
            node = node.unschedulable()
        found.append(node.capacity(amounts).obj())
        share = rng.betavariate(5, 2) if number % 17 else 0.98
        for place, app in enumerate(rng.sample(_APPS, 3)):
            made = make_pod(f"{app}-{number:03}{place}", "shop").label(app=app).owner("ReplicaSet", app).node(name)
            amount = {"cpu": f"{int(4 * cpu * share / 3) * 250}m", "memory": f"{int(memory * share / 4)}Gi"}
            found.append(made.req(amount).phase("Running").obj())
        if pool == "gpu":
            used = 8 if number % 4 else 4
            trains = make_pod(f"train-{number}", "ml").owner("Job", "train").node(name).phase("Running")
            found.append(trains.req({"nvidia.com/gpu": used, "cpu": "1"}).guaranteed().obj())
    return found


def arrivals() -> list[KubeObject]:
    """New pods: some are placed, others wait for various reasons."""
    new = [make_pod(f"checkout-{number}", "shop").owner("ReplicaSet", "checkout") for number in range(40)]
    placed = [each.req(cpu="1500m", memory="3Gi").preferred_node_affinity_in(1, "pool", ["general"]) for each in new]
    large = [make_pod(f"render-{number}", "batch").owner("Job", "render").req(cpu="48") for number in range(14)]
    tuning = [make_pod(f"finetune-{number}", "ml").owner("Job", "finetune") for number in range(5)]
    train = [each.node_selector({"pool": "gpu"}).toleration("nvidia.com/gpu") for each in tuning]
    train = [each.req({"nvidia.com/gpu": 8, "cpu": "4"}).guaranteed() for each in train]
    typed = [make_pod(f"search-{number}", "shop").node_selector({"disk": "nvme"}).req(cpu="1") for number in range(3)]
    gated = [make_pod(f"report-{number}", "batch").gate("example.com/quota").req(cpu="1") for number in range(3)]
    return [each.obj() for each in (*placed, *large, *train, *typed, *gated)]


def queues(engine: Engine) -> None:
    """Queues and gangs of batch sessions."""
    objects = engine.cache.objects
    for name, weight, cpu in (("research", 3, "4100"), ("serving", 2, "2300"), ("batch", 1, "640")):
        status = QueueStatus(state="Open", allocated={"cpu": cpu})
        objects.put(Queue(metadata=ObjectMeta(name=name), spec=QueueSpec(weight=weight), status=status))
    for name, queue, size, there, cpu in (
        ("llm-70b", "research", 16, 16, "4096"),
        ("eval-nightly", "batch", 8, 3, "16"),
    ):
        spec = PodGroupSpec(min_member=size, queue=queue, min_resources={"cpu": cpu})
        objects.put(PodGroup(metadata=ObjectMeta(name=name, namespace="ml"), spec=spec))
        for number in range(there):
            member = make_pod(f"{name}-{number}", "ml").scheduler("volcano").annotation({GROUP_ANNOTATION: name})
            engine.put(member.req(cpu="32").obj())


def scene() -> Engine:
    """The cluster of the screenshots. The pods that were placed are bound."""
    engine = engine_with(objects(), arrivals())
    queues(engine)
    for uid in sorted(engine.cache.table.assumed):
        info = engine.cache.table.pods[uid]
        assert info.node is not None
        spec = msgspec.structs.replace(info.pod.spec, node_name=info.node.name)
        engine.put(msgspec.structs.replace(info.pod, spec=spec))
    return engine


def main() -> None:
    engine = scene()
    worker = WhatIfWorker(lambda: Setup(default_config(), Catalog()))
    with (
        Served(engine, what_if=worker.answer, kinds=lambda: KINDS, gangs=object()) as served,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        for name, (view, wanted, width, colours) in SHOTS.items():
            size = {"width": width, "height": 844 if width < 600 else 780}
            context = browser.new_context(viewport=size, color_scheme=colours)
            page = context.new_page()
            page.goto(served.link())
            page.wait_for_selector("canvas")
            page.evaluate("hash => { location.hash = hash }", f"#/{view}")
            page.wait_for_selector(wanted)
            page.wait_for_selector("#live[data-state=live]")
            if view == "what-if":
                page.fill("#what-if-addNodes", "gpu.64=2")
                page.fill("#what-if-drain", "general-000")
                page.get_by_role("button", name="Show what would happen").click()
                page.wait_for_selector("#what-if-result table")
                page.evaluate("scrollTo(0, 0)")  # the form is shown too
            page.wait_for_function("!document.querySelector('[aria-busy]')")
            page.screenshot(path=str(IMAGES / f"{name}-{width}.png"), animations="disabled")
            context.close()
            print(f"{name}-{width}.png")
        browser.close()


if __name__ == "__main__":
    main()
