"""Writes the data of a ConfigMap as files, as kubelets do: behind a symbolic link that is replaced atomically."""

import shutil
from pathlib import Path


def write_config_map(place: Path, version: str, data: dict[str, str]) -> None:
    """Write a version of the data, and remove the previous one."""
    fresh, link = place / f"..{version}", place / "..data_tmp"
    fresh.mkdir(parents=True)
    for name, text in data.items():
        (fresh / name).write_text(text)
    link.symlink_to(fresh.name)
    link.replace(place / "..data")
    for name in data:
        if not (place / name).is_symlink():
            (place / name).symlink_to(Path("..data", name))
    for entry in place.iterdir():
        if entry.name.startswith(".."):
            if entry.name not in ("..data", fresh.name):
                shutil.rmtree(entry)
        elif entry.name not in data:
            entry.unlink()
