"""Browser sessions: links work once, sessions expire, and their number is limited."""

from __future__ import annotations

from mooring.dashboard.browser_sessions import BrowserSessions


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_link_opens_one_session() -> None:
    sessions = BrowserSessions()
    token = sessions.create_link_token("secret")
    cookie = sessions.redeem(token)
    assert cookie is not None
    assert sessions.bearer(cookie) == "secret"
    assert sessions.redeem(token) is None
    sessions.close(cookie)
    assert sessions.bearer(cookie) is None


def test_links_and_sessions_expire() -> None:
    clock = Clock()
    sessions = BrowserSessions(clock=clock)
    token, cookie = sessions.create_link_token(), sessions.open("secret")
    clock.now = 13 * 3600.0
    assert sessions.bearer(cookie) is None
    clock.now = 25 * 3600.0
    assert sessions.redeem(token) is None


def test_the_number_of_sessions_is_limited() -> None:
    sessions = BrowserSessions()
    first = sessions.open("a")
    for _ in range(300):
        last = sessions.open("b")
    assert len(sessions) == 256
    assert sessions.bearer(first) is None
    assert sessions.bearer(last) == "b"
    assert sessions.bearer("\udcff") is None
