from __future__ import annotations

from pathlib import Path

from mooring.loading import Requested, find_plugins
from tests.loading.builders import load_errors, write


def test_the_names_of_built_in_session_plugins() -> None:
    from mooring.batch.actions import ACTIONS
    from mooring.batch.plugins import PLUGINS
    from mooring.loading import ACTION, SESSION

    assert (SESSION.builtin, ACTION.builtin) == (set(PLUGINS), set(ACTIONS))


def test_session_plugins(tmp_path: Path) -> None:
    from mooring.loading import SESSION

    write(tmp_path, {"magic.py": "class Magic:\n    name = 'magic'\n    def on_session_open(self, session): ...\n"})
    catalog = find_plugins(Requested(directories=(tmp_path,)))
    assert catalog.classes() == {}
    assert set(catalog.classes(SESSION)) == {"magic"}
    write(
        tmp_path,
        {"magic.py": "class Magic:\n    def on_session_open(self): ...\n    def on_sesion_close(self, s): ...\n"},
    )
    told = load_errors(Requested(directories=(tmp_path,)))
    assert told[0].endswith(
        "magic.py:2: magic: 'on_session_open' takes (self); write 'def on_session_open(self, session)'"
    )
    assert "did you mean 'def on_session_close(self, session)'?" in told[1]
