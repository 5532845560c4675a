"""The dashboard in Chromium: every view, live updates, 5,000 nodes, rights, hostile names, narrow windows."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from mooring.api.meta import ObjectMeta
from mooring.api.volcano import GROUP_ANNOTATION, PodGroup, PodGroupSpec, Queue, QueueStatus
from mooring.live.endpoints.endpoint_auth import EndpointAuth
from mooring.testing import make_node, make_pod
from scripts.site_screenshots import chromium
from tests.dashboard.scene import Served, engine_with, mixed, nodes, schedule
from tests.e2e.controlplane.parts import binary
from tests.e2e.mooring_process import MOORING
from tests.live.endpoints.serving import Cluster

VIEWS = {
    "cluster": "canvas",
    "queue": "button.tile",
    "pod": "#pod-search",
    "plugins": "td",
    "configuration": "pre",
    "what-if": "form.card",
}
IMG = "<img src=x onerror=window.hacked=1>"
HOSTILE = (IMG, f"x{'y' * 3000}", "safe-\u202egnp.exe", "<script>window.hacked=1</script>", "' onmouseover='hacked=1")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield found
        found.close()


@contextmanager
def opened(browser: Browser, width: int = 1280, **options: Any) -> Iterator[Page]:
    """A page; errors in its console and requests to other servers fail the test."""
    context = browser.new_context(ignore_https_errors=True, viewport={"width": width, "height": 800}, **options)
    page = context.new_page()
    page.set_default_timeout(20_000)
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if "Security" in message.text else None)
    page.on("dialog", lambda dialog: problems.append(dialog.message))
    page.on("request", lambda request: problems.append(request.url) if "127.0.0.1" not in request.url else None)
    yield page
    context.close()
    assert problems == []


def go(page: Page, view: str, wanted: str = "") -> None:
    page.evaluate("hash => { location.hash = hash }", f"#/{view}")
    page.wait_for_selector(wanted or VIEWS[view])


def test_every_view_of_mooring_up_and_its_live_updates(browser: Browser, built: None, tmp_path: Path) -> None:
    kubeconfig, log = tmp_path / "kubeconfig", tmp_path / "log"
    command = [str(MOORING), "up", "--nodes", "9", "--kubeconfig-out", str(kubeconfig)]
    with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as process:
        try:
            link = _printed(log)
            with opened(browser) as page:
                page.goto(link)
                expect(page.locator("canvas")).to_have_attribute("aria-label", re.compile("^9 nodes"))
                assert "token" not in page.url
                expect(page.locator("#live")).to_have_text("live")
                _kubectl(kubeconfig, "create", "deployment", "shop", "--image=nginx", "--replicas=7")
                expect(page.locator(".tile", has_text="pods on nodes")).to_contain_text("7")
                big = '{"spec":{"containers":[{"name":"c","image":"x","resources":{"requests":{"cpu":"900"}}}]}}'
                _kubectl(kubeconfig, "run", "giant", "--image=x", "--overrides", big)
                go(page, "queue")
                expect(page.locator("main")).to_contain_text("Insufficient cpu")
                page.get_by_role("link", name="default/giant").first.click()
                expect(page.locator("#matrix")).to_contain_text("✗ Insufficient cpu")
                expect(page.locator(".causes li").first).to_contain_text("Insufficient cpu9 of 9 nodes")
                expect(page.locator(".fixes")).to_contain_text("Reduce the request for cpu")
                expect(page.locator(".timeline")).to_contain_text("Attempt 1: unschedulable")
                go(page, "plugins")
                expect(page.locator("main")).to_contain_text("NodeResourcesBalancedAllocation")
                go(page, "configuration")
                expect(page.locator("pre")).to_contain_text("default-scheduler")
                go(page, "what-if")
                page.fill("#what-if-drain", "node-0")
                page.get_by_role("button", name="Show what would happen").click()
                expect(page.locator("#what-if-result")).to_contain_text("Pods on nodes")
                page.get_by_role("button", name="Add two nodes like").click()
                expect(page.locator("#what-if-drain")).to_have_value("")
                expect(page.locator("#what-if-result tbody tr").first).to_contain_text("+2")
                page.get_by_role("button", name="How many pods with 1 CPU fit?").click()
                expect(page.locator("#what-if-result h2")).to_contain_text("copies fit")
                cookies = page.context.cookies()
                assert [(each["httpOnly"], each["secure"], each["sameSite"]) for each in cookies] == [
                    (True, True, "Strict")
                ]
            with opened(browser) as page:  # the link has been used
                page.goto(link)
                expect(page.locator(".problem")).to_contain_text("used before")
        finally:
            process.terminate()
            process.wait(20)


def _printed(log: Path) -> str:
    """The link, once the scheduler runs."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        text = log.read_text()
        found = re.search(r"https://\S+/dashboard\?token=\S+", text)
        if found and '"Scheduling"' in text:
            return found[0]
        time.sleep(0.05)
    raise AssertionError(log.read_text())


def _kubectl(kubeconfig: Path, *arguments: str) -> None:
    command = [str(binary("kubectl")), "--kubeconfig", str(kubeconfig), *arguments]
    subprocess.run(command, check=True, capture_output=True, timeout=30)


def test_five_thousand_nodes_and_fifty_thousand_pods(browser: Browser) -> None:
    small = [make_pod(f"small-{number}").req(cpu="10m").node(f"node-{number % 5000}").obj() for number in range(50_000)]
    engine = engine_with(nodes(5000), small)
    with Served(engine) as served, opened(browser) as page:
        page.goto(served.link())
        canvas = page.locator("canvas")
        expect(canvas).to_have_attribute("aria-label", re.compile("^5,000 nodes"))
        expect(canvas).not_to_have_js_property("height", 150)
        before = canvas.evaluate("canvas => canvas.toDataURL()")

        def place() -> None:
            for number in range(400):
                engine.put(make_pod(f"web-{number}").req(cpu="7").obj())
            schedule(engine)

        served.change(place)
        expect(page.locator(".tile", has_text="pods on nodes")).to_contain_text("50,400")
        page.wait_for_function("before => document.querySelector('canvas').toDataURL() !== before", arg=before)
        canvas.focus()
        for key in ("ArrowRight", "ArrowRight", "Enter"):
            page.keyboard.press(key)
        expect(page.locator("#node h2")).to_have_text("node-3")  # the second node of the first zone
        expect(page.locator("#node")).to_contain_text("default/small-45003")
        canvas.click(position={"x": 3, "y": 25})  # the first node, below the title of its zone
        expect(page.locator("#node h2")).to_have_text("node-0")
        expect(page.locator("#node")).to_contain_text("default/small-45000")
        page.select_option("#field-group-by", label="nothing")
        expect(page.locator("#field-group-by")).to_have_value("(none)")  # also after the nodes are loaded again
        expect(canvas).to_have_attribute("aria-label", re.compile("usage of cpu"))
        page.select_option("#field-colour-by", label="score of a pod…")
        page.fill("#score-pod", "default/web-0")
        page.keyboard.press("Enter")
        expect(canvas).to_have_attribute("aria-label", re.compile("score of .total. for pod default/web-0"))
        page.select_option("#field-plugin", "NodeResourcesFit")
        expect(page.locator(".legend")).to_contain_text("rejected (399)")  # its own node has room without it
        go(page, "pod/default%2Fweb-0", "#matrix table")
        expect(page.locator("#matrix")).to_contain_text("of 5,000")


def test_a_pod_that_does_not_exist_leaves_the_search(browser: Browser) -> None:
    with Served(mixed()) as served, opened(browser) as page:
        page.goto(served.link())
        for name in ("default%2Fnone", "default%2Fgian"):
            go(page, f"pod/{name}", ".problem")
            expect(page.locator(".problem")).to_contain_text("there is no pod")
        page.get_by_role("link", name="default/giant").click()  # pods whose names contain the text
        expect(page.locator(".causes li").first).to_contain_text("Insufficient cpu6 of 6 nodes")
        expect(page.locator(".problem")).to_have_count(0)


def test_gangs_and_queues(browser: Browser) -> None:
    engine = engine_with(nodes(3))

    def gang(name: str, queue: str, cpu: str) -> None:
        group = PodGroup(
            metadata=ObjectMeta(name=name, namespace="default"),
            spec=PodGroupSpec(min_member=4, queue=queue, min_resources={"cpu": cpu}),
        )
        engine.cache.objects.put(group)
        engine.put(make_pod(f"{name}-0").scheduler("volcano").annotation({GROUP_ANNOTATION: name}).obj())

    status = QueueStatus(state="Open", allocated={"cpu": "12"})
    engine.cache.objects.put(Queue(metadata=ObjectMeta(name="ml"), status=status))
    engine.cache.objects.put(Queue(metadata=ObjectMeta(name="idle"), status=QueueStatus(state="Closed")))
    gang("train", "ml", "100")
    with Served(engine, gangs=object()) as served, opened(browser) as page:
        page.goto(served.link())
        go(page, "queue")
        queues, gangs = (page.locator("section", has=page.get_by_role("heading", name=name))
                         for name in ("Queues of batch sessions", "Gangs that wait"))  # fmt: skip
        expect(queues.locator("tbody tr", has_text="ml")).to_contain_text("50 %")  # 12 of 24 cores
        expect(queues.locator("tbody tr", has_text="ml")).to_contain_text("1 (1)")
        expect(queues.locator("tbody tr", has_text="idle")).to_contain_text("Closed")
        expect(gangs.locator("tbody tr")).to_contain_text("1 of 4")
        expect(gangs.locator("tbody tr")).to_contain_text("quota")
        served.change(lambda: gang("serve", "idle", "1"))
        expect(gangs.locator("tbody tr")).to_have_count(2)
        gangs.locator("tbody tr", has_text="train").get_by_role("link", name="What would help?").click()
        expect(page.locator("main h2").first).to_have_text("default/train-0")


def test_a_viewer_without_rights_sees_nothing(browser: Browser) -> None:
    reviews = Cluster(guest=(), partial=("/dashboard", "/dashboard/static/app.js"))
    with Served(mixed(), EndpointAuth(reviews.call)) as served, opened(browser) as page:
        page.goto(f"{served.url}/dashboard")
        expect(page.locator(".problem")).to_contain_text('user "system:anonymous" cannot get path "/dashboard"')
        page.fill("#token", "guest")
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator(".problem")).to_contain_text('user "guest" cannot get path "/dashboard"')
        expect(page.locator("main")).to_contain_text("mooring rbac --dashboard")
        assert page.request.get(f"{served.url}/dashboard/api/cluster").status == 403
        assert page.request.get(f"{served.url}/dashboard/static/app.js").status == 403
        assert "node-1" not in page.content()


def test_hostile_names_are_harmless(browser: Browser) -> None:
    engine = engine_with(
        [msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, name=name))
         for name, node in zip(HOSTILE, nodes(len(HOSTILE)), strict=True)],
        [make_node(f"fine-{number}").label({"hostile": IMG}).taint(IMG, IMG).obj() for number in range(2)],
        [make_pod(name).req(cpu="100").obj() for name in HOSTILE],
        make_pod("gated").gate(IMG).obj(),
    )  # fmt: skip
    with Served(engine) as served, opened(browser) as page:
        page.goto(served.link())
        page.wait_for_selector("canvas")
        page.locator("summary").first.click()
        for view in ("queue", "plugins"):
            go(page, view)
        for name in HOSTILE:
            encoded = page.evaluate("encodeURIComponent", name)
            if len(name) < 500:
                go(page, f"cluster/{encoded}", "#node")
                expect(page.locator("#node h2")).to_contain_text(name[:5])
            go(page, f"pod/default%2F{encoded}", "main .card")
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= 1280, name
        go(page, f"pod/default%2F{page.evaluate('encodeURIComponent', HOSTILE[2])}", "#matrix table")
        assert "\u202e" not in page.locator("main").inner_text()
        assert page.evaluate("window.hacked") is None
        assert page.evaluate("document.querySelectorAll('main img, main script').length") == 0


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_a_phone_and_both_colour_schemes(browser: Browser, scheme: str) -> None:
    with Served(mixed()) as served, opened(browser, width=390, color_scheme=scheme) as page:
        page.goto(served.link())
        page.wait_for_selector("canvas")
        for view in VIEWS:
            go(page, view)
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, view
        go(page, "pod/default%2Fgiant", "#matrix table")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        go(page, "plugins", "table.stacks")
        assert page.get_by_role("cell", name="NodeResourcesFit").bounding_box()["height"] < 40  # not broken into pieces
        expect(page.get_by_role("button", name="Sign out")).to_be_visible()
        go(page, "cluster/node-3", "#node")
        expect(page.locator("#node h2")).to_be_in_viewport()
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(14, 20, 26)"
        assert dark == (scheme == "dark")
        page.get_by_role("button", name="Switch between dark and light").click()
        assert (page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(14, 20, 26)") != dark


def test_the_keyboard_reaches_everything(browser: Browser) -> None:
    with Served(mixed()) as served, opened(browser) as page:
        page.goto(served.link())
        page.wait_for_selector("canvas")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        unnamed = page.evaluate(
            "[...document.querySelectorAll('button, input, select, textarea, canvas')].filter((each) => "
            "!each.labels?.length && !each.textContent.trim() && !each.getAttribute('aria-label')).length"
        )
        assert unnamed == 0
        assert page.locator("nav a[aria-current=page]").inner_text() == "Cluster"
        page.fill("#find-node", "NODE-4")
        page.keyboard.press("Enter")
        expect(page.locator("#node h2")).to_have_text("node-4")
        page.locator("#node").get_by_role("link", name="default/giant").focus()
        page.keyboard.press("Enter")
        page.wait_for_selector("#matrix table")
        assert page.evaluate("document.activeElement.id") == "main"
