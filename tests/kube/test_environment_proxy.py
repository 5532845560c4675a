"""Tests of HTTPS_PROXY, HTTP_PROXY and NO_PROXY."""

import pytest

from mooring.kube.environment_proxy import environment_proxy

PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("server", "exceptions", "expected"),
    [
        ("https://kube.test", "", PROXY),
        ("https://localhost:6443", "", ""),
        ("https://127.0.0.1", "", ""),
        ("http://kube.test", "", ""),
        ("https://kube.test", "*", ""),
        ("https://kube.test", "other, test", ""),
        ("https://kube.test", ".kube.test", PROXY),
        ("https://a.kube.test", ".kube.test", ""),
        ("https://10.1.2.3", "10.0.0.0/8", ""),
        ("https://11.1.2.3", "10.0.0.0/8", PROXY),
        ("https://kube.test", "kube.test:443", ""),
        ("https://kube.test:6443", "kube.test:443", PROXY),
        ("https://[fd00::1]", "[fd00::1]:443", ""),
    ],
)
def test_proxies(server: str, exceptions: str, expected: str) -> None:
    assert environment_proxy(server, {"HTTPS_PROXY": PROXY, "NO_PROXY": exceptions}) == expected


def test_a_proxy_without_a_scheme_is_http() -> None:
    assert environment_proxy("http://kube.test", {"http_proxy": "proxy:3128"}) == PROXY
