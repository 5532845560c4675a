"""Credentials of requests: renewed once if the server rejects them, and hidden in its messages."""

import contextlib
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from mooring.kube import Access, Timeouts, Unauthorized, User
from mooring.kube.client_tls import TlsContexts
from mooring.kube.identity import Identity
from mooring.kube.transport import HttpTransport


class Identities:
    """Tokens that replace each other when they are rejected."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = [Identity(f"Bearer {token}") for token in tokens]

    def fresh(self) -> Identity | None:
        return None

    async def get(self) -> Identity:
        return self.tokens[0]

    def reject(self, identity: Identity) -> None:
        if len(self.tokens) > 1:
            assert self.tokens.pop(0) == identity


class Scripted(HttpTransport):
    """A transport that accepts one token."""

    def __init__(self, *tokens: str, accepted: str, body: bytes = b"{}") -> None:
        access = Access(server="https://server.invalid", user=User(impersonation=(("Impersonate-User", "bob"),)))
        super().__init__(
            access, Identities(*tokens), TlsContexts(access), user_agent="me/1", timeouts=Timeouts()
        )  # fmt: skip
        self.accepted, self.body = accepted, body
        self.asked: list[list[tuple[str, str]]] = []

    async def close(self) -> None:
        pass

    @contextlib.asynccontextmanager
    async def _open(
        self, method: str, target: str, identity: Identity, body: bytes | None, content_type: str, limits: Any
    ) -> AsyncIterator[Any]:
        self.asked.append(self._headers(identity, body, content_type))
        status = 200 if identity.authorization == f"Bearer {self.accepted}" else 401
        text = self.body if status == 200 else f"no {identity.authorization}".encode()

        async def read() -> bytes:
            return text

        yield SimpleNamespace(status=status, headers={"X-Odd": "1"}, content=text, read=read)


async def test_a_rejected_token_is_renewed_once() -> None:
    http = Scripted("older", "newer", accepted="newer")
    answer = await http.request("POST", "/x", body=b"{}", timeout=1.0)
    assert (answer.status, answer.headers, answer.body) == (200, {"x-odd": "1"}, b"{}")
    assert [dict(each)["Authorization"] for each in http.asked] == ["Bearer older", "Bearer newer"]
    assert http.asked[0] == [
        ("User-Agent", "me/1"),
        ("Accept-Encoding", "identity"),
        ("Impersonate-User", "bob"),
        ("Accept", "application/json"),
        ("Authorization", "Bearer older"),
        ("Content-Type", "application/json"),
    ]
    http = Scripted("older", "newer", "newest", accepted="newest")
    assert (await http.request("GET", "/x", timeout=1.0)).status == 401
    assert len(http.asked) == 2


async def test_a_stream_begins_with_the_renewed_token() -> None:
    http = Scripted("older", "newer", accepted="newer", body=b"part")
    async with http.stream("/x", idle=1.0) as chunks:
        assert chunks == b"part"  # type: ignore[comparison-overlap]
    assert "Content-Type" not in dict(http.asked[0])


async def test_the_token_is_hidden_in_messages() -> None:
    http = Scripted("secret", accepted="other")
    assert (await http.request("GET", "/x", timeout=1.0)).body == b"no Bearer <hidden>"
    with pytest.raises(Unauthorized) as caught:
        async with http.stream("/x", idle=1.0):
            pass
    assert "secret" not in str(caught.value)
