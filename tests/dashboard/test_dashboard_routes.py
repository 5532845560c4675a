"""The pages and the API of the dashboard: sign-in, rights, headers and limits."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from mooring.dashboard.dashboard_routes import Dashboard
from mooring.live.endpoints.endpoint_auth import EndpointAuth
from tests.dashboard.scene import dashboard, mixed, read, serving, sign_in
from tests.live.endpoints.serving import Cluster

API = ("summary", "cluster", "queue", "pods", "plugins", "configuration")
PATHS = ("/dashboard", *(f"/dashboard/api/{name}" for name in API), "/dashboard/static/app.js")


@pytest.fixture
async def signed_in() -> AsyncIterator[tuple[Dashboard, aiohttp.ClientSession]]:
    made = dashboard(mixed())
    async with serving(made) as (_, client):
        await sign_in(made, client)
        yield made, client


async def test_all_data_is_served(signed_in: tuple[Dashboard, aiohttp.ClientSession]) -> None:
    _, client = signed_in
    for name in API:
        assert isinstance(await read(client, name), dict), name
    assert (await read(client, "node", name="node-1"))["name"] == "node-1"
    assert (await read(client, "pod", name="default/giant"))["exists"]
    assert len((await read(client, "matrix", name="default/giant", limit=2))["rows"]) == 2
    assert (await read(client, "scores", name="default/web-0"))["feasible"] == 6


async def test_pages_load_nothing_from_elsewhere(signed_in: tuple[Dashboard, aiohttp.ClientSession]) -> None:
    _, client = signed_in
    async with client.get("/dashboard") as answer:
        page = await answer.text()
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    assert "<style" not in page
    assert "style=" not in page
    assert "onclick" not in page
    for name in ("app.css", "app.js", "cluster.js", "icon.svg"):
        async with client.get(f"/dashboard/static/{name}") as answer:
            text = await answer.text()
            assert answer.status == 200
            assert "innerHTML" not in text
            assert "https://" not in text
    async with client.get("/dashboard/static/..%2f__init__.py") as answer:
        assert answer.status == 404


@pytest.mark.parametrize("path", PATHS)
async def test_nothing_is_served_without_a_session(path: str) -> None:
    async with serving(dashboard(mixed())) as (_, client), client.get(path) as answer:
        assert answer.status == 401
        assert "node-1" not in await answer.text()


async def test_a_link_works_once_and_its_cookie_is_protected() -> None:
    made = dashboard(mixed())
    token = made.sessions.create_link_token()
    async with serving(made) as (server, client):
        async with client.get("/dashboard", params={"token": token}, allow_redirects=False) as answer:
            cookie = answer.headers["Set-Cookie"]
            assert answer.headers["Location"] == "/dashboard"
        assert f"mooring-dashboard-{server.port}=" in cookie
        for part in ("HttpOnly", "SameSite=Strict", "Path=/dashboard"):
            assert part in cookie
        client.cookie_jar.clear()
        async with client.get("/dashboard", params={"token": token}) as answer:
            assert answer.status == 401
            assert "used before" in await answer.text()


async def test_the_api_server_authorizes_every_request() -> None:
    reviews = Cluster(admin=("/dashboard", "/dashboard/api/summary"), guest=())
    made = dashboard(mixed())
    async with serving(made, EndpointAuth(reviews.call)) as (_, client):
        async with client.post("/dashboard/login", data={"token": "guest"}) as answer:
            page = await answer.text()
            assert answer.status == 403
        assert "user &quot;guest&quot; cannot get path &quot;/dashboard&quot;" in page
        assert "mooring rbac --dashboard" in page
        assert len(made.sessions) == 0
        async with client.post("/dashboard/login", data={"token": "admin"}, allow_redirects=False) as answer:
            assert answer.status == 303
        assert (await read(client, "summary"))["nodes"] == 6
        status, text = await read(client, "cluster")
        assert status == 403
        assert "/dashboard/api/cluster" in text
        async with client.post("/dashboard/logout", allow_redirects=False) as answer:
            assert answer.status == 303
        assert (await read(client, "summary"))[0] == 403


async def test_requests_of_other_sites_are_rejected(signed_in: tuple[Dashboard, aiohttp.ClientSession]) -> None:
    _, client = signed_in
    for headers in ({"Origin": "https://example.com"}, {"Sec-Fetch-Site": "cross-site"}):
        async with client.post("/dashboard/api/what-if", json={}, headers=headers) as answer:
            assert answer.status == 403


@pytest.mark.parametrize(
    ("name", "query", "text"),
    [
        ("matrix", {"name": "default/giant", "offset": "-1"}, "offset"),
        ("node", {"name": "x" * 700}, "longer than"),
        ("node", {"name": "<img src=x onerror=alert(1)>"}, "no node"),
        ("scores", {"name": "default/web-0", "plugin": "Nothing"}, "does not score"),
    ],
)
async def test_invalid_queries_are_errors(
    signed_in: tuple[Dashboard, aiohttp.ClientSession], name: str, query: dict[str, str], text: str
) -> None:
    status, told = await read(signed_in[1], name, **query)
    assert 400 <= status < 500
    assert text in told
