"""`make screenshots`: take the screenshots of the dashboard in docs/images, in Chromium, from a generated cluster."""

from __future__ import annotations

import random
from pathlib import Path

from playwright.sync_api import sync_playwright

from mooring.api.meta import KubeObject
from mooring.config import default_config
from mooring.dashboard.what_if_worker import WhatIfWorker
from mooring.live.informers import KINDS
from mooring.loading import Catalog, Setup
from mooring.testing import make_node, make_pod
from scripts.site_screenshots import chromium
from tests.dashboard.scene import Served, engine_with

IMAGES = Path(__file__).parents[2] / "docs" / "images"
#: Image -> (view, what must be visible, width, colours).
SHOTS = {
    "dashboard-cluster": ("cluster", "canvas", 1280, "light"),
    "dashboard-queue": ("queue", "td", 1280, "light"),
    "dashboard-pod": ("pod/shop%2Fcheckout-3", "#matrix tbody td", 1280, "light"),
    "dashboard-dark": ("cluster/node-042", "#node", 1280, "dark"),
    "dashboard-phone": ("cluster", "canvas", 390, "light"),
}


def objects() -> list[KubeObject]:
    """Nodes of three types in three zones, and workloads; some pods cannot be placed."""
    rng = random.Random(1)
    found: list[KubeObject] = []
    for number in range(300):
        node = (
            make_node(f"node-{number:03}")
            .zone(f"eu-west-1{'abc'[number % 3]}")
            .label(disk="ssd" if number % 4 else "nvme")
        )
        size = rng.choice((8, 8, 16, 32))
        node = node.capacity({"cpu": size, "memory": f"{4 * size}Gi", "pods": 110})
        node = node.condition("Ready", "True")
        if number % 31 == 5:
            node = node.unschedulable()
        if number % 29 == 7:
            node = node.taint("dedicated", "gpu")
        found.append(node.obj())
    for app, count, cpu in (("web", 220, "2"), ("checkout", 120, "3"), ("search", 160, "4"), ("cache", 150, "1500m")):
        for number in range(count):
            made = (
                make_pod(f"{app}-{number}", "shop").label(app=app).owner("ReplicaSet", app).req(cpu=cpu, memory="3Gi")
            )
            found.append(made.preferred_node_affinity_in(1, "disk", ["nvme"]).obj())
    large = [make_pod(f"render-{number}", "batch").owner("Job", "render").req(cpu="48").obj() for number in range(14)]
    picky = [make_pod(f"train-{number}", "ml").node_selector({"gpu": "a100"}).req(cpu="4").obj() for number in range(5)]
    gated = [make_pod(f"report-{number}", "batch").gate("example.com/quota").req(cpu="1").obj() for number in range(3)]
    return [*found, *large, *picky, *gated]


def main() -> None:
    engine = engine_with(objects())
    worker = WhatIfWorker(lambda: Setup(default_config(), Catalog()))
    with Served(engine, what_if=worker.answer, kinds=lambda: KINDS) as served, sync_playwright() as playwright:
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
            page.wait_for_function("!document.querySelector('[aria-busy]')")
            page.screenshot(path=str(IMAGES / f"{name}-{width}.png"), animations="disabled")
            context.close()
            print(f"{name}-{width}.png")
        browser.close()


if __name__ == "__main__":
    main()
