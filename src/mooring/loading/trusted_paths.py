"""Which plugin files are trusted: those that no user except root and the scheduler's own user can change or replace.

A path is opened one component at a time, and every component is judged by the file that was opened. A path that is
trusted stays so, because only trusted users can change its folders and links.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import shlex
import stat
from pathlib import Path
from typing import Final

from mooring.loading.load_errors import Fault, PluginLoadError

#: Systems without user ids have no owners and modes to check.
_HAS_OWNERS: Final = hasattr(os, "geteuid")
_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
#: Opening a named pipe must not wait for its writer.
_FILE: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
#: The limit of Linux for one path.
_MAX_LINKS: Final = 40
_ANYWAY: Final = "or accept it with --allow-writable-plugins"


def read_trusted(path: Path) -> bytes:
    """Read a file. Raises PluginLoadError with all reasons why the path is not trusted, or OSError."""
    if not _HAS_OWNERS:
        return path.read_bytes()
    with contextlib.ExitStack() as opened:
        walk = _Walk(opened)
        walk.follow(path)
        if walk.faults:
            raise PluginLoadError(dict.fromkeys(walk.faults))
        with open(walk.here, "rb", closefd=False) as file:
            return file.read()


def distrust(path: Path) -> list[Fault]:
    """Return all reasons why a file or folder is not trusted. Of a missing one, only the folders are judged."""
    if not _HAS_OWNERS:
        return []
    with contextlib.ExitStack() as opened:
        walk = _Walk(opened)
        with contextlib.suppress(OSError):  # whoever reads the file reports the error
            walk.follow(path)
        return list(dict.fromkeys(walk.faults))


class _Walk:
    """Opens a path from the root folder on, and judges every folder and link on the way."""

    def __init__(self, opened: contextlib.ExitStack) -> None:
        self.faults: list[Fault] = []
        self._opened = opened
        self._place = os.sep
        self.here = self._open(os.sep, _FOLDER, None)
        #: The fault of the current folder if its sticky bit is the only protection.
        self._sticky = self._judge_folder()

    def follow(self, path: Path) -> None:
        """Open a path. Raises OSError with the component that cannot be opened."""
        pending = list(reversed((Path.cwd() / path).parts[1:]))
        links = 0
        entries_of_sticky: list[Fault] = []
        while pending:
            name = pending.pop()
            if not pending and self._sticky is not None:
                entries_of_sticky.append(self._sticky)
            before, self._place = self._place, os.path.normpath(os.path.join(self._place, name))
            try:
                found = os.stat(name, dir_fd=self.here, follow_symlinks=False)
                if stat.S_ISLNK(found.st_mode):
                    target = os.readlink(name, dir_fd=self.here)
                    links += 1
                    if links > _MAX_LINKS:
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                    self._judge_owner(found)
                    self._place = before
                    if target.startswith(os.sep):
                        self._place, self.here = os.sep, self._open(os.sep, _FOLDER, None)
                        self._sticky = self._judge_folder()
                    pending += reversed([part for part in target.split(os.sep) if part not in ("", ".")])
                    continue
                is_folder = stat.S_ISDIR(found.st_mode)
                self.here = self._open(name, _FOLDER if is_folder else _FILE, self.here)
            except OSError as error:
                raise OSError(error.errno, error.strerror, self._place) from None
            if is_folder:
                self._sticky = self._judge_folder()
            else:
                self._judge_file()
                self.faults += entries_of_sticky
                return
        if self._sticky is not None:
            self.faults.append(self._sticky)

    def _open(self, name: str, flags: int, folder: int | None) -> int:
        opened = os.open(name, flags | os.O_CLOEXEC, dir_fd=folder)
        self._opened.callback(os.close, opened)
        return opened

    def _judge_folder(self) -> Fault | None:
        """Judge the current folder. Return a fault that applies only if the folder holds the file itself."""
        found = os.fstat(self.here)
        self._judge_owner(found)
        who, letter = self._writers(found)
        if not who:
            return None
        if not found.st_mode & stat.S_ISVTX:
            self.faults.append(self._writable(found, who, letter))
            return None
        # Others can neither rename nor remove the folders and links of trusted users, but they can add files.
        own = shlex.quote(os.path.join(self._place, "plugins"))
        text = (
            f"{who} can add files to this folder of {_user(found.st_uid)}, even with its sticky bit, and so run code "
            f"in the scheduler: move the files to a folder of their own, such as `mkdir -m 755 {own}`, {_ANYWAY}"
        )
        return Fault(self._place, 0, text)

    def _judge_file(self) -> None:
        found = os.fstat(self.here)
        self._judge_owner(found)
        who, letter = self._writers(found)
        if who:
            self.faults.append(self._writable(found, who, letter))

    def _judge_owner(self, found: os.stat_result) -> None:
        if found.st_uid in _trusted_users():
            return
        option = "-h " if stat.S_ISLNK(found.st_mode) else ""
        text = (
            f"belongs to {_user(found.st_uid)}, who could run code in the scheduler: move it, or run "
            f"`chown {option}{_name(os.geteuid())} {shlex.quote(self._place)}`, {_ANYWAY}"
        )
        self.faults.append(Fault(self._place, 0, text))

    def _writers(self, found: os.stat_result) -> tuple[str, str]:
        """Return which users, other than the owner, can write the current file, and their letter for chmod."""
        mode = found.st_mode
        if mode & stat.S_IWOTH:
            who, letter = "all users", "o"
        elif mode & stat.S_IWGRP and (not _is_private(found.st_gid) or _has_acl(self._place)):
            who, letter = f"the group {_group(found.st_gid)}", "g"
        else:
            return "", ""
        if os.fstatvfs(self.here).f_flag & os.ST_RDONLY:
            return "", ""  # such as a mounted ConfigMap, whose folder has all bits set
        return who, letter

    def _writable(self, found: os.stat_result, who: str, letter: str) -> Fault:
        text = (
            f"can be written by {who}, who could run code in the scheduler (it belongs to {_user(found.st_uid)}, mode "
            f"{stat.S_IMODE(found.st_mode):04o}): run `chmod {letter}-w {shlex.quote(self._place)}`, {_ANYWAY}"
        )
        return Fault(self._place, 0, text)


def _trusted_users() -> frozenset[int]:
    return frozenset({0, os.geteuid()})


@functools.lru_cache(maxsize=64)
def _is_private(group: int) -> bool:
    """Whether all members of a group are trusted, such as of a user's own group where the umask is 002."""
    import grp
    import pwd

    users = pwd.getpwall()
    try:
        named = set(grp.getgrgid(group).gr_mem)
    except KeyError:
        named = set()
    members = {each.pw_uid for each in users if each.pw_gid == group or each.pw_name in named}
    unknown = named - {each.pw_name for each in users}
    return not unknown and members <= _trusted_users() and (bool(members) or group == os.getegid())


def _has_acl(path: str) -> bool:
    """Whether an access control list names further users. The group's mode bits are then the limit of their rights."""
    try:
        return "system.posix_acl_access" in os.listxattr(path)
    except (OSError, AttributeError):  # a file system or a platform without them
        return False


def _name(user: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def _user(user: int) -> str:
    return f"the user {_name(user)}"


def _group(group: int) -> str:
    import grp

    try:
        return grp.getgrgid(group).gr_name
    except KeyError:
        return str(group)
