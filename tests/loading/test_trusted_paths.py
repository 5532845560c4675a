from __future__ import annotations

import grp
import os
import pwd
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring.cli.main import main
from mooring.loading import PluginLoadError, Requested, find_plugins
from mooring.loading.setup_files import SetupFiles
from mooring.loading.trusted_paths import _is_private, distrust, read_trusted
from tests.loading.builders import SOURCES, enabling, load_errors, plugin, write

FOREIGN = 65534
#: A plugin that shows that its code ran.
EVIL = "import os\nos.environ['EVIL_RAN'] = '1'\n" + plugin("A")

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away and become another user")


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that other users can enter, in the system's folder for temporary files."""
    folder = Path(tempfile.mkdtemp()).resolve()
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def no_foreign_code_runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("EVIL_RAN", raising=False)
    yield
    assert "EVIL_RAN" not in os.environ


def attack(command: str, folder: Path) -> None:
    """Run a shell command as another user."""
    subprocess.run(["/bin/sh", "-ec", command], cwd=folder, user=FOREIGN, group=FOREIGN, extra_groups=[], check=True)


def named(path: Path) -> Requested:
    return Requested(plugins=(("A", path),))


def paths_in(errors: list[str]) -> set[str]:
    return {each.partition(": ")[0] for each in errors}


@pytest.fixture
def tree(shared: Path) -> Path:
    """A plugin that is reached over a link to a folder and a link to a file, below two levels of folders."""
    write(shared, {"outer/folder/real.py": plugin("A")})
    (shared / "far").mkdir()
    (shared / "far/a.py").symlink_to("../outer/folder/../folder/real.py")
    (shared / "near").symlink_to(shared / "far")
    return shared


COMPONENTS = ["", "near", "far", "far/a.py", "outer", "outer/folder", "outer/folder/real.py"]


def test_links_of_trusted_users_are_followed(tree: Path) -> None:
    assert "A" in find_plugins(named(tree / "near/a.py")).found
    assert "A" in find_plugins(Requested(directories=(tree / "near",))).found


@as_root
@pytest.mark.parametrize("component", COMPONENTS)
def test_every_file_link_and_folder_on_the_way_has_a_trusted_owner(tree: Path, component: str) -> None:
    foreign = tree / component
    os.chown(foreign, FOREIGN, -1, follow_symlinks=False)
    option = "-h " if foreign.is_symlink() else ""
    for requested in (named(tree / "near/a.py"), Requested(directories=(tree / "near",))):
        errors = load_errors(requested)
        assert paths_in(errors) == {str(foreign)}
        assert f"belongs to the user {pwd.getpwuid(FOREIGN).pw_name}" in errors[0]
        assert f"`chown {option}root {foreign}`, or accept it with --allow-writable-plugins" in errors[0]
    assert find_plugins(Requested(plugins=(("A", tree / "near/a.py"),), allow_writable=True)).found


@pytest.mark.parametrize("component", [each for each in COMPONENTS if each not in ("near", "far/a.py")])
def test_no_file_or_folder_on_the_way_is_writable_by_others(tree: Path, component: str) -> None:
    (tree / component).chmod(0o777)
    errors = load_errors(named(tree / "near/a.py"))
    assert paths_in(errors) == {str(tree / component)}
    assert "can be written by all users" in errors[0]
    assert f"run `chmod o-w {tree / component}`" in errors[0]


@pytest.mark.parametrize("component", ["", "outer"])
def test_a_sticky_folder_may_hold_folders_and_links_to_folders(tree: Path, component: str) -> None:
    """As /tmp does: others can neither rename nor remove the entries of trusted users."""
    (tree / component).chmod(0o1777)
    assert "A" in find_plugins(named(tree / "near/a.py")).found


@pytest.mark.parametrize("component", ["far", "outer/folder"])
def test_a_sticky_folder_must_not_hold_plugin_files(tree: Path, component: str) -> None:
    (tree / component).chmod(0o1777)
    errors = load_errors(named(tree / "near/a.py"))
    assert paths_in(errors) == {str(tree / component)}
    assert "all users can add files to this folder" in errors[0]
    assert "move the files to a folder of their own" in errors[0]


def test_a_package_is_checked_with_all_its_files(tmp_path: Path) -> None:
    write(tmp_path, {"p/__init__.py": plugin("A"), "p/inner/b.py": "", "p/inner/model.bin": "", "p/c.py": ""})
    (tmp_path / "p/inner/model.bin").chmod(0o666)
    (tmp_path / "p/c.py").chmod(0o666)
    assert paths_in(load_errors(named(tmp_path / "p"))) == {f"{tmp_path}/p/inner/model.bin", f"{tmp_path}/p/c.py"}
    write(tmp_path, {"q/__init__.py": plugin("A")})
    (tmp_path / "q").chmod(0o1777)
    assert paths_in(load_errors(named(tmp_path / "q"))) == {f"{tmp_path}/q"}


def test_a_folder_without_plugins_is_checked_too(tmp_path: Path) -> None:
    """Otherwise a file that is added later would be the first to be noticed."""
    tmp_path.chmod(0o1777)
    assert paths_in(load_errors(Requested(directories=(tmp_path,)))) == {str(tmp_path)}


# Attacks by another user


@as_root
def test_another_user_drops_a_file_into_a_sticky_folder(shared: Path) -> None:
    write(shared, {"good.py": plugin("Good")})
    shared.chmod(0o1777)
    attack(f"cat > evil.py <<'END'\n{EVIL}END", shared)
    assert paths_in(load_errors(Requested(directories=(shared,)))) == {str(shared)}
    errors = load_errors(named(shared / "evil.py"))
    assert paths_in(errors) == {str(shared), str(shared / "evil.py")}


@as_root
def test_another_user_creates_the_folder_first(shared: Path) -> None:
    shared.chmod(0o1777)
    attack(f"mkdir plugins; cat > plugins/a.py <<'END'\n{EVIL}END", shared)
    assert str(shared / "plugins") in paths_in(load_errors(Requested(directories=(shared / "plugins",))))
    attack("mv plugins hidden; mkdir plugins; ln -s ../hidden/a.py plugins/a.py", shared)
    assert str(shared / "plugins") in paths_in(load_errors(Requested(directories=(shared / "plugins",))))


@as_root
def test_another_user_swaps_a_link_while_the_plugin_is_loaded(shared: Path) -> None:
    write(shared, {"good/a.py": plugin("A"), "drop/placeholder": ""})
    (shared / "drop").chmod(0o1777)
    attack(f"mkdir evil; cat > evil/a.py <<'END'\n{EVIL}END\nln -s ../good link", shared / "drop")
    swap = "while :; do ln -s ../good next; mv -T next link; ln -s evil next; mv -T next link; done"
    swapper = subprocess.Popen(
        ["/bin/sh", "-c", swap], cwd=shared / "drop", user=FOREIGN, group=FOREIGN, extra_groups=[],
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    targets = set()
    try:
        for _ in range(100):
            targets.add(os.readlink(shared / "drop/link"))
            with pytest.raises(PluginLoadError):
                find_plugins(named(shared / "drop/link/a.py"))
        while len(targets) < 2:  # the other process has started
            targets.add(os.readlink(shared / "drop/link"))
    finally:
        swapper.kill()
        swapper.wait()
    assert paths_in(load_errors(named(shared / "drop/link/a.py"))) >= {str(shared / "drop/link")}


@as_root
def test_another_user_cannot_change_a_trusted_plugin_in_a_sticky_folder(shared: Path) -> None:
    write(shared, {"plugins/a.py": plugin("A")})
    shared.chmod(0o1777)
    attempts = ["mv plugins mine", "rm -r plugins", "echo > plugins/a.py", "ln -sfT /etc plugins", "touch plugins/b"]
    for command in attempts:
        with pytest.raises(subprocess.CalledProcessError):
            attack(f"exec 2>/dev/null; {command}", shared)
    assert "A" in find_plugins(Requested(directories=(shared / "plugins",))).found


@as_root
def test_a_reload_rejects_files_that_became_foreign(shared: Path) -> None:
    write(shared, {"plugins/a.py": plugin("A")})
    files = SetupFiles(None, Requested(directories=(shared / "plugins",)))
    before = files.load()
    os.chown(shared / "plugins", FOREIGN, -1)
    attack(f"mv plugins/a.py plugins/old; cat > plugins/a.py <<'END'\n{EVIL}END", shared)
    with pytest.raises(PluginLoadError, match="belongs to the user"):
        files.load(before)


@as_root
@pytest.mark.parametrize("change", ["own", "open"])
def test_a_configuration_file_that_names_plugins_must_be_trusted(shared: Path, change: str) -> None:
    text = f"{enabling('A')}---\n{SOURCES}allowWritable: true\ndirectories: [.]\n"
    write(shared, {"evil.py": EVIL, "config.yaml": text})
    config = shared / "config.yaml"
    os.chown(shared / "evil.py", FOREIGN, -1)
    if change == "own":
        os.chown(config, FOREIGN, -1)
    else:
        config.chmod(0o666)
    with pytest.raises(PluginLoadError) as caught:
        SetupFiles(config).load()
    assert paths_in(str(caught.value).splitlines()) == {str(config)}
    for command in ("view", "migrate"):
        result = CliRunner().invoke(main, ["config", command, str(config)])
        assert result.exit_code == 1
        assert f"{config}: " in result.output
        assert "who could run code in the scheduler" in result.output


def test_a_configuration_file_without_plugins_may_belong_to_anyone(tmp_path: Path) -> None:
    write(tmp_path, {"config.yaml": enabling("NodeName")})
    (tmp_path / "config.yaml").chmod(0o666)
    assert SetupFiles(tmp_path / "config.yaml").load().config


def test_data_files_of_plugins_must_be_trusted(tmp_path: Path) -> None:
    declared = plugin("A").replace("(Plugin):\n", "(Plugin):\n    watch_files = ['data/racks.csv']\n")
    write(tmp_path, {"plugins/a.py": declared, "plugins/data/racks.csv": "a,b\n"})
    files = SetupFiles(None, Requested(directories=(tmp_path / "plugins",)))
    before = files.load()
    for open_to_all in ("plugins/data", "plugins/data/racks.csv"):
        mode = stat.S_IMODE((tmp_path / open_to_all).stat().st_mode)
        (tmp_path / open_to_all).chmod(0o777)
        for known in (None, before):
            with pytest.raises(PluginLoadError) as caught:
                files.load(known)
            assert paths_in(str(caught.value).splitlines()) == {str(tmp_path / open_to_all)}
        (tmp_path / open_to_all).chmod(mode)
    assert files.load(before).plugins == before.plugins


# Volumes of pods


def config_map(folder: Path) -> Path:
    """Create the files of a ConfigMap volume as the kubelet does: all bits set, and links to a folder that it swaps."""
    write(folder, {"..2026_11_16/a.py": plugin("A")})
    (folder / "..data").symlink_to("..2026_11_16")
    (folder / "a.py").symlink_to("..data/a.py")
    folder.chmod(0o777)
    return folder


def test_a_read_only_volume_may_have_all_bits_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = config_map(tmp_path / "plugins")
    assert paths_in(load_errors(Requested(directories=(folder,)))) == {str(folder)}
    flags = os.statvfs(tmp_path).f_flag | os.ST_RDONLY
    monkeypatch.setattr(os, "fstatvfs", lambda _file: types.SimpleNamespace(f_flag=flags))
    assert "A" in find_plugins(Requested(directories=(folder,))).found


@as_root
def test_a_config_map_is_accepted_on_a_real_read_only_mount(shared: Path) -> None:
    folder = config_map(shared / "plugins")
    start = "from mooring.cli.main import entry; entry()"
    command = [sys.executable, "-c", start, "plugin", "list", "--plugins-dir", str(folder)]
    mount = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" || exit 77; exec "$@"'
    try:
        result = subprocess.run(
            ["unshare", "--mount", "sh", "-c", mount, str(folder), *command],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip("there is no unshare")
    if result.returncode == 77 or "unshare" in result.stderr:
        pytest.skip("mounting is not permitted here")
    assert result.returncode == 0, result.stderr
    assert "A" in result.stdout.split()


@as_root
def test_a_foreign_owner_is_rejected_also_on_a_read_only_volume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner may be able to write the same files over another mount."""
    folder = config_map(tmp_path / "plugins")
    os.chown(folder / "..2026_11_16", FOREIGN, -1)
    monkeypatch.setattr(os, "fstatvfs", lambda _file: types.SimpleNamespace(f_flag=os.ST_RDONLY))
    assert paths_in(load_errors(Requested(directories=(folder,)))) == {str(folder / "..2026_11_16")}


# Groups


@as_root
def test_a_foreign_group_must_not_write(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": plugin("A")})
    (tmp_path / "a.py").chmod(0o664)
    os.chown(tmp_path / "a.py", -1, 12345)
    errors = load_errors(Requested(directories=(tmp_path,)))
    assert "can be written by the group 12345" in errors[0]
    assert f"run `chmod g-w {tmp_path / 'a.py'}`" in errors[0]


def account(name: str, user: int, group: int) -> pwd.struct_passwd:
    return pwd.struct_passwd((name, "x", user, group, "", "/", "/bin/sh"))


@pytest.mark.parametrize(
    ("others", "members", "accepted"),
    [
        ([], [], True),
        ([], ["me", "root"], True),
        ([account("eve", 4242, 777)], [], False),
        ([account("eve", 4242, 4242)], ["eve"], False),
        ([], ["someone-without-an-account"], False),
    ],
)
def test_a_group_may_write_if_it_has_no_other_members(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    others: list[pwd.struct_passwd],
    members: list[str],
    accepted: bool,
) -> None:
    """As with the umask 002 where every user has a group of the same name."""
    write(tmp_path, {"a.py": plugin("A")})
    (tmp_path / "a.py").chmod(0o664)
    group = (tmp_path / "a.py").stat().st_gid
    everyone = [account("root", 0, 0), account("me", os.geteuid(), group), *others]
    if others and others[0].pw_gid == 777:
        everyone[-1] = account("eve", 4242, group)
    monkeypatch.setattr(pwd, "getpwall", lambda: everyone)
    monkeypatch.setattr(grp, "getgrgid", lambda _group: grp.struct_group(("me", "x", group, members)))
    _is_private.cache_clear()
    try:
        assert (distrust(tmp_path / "a.py") == []) is accepted
    finally:
        _is_private.cache_clear()


def test_an_access_control_list_counts_as_writable_by_the_group(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": plugin("A")})
    write_all = [(0x01, 6, -1), (0x02, 6, FOREIGN), (0x04, 4, -1), (0x10, 6, -1), (0x20, 4, -1)]
    entries = b"".join(struct.pack("<HHi", *entry) for entry in write_all)
    try:
        os.setxattr(tmp_path / "a.py", "system.posix_acl_access", struct.pack("<I", 2) + entries)
    except (OSError, AttributeError):
        pytest.skip("the file system has no access control lists")
    assert "can be written by the group" in load_errors(named(tmp_path / "a.py"))[0]


# Paths that cannot be opened


def test_a_path_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        read_trusted(tmp_path / "loop")
    (tmp_path / "a.py").symlink_to("nowhere/b.py")
    with pytest.raises(FileNotFoundError) as caught:
        read_trusted(tmp_path / "a.py")
    assert caught.value.filename == str(tmp_path / "nowhere")
    assert distrust(tmp_path / "a.py") == []
    with pytest.raises(IsADirectoryError):
        read_trusted(tmp_path)


def test_a_named_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.py")
    assert distrust(tmp_path / "a.py") == []
    assert load_errors(named(tmp_path / "a.py")) == [f"{tmp_path / 'a.py'}: no such file"]


def test_relative_paths_are_opened_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"plugins/a.py": "x = 1", "inner/b.py": ""})
    monkeypatch.chdir(tmp_path / "inner")
    assert read_trusted(Path("../plugins/./a.py")) == b"x = 1"
