"""Write files atomically, and remove temporary files left by killed processes.

A temporary file or folder stays locked as long as its process lives. Thus leftovers can be distinguished from
files that another process is writing.
"""

import contextlib
import errno
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from labeltree.errors import DataError, WriteError

try:
    import fcntl
except ImportError:  # Windows: no locks, and leftovers stay
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "atomic_write",
    "clear_leftovers",
    "new_folder_in",
    "refuse_inputs",
    "take_lock",
    "temporary_beside",
    "wait_for_lock",
    "write_text",
    "writing",
]

_RANDOM = "[a-z0-9_]{8}"  # the random part of tempfile's names
_umask_lock = threading.Lock()  # the mask can only be read by setting it
_NEW = ".new-"


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` that replaces it when the block ends without an error.

    The temporary file keeps the suffix of `path`, so writers that go by the suffix work. Missing
    parent directories are created. If the block raises, `path` is left unchanged. If `path` is a symbolic
    link, its target is replaced. A device or a pipe, such as `/dev/stdout`, is written directly.

    Raises:
        WriteError: If the disk is full or writing is not permitted.
    """
    target = Path(os.path.realpath(path))
    with writing(path):
        if target.is_dir():
            raise WriteError(errno.EISDIR, "it is a folder", str(path))
        if target.exists() and not target.is_file():
            yield target
            return
        with temporary_beside(target) as temporary:
            yield temporary
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            os.replace(temporary, target)
            _sync_folder(target.parent)


def refuse_inputs(out: str | os.PathLike[str], *inputs: str | os.PathLike[str] | None) -> None:
    """Raise a `DataError` if what is written would replace what is read."""
    for one in inputs:
        if one is not None and Path(out).resolve() == Path(one).resolve():
            raise DataError(f"--out '{out}' is what is read; name another file")


def write_text(path: str | Path, text: str) -> None:
    """Write a text file, as a whole or not at all; see `atomic_write`."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, "utf-8")


@contextmanager
def temporary_beside(target: Path) -> Iterator[Path]:
    """Yield an empty file beside `target`, with its suffix; it is deleted at the end if still there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    clear_leftovers(target)
    while True:
        handle, name = tempfile.mkstemp(prefix=f".{target.stem}-", suffix=target.suffix, dir=target.parent)
        temporary = Path(name)
        os.chmod(temporary, 0o666 & ~_umask())  # mkstemp creates private files
        # before it is locked, another process or thread may take it for a leftover, and lock and clear it
        if take_lock(handle) is not False and temporary.exists():
            break
        os.close(handle)
    try:
        yield temporary
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        os.close(handle)


@contextmanager
def new_folder_in(parent: Path) -> Iterator[Path]:
    """Yield an empty folder in `parent`, created if missing; it is deleted at the end if still there."""
    parent.mkdir(parents=True, exist_ok=True)
    _clear(parent, re.compile(re.escape(_NEW) + _RANDOM))
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_NEW, dir=parent))
        handle, ours = None, True
        try:
            if fcntl is not None:
                handle = os.open(folder, os.O_RDONLY)
                ours = take_lock(handle) is not False
        except FileNotFoundError:  # as in `temporary_beside`
            continue
        if ours and folder.exists():
            break
        if handle is not None:
            os.close(handle)
    try:
        os.chmod(folder, 0o777 & ~_umask())
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if handle is not None:
            os.close(handle)


def clear_leftovers(*targets: Path) -> None:
    """Delete temporary files for these targets left by killed processes; a stem `*` matches any name."""
    for target in targets:
        stem = ".+" if target.stem == "*" else re.escape(target.stem)
        _clear(target.parent, re.compile(rf"\.{stem}-{_RANDOM}{re.escape(target.suffix)}"))


def take_lock(handle: int) -> bool | None:
    """Lock an open file until it is closed or its process ends.

    Returns:
        True if this process now holds the lock, False if another one does, None if locks are unsupported.
    """
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def wait_for_lock(handle: int) -> None:
    """Lock an open file as `take_lock` does, but wait for another process; nothing where unsupported."""
    if fcntl is not None:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Convert system errors about writing `path` within the block to a `WriteError` that names it."""
    try:
        yield
    except WriteError:
        raise
    except Exception as error:
        refused = _refusal(error, Path(path))
        if refused is None:
            raise
        raise WriteError(refused.errno, refused.strerror, str(path)) from error


def _refusal(error: BaseException, path: Path) -> OSError | None:
    """The system error that caused an error to write `path`; None for errors about reading other files."""
    target, seen = _real(path), [error]
    while seen[-1].__cause__ or seen[-1].__context__:
        seen.append(seen[-1].__cause__ or seen[-1].__context__)  # type: ignore[arg-type]
    for one in seen:
        if isinstance(one, OSError) and one.errno is not None and _concerns(one, target):
            return one
    return None


def _concerns(error: OSError, target: Path) -> bool:
    """Whether an error is about a file, its temporary file, or one of its parent folders."""
    name = error.filename if error.filename2 is None else error.filename2
    if not isinstance(name, str | bytes):
        return True  # an error of writing to an open file
    about = _real(Path(os.fsdecode(name)))
    is_temporary = about.parent == target.parent and about.name.startswith(f".{target.stem}-")
    return is_temporary or about.is_relative_to(target) or target.is_relative_to(about)


def _real(path: Path) -> Path:
    """The path with its folder's links followed."""
    return Path(os.path.realpath(path.parent), path.name)


def _clear(folder: Path, names: re.Pattern[str]) -> None:
    with contextlib.suppress(OSError):
        for name in filter(names.fullmatch, os.listdir(folder)):
            _clear_abandoned(folder / name)


def _clear_abandoned(path: Path) -> None:
    """Delete a file or folder that no living process has locked."""
    with contextlib.suppress(OSError):
        is_folder = path.is_dir()
        handle = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
        try:
            if take_lock(handle):
                shutil.rmtree(path, ignore_errors=True) if is_folder else path.unlink()
        finally:
            os.close(handle)


def _sync_folder(folder: Path) -> None:
    """Flush a folder to disk, so that a renamed file survives a crash; ignored where unsupported."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _umask() -> int:
    with _umask_lock:
        current = os.umask(0)
        os.umask(current)
    return current
