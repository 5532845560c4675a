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


def test_the_names_of_registrations() -> None:
    from mooring.batch.session import Session
    from mooring.loading.plugin_kinds import REGISTRATIONS

    assert set(REGISTRATIONS) == {name for name in dir(Session) if name.startswith("add_")}


def test_misspelled_registrations_are_found_at_load(tmp_path: Path) -> None:
    source = "class Fair:\n    def on_session_open(self, ssn):\n        ssn.add_queue_oder(None)\n"
    write(tmp_path, {"fair.py": source})
    (told,) = load_errors(Requested(directories=(tmp_path,)))
    assert told.endswith("fair.py:3: fair: 'ssn.add_queue_oder' does not exist; did you mean 'ssn.add_queue_order'?")


def test_base_classes_and_arguments_of_session_plugins_are_checked(tmp_path: Path) -> None:
    base = "class Base:\n    def register(self, session):\n        session.add_job_redy(None)\n\n\n"
    own = "class Fair(Base):\n    class Args:\n        weight = 1\n\n    def on_session_open(self, session): ...\n"
    write(tmp_path, {"fair.py": base + own})
    told = load_errors(Requested(directories=(tmp_path,)))
    assert [line.partition("fair.py:")[2] for line in told] == [
        "3: Base: 'session.add_job_redy' does not exist; did you mean 'session.add_job_ready'?",
        "7: fair: Args.weight has no type; write  weight: int = 1",
    ]
