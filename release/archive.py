"""Archives with the same bytes whenever, wherever and by whomever they are packed, and the list of checksums."""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Entry:
    """A file of an archive."""

    content: bytes
    program: bool = False


def pack(path: Path, directory: str, entries: Mapping[str, Entry], time: int) -> None:
    """Writes a compressed tar archive whose entries are below one directory: sorted, of root, with the time of the commit."""
    with path.open("wb") as file, gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as compressed:
        # Nothing of this system is in a header of this format: no times of access, no numbers of devices, no names of users.
        with tarfile.open(fileobj=compressed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            parents = {str(parent) for name in entries for parent in Path(directory, name).parents} - {"."}
            for name in sorted({*parents, *(f"{directory}/{name}" for name in entries)}):
                add(tar, name, entries.get(name.removeprefix(f"{directory}/")), time)


def add(tar: tarfile.TarFile, name: str, entry: Entry | None, time: int) -> None:
    """Adds a file, or a directory where there is no entry."""
    info = tarfile.TarInfo(name)
    info.mtime = time
    if entry is None:
        info.type, info.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(info)
        return
    info.mode = 0o755 if entry.program else 0o644
    info.size = len(entry.content)
    tar.addfile(info, io.BytesIO(entry.content))


def sha256(path: Path) -> str:
    """Returns the checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_sums(directory: Path) -> None:
    """Writes SHA256SUMS over every other file of the directory, in the format of `sha256sum --check`."""
    files = sorted(file for file in directory.iterdir() if file.name != "SHA256SUMS")
    lines = [f"{sha256(file)}  {file.name}\n" for file in files]
    (directory / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
