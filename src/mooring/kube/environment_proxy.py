"""Proxy settings from the environment: HTTPS_PROXY, HTTP_PROXY and NO_PROXY by the rules of Go.

Hand-written because urllib and aiohttp ignore CIDR ranges and ports in NO_PROXY.
"""

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit


def environment_proxy(server: str, env: Mapping[str, str]) -> str:
    """Return the proxy for a server's address, or an empty string. Loopback addresses are never proxied."""
    parts = urlsplit(server)
    name = f"{parts.scheme}_proxy"
    proxy = env.get(name.upper()) or env.get(name) or ""
    host = parts.hostname or ""
    if not proxy or _is_loopback(host):
        return ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    exceptions = env.get("NO_PROXY") or env.get("no_proxy") or ""
    if any(_covers(each.strip().lower(), host, port) for each in exceptions.split(",")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _covers(exception: str, host: str, port: int) -> bool:
    if not exception:
        return False
    if exception == "*":
        return True
    name, _, wanted = exception.rpartition(":")
    if name and wanted.isdigit() and (":" not in name or name.startswith("[")):
        if int(wanted) != port:
            return False
        exception = name
    exception = exception.strip("[]")
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(exception, strict=False)
    except ValueError:
        pass
    domain = exception.removeprefix("*").removeprefix(".")
    # A leading dot matches subdomains only; a name without one matches itself too.
    return host.endswith("." + domain) or (host == domain and not exception.startswith((".", "*")))
