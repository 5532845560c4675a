"""The journal, which stores every change in SQLite, so that acknowledged changes survive a crash.

Changes are collected while the previous batch is written, and then written in one transaction. Clients observe a change
only when it is on disk. Changes without an await in between are in one batch, so either all or none are stored. If the
disk is full, requests fail until the changes can be written.
"""

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from mooring.cluster.store import Store, Stored
from mooring.logs import get_logger

FILE: Final = "cluster.db"
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS objects (
    storage TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, version INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (storage, namespace, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
_FORMAT: Final = "1"
#: Seconds between attempts to write when the disk is full.
_RETRY_SECONDS: Final = 0.5
_log: Final = get_logger("mooring.cluster")


class DataError(Exception):
    """An error for a data folder that cannot be used."""


def _make_private(path: Path) -> None:
    """Create the file and its folder so that only this user can read them: it contains the tokens of the cluster.

    The permissions of an existing folder are restricted only if it contains nothing else. Raises OSError and DataError.
    """
    folder = path.parent
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if all(each.name.startswith(path.name) for each in folder.iterdir()):
        folder.chmod(0o700)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    # SQLite gives its other files the permissions of the database when it creates them. An existing file is not opened
    # here, because closing it would release the locks of another cluster in this process.
    for each in (path, *folder.glob(f"{path.name}-*")):
        if hasattr(os, "geteuid") and each.lstat().st_uid != os.geteuid():
            raise DataError(f"{each} belongs to another user: use another --data-dir")
        each.chmod(0o600)


class _Entry(NamedTuple):
    storage: str
    namespace: str
    name: str
    version: int
    body: bytes | None


class SqliteJournal:
    """A journal in a SQLite file. One thread writes, so the event loop never waits for the disk."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mooring-journal")
        self._connection: sqlite3.Connection | None = None
        self._pending: list[_Entry] = []
        self._store: Store | None = None
        self._writer: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._written = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        #: Why changes cannot be written now, for example because the disk is full.
        self.failure: DataError | None = None

    async def open(self, store: Store) -> None:
        """Load stored objects, and store all later changes."""
        loop = asyncio.get_running_loop()
        rows, version = await loop.run_in_executor(self._thread, self._load)
        for storage, namespace, name, number, body in rows:
            store.load(storage, namespace, name, Stored(msgspec.json.decode(body), number, body))
        store.restart(version)
        self._written = version
        self._store = store
        store.journal = self
        self._writer = asyncio.create_task(self._write(), name="mooring-journal")

    def _load(self) -> tuple[list[tuple[str, str, str, int, bytes]], int]:
        try:
            _make_private(self._path)
            self._connection = connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.executescript(_SCHEMA)
            facts = dict(connection.execute("SELECT name, value FROM facts"))
            if facts.setdefault("format", _FORMAT) != _FORMAT:
                raise DataError(f"{self._path} was written by another version of Mooring (format {facts['format']}):"
                                " use that version, or another --data-dir")  # fmt: skip
            connection.execute("INSERT OR REPLACE INTO facts VALUES ('format', ?)", (_FORMAT,))
            rows = list(connection.execute("SELECT storage, namespace, name, version, body FROM objects"))
        except sqlite3.Error as error:
            raise DataError(
                f"{self._path} cannot be used: {error}; is another embedded cluster using it,"
                " or is it no data of Mooring's?"
            ) from error
        except OSError as error:
            raise DataError(f"{self._path.parent} cannot be used as data folder: {error.strerror}") from error
        return rows, int(facts.get("version", "0"))

    def fact(self, name: str) -> str | None:
        """Return a stored value, such as the token."""
        row = self._open_connection().execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def set_fact(self, name: str, value: str) -> None:
        """Store a value."""
        self._open_connection().execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    def _open_connection(self) -> sqlite3.Connection:
        if self._connection is None:
            raise RuntimeError("the journal is not open")
        return self._connection

    def append(self, storage: str, namespace: str, name: str, stored: Stored | None, version: int) -> None:
        """Add a change. It is on disk when `durable` for its version returns."""
        self._pending.append(_Entry(storage, namespace, name, version, None if stored is None else stored.encoded))
        self._wake.set()

    async def durable(self, version: int) -> None:
        """Wait until all changes up to a version are on disk."""
        if self.failure is not None:
            raise self.failure
        if version <= self._written:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((version, future))
        await future

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._wake.wait()
            self._wake.clear()
            # Changes stay in the list until they are on disk, so that they are written later if the disk is full now.
            while batch := list(self._pending):
                try:
                    await loop.run_in_executor(self._thread, self._commit, batch)
                except sqlite3.Error as error:
                    self._fail(error)
                    await asyncio.sleep(_RETRY_SECONDS)
                else:
                    del self._pending[: len(batch)]
                    self._done(batch[-1].version)

    def _commit(self, batch: list[_Entry]) -> None:
        connection = self._open_connection()
        try:
            self._write_batch(connection, batch)
        except sqlite3.Error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _write_batch(self, connection: sqlite3.Connection, batch: list[_Entry]) -> None:
        # Only the last change of an object in a batch is stored.
        last = {(each.storage, each.namespace, each.name): each for each in batch}
        connection.execute("BEGIN")
        connection.executemany(
            "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)",
            (each for each in last.values() if each.body is not None),
        )
        connection.executemany(
            "DELETE FROM objects WHERE storage = ? AND namespace = ? AND name = ?", _gone(last.values())
        )
        connection.execute("INSERT OR REPLACE INTO facts VALUES ('version', ?)", (str(batch[-1].version),))
        connection.execute("COMMIT")

    def _done(self, version: int) -> None:
        if self.failure is not None:
            self.failure = None
            _log.info("the data folder can be written again", file=str(self._path))
        self._written = version
        if self._store is not None:
            self._store.publish(version)
        ready = [future for wanted, future in self._waiting if wanted <= version]
        self._waiting = [each for each in self._waiting if each[0] > version]
        for future in ready:
            if not future.done():
                future.set_result(None)

    def _fail(self, error: sqlite3.Error) -> None:
        if self.failure is None:
            _log.error("the data folder cannot be written; retrying", file=str(self._path), why=str(error))
        self.failure = DataError(f"{self._path} cannot be written: {error}; the embedded cluster tries again")
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(self.failure)
        self._waiting = []

    async def close(self) -> None:
        """Write pending changes and close the file."""
        with contextlib.suppress(DataError):
            if self._store is not None:
                await self.durable(self._store.version)
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)
        if self._pending:
            _log.error("the last changes are lost: they could not be written", changes=len(self._pending))
        if self._store is not None:
            self._store.journal = None
        loop = asyncio.get_running_loop()
        if self._connection is not None:
            await loop.run_in_executor(self._thread, self._connection.close)
            self._connection = None
        self._thread.shutdown()


def _gone(entries: Iterable[_Entry]) -> Iterator[tuple[str, str, str]]:
    for each in entries:
        if each.body is None:
            yield each.storage, each.namespace, each.name
