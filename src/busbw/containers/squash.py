"""An image as a squash file in a folder that nodes share, for pyxis: imported once, by its version."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TextIO

from busbw.containers.steps import Step, run_steps
from busbw.containers.table import Arch
from busbw.errors import SiteError, UsageError

_MAGIC: Final = b"hsqs"  # every squashfs begins so (linux/fs/squashfs/squashfs_fs.h)
# Types of /proc/mounts that other hosts can see.
_SHARED: Final = frozenset(
    (
        *("nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb3", "afs", "wekafs"),
        *("pvfs2", "orangefs", "panfs", "glusterfs", "9p", "virtiofs"),
    )
)
_UNSUPPORTED: Final = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
_NO_TAG: Final = ("", "latest")


def enroot_uri(reference: str) -> str:
    """A reference to a registry's image, as enroot takes it; enroot's own form, REGISTRY#IMAGE:TAG, is kept.
    Raises UsageError where it has no version.
    """
    plain = reference.removeprefix("docker://")
    registry, mark, rest = plain.partition("#" if "#" in plain else "/")
    is_host = mark and (mark == "#" or "." in registry or ":" in registry or registry == "localhost")
    if _version(rest if is_host else plain) in _NO_TAG:
        raise UsageError(
            f"{reference} has no version, and squash files are kept by it", hint="name one: IMAGE:TAG"
        )
    return f"docker://{registry}#{rest}" if is_host else f"docker://{plain}"


def _version(image: str) -> str:
    name, at, digest = image.partition("@")
    return digest if at else name.rpartition("/")[2].partition(":")[2]


def file_name(reference: str) -> str:
    """The squash file's name: registry, path and version."""
    plain = re.sub(r"^\w+://", "", reference).removeprefix("localhost/")
    return re.sub(r"[^\w.-]+", "+", plain) + ".sqsh"


def import_step(uri: str, output: Path, arch: Arch, here: Arch) -> Step:
    """The command that imports an image."""
    other = ("--arch", arch) if arch != here else ()
    return Step(("enroot", "import", *other, "--output", str(output), uri))


def temporary(file: Path) -> Path:
    """Where an import goes before it is whole: into the same folder, so that a rename suffices."""
    return file.with_name(f".{file.name}.{socket.gethostname()}.{os.getpid()}")


def squash(step: Step, file: Path, errors: TextIO, *, force: bool = False) -> bool:
    """Import into ``file``, unless it is there; says whether it was imported now. ``step`` writes
    ``temporary(file)``.

    Of several at once, on any host, one imports and the others wait for it. Readers see no half file. Raises
    SiteError.
    """
    if file.is_file() and not force:
        return False
    _check_folder(file.parent)
    before = _stamp(file)
    with _alone(file, errors):
        if file.is_file() and (not force or _stamp(file) != before):
            return False  # another was faster
        part = temporary(file)
        try:
            run_steps((step,), errors)
            _check_squash(part)
            part.rename(file)
        except OSError as error:
            raise SiteError(f"cannot write {file}: {error.strerror}") from error
        finally:
            part.unlink(missing_ok=True)
    return True


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise SiteError(f"no folder {folder}", hint="make it, on a file system that the nodes share")
    if not os.access(folder, os.W_OK):
        raise SiteError(f"cannot write into {folder}", hint="choose a folder of your own with --into")


def _check_squash(part: Path) -> None:
    with part.open("rb") as stream:
        if stream.read(len(_MAGIC)) != _MAGIC:
            raise SiteError("what enroot has made is no squash file", hint="import it by hand to see why")


@contextlib.contextmanager
def _alone(file: Path, errors: TextIO) -> Iterator[None]:
    """Hold the folder's lock for this file. It is the kernel's (of the file server, over NFS), so a process
    that dies leaves none behind. Where the file system has no locks, imports may happen twice, and the last
    rename counts: both files are whole.
    """
    path = file.with_name(f".{file.name}.lock")
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise SiteError(f"cannot write {path}: {error.strerror}") from error
        try:
            _lock(descriptor, file, errors)
            if _is_same(descriptor, path):
                try:
                    yield
                finally:  # while it is held: who waits sees that it is another file
                    path.unlink(missing_ok=True)
                return
        finally:
            os.close(descriptor)


def _lock(descriptor: int, file: Path, errors: TextIO) -> None:
    try:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            errors.write(f"another import of {file.name} is under way: waiting for it\n")
            errors.flush()
            fcntl.lockf(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise SiteError(f"cannot lock {file.parent}: {error.strerror}") from error


def _is_same(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def file_system(folder: Path, mounts: str) -> str:
    """The type of the file system that a folder is on, by the text of /proc/mounts."""
    found, longest = "", -1
    for line in mounts.splitlines():
        words = line.split()
        if len(words) < 3:
            continue
        place = words[1].encode().decode("unicode_escape")  # \040 is a blank
        if folder.is_relative_to(place) and len(place) >= longest:
            found, longest = words[2], len(place)
    return found


def is_shared(kind: str) -> bool:
    """Whether other hosts can see such a file system."""
    return kind in _SHARED or kind.startswith("fuse.")
