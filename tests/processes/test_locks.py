"""Two processes in one folder: the second is told who writes there, and a lock ends with its process."""

import errno
import os
import shutil
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

import labeltree as lt
from labeltree.cli.main import main
from labeltree.datasets.fetching.atomic_download import downloading
from labeltree.errors import FolderInUseError, RunError, WriteError
from labeltree.lock import LOCK, lock_folder, writer_of
from labeltree.runs import RunFolder

pytestmark = pytest.mark.slow

HOLDS = """
    import sys
    from labeltree.lock import lock_folder
    with lock_folder(sys.argv[1]):
        print("held", flush=True)
        sys.stdin.read()
"""


@contextmanager
def held(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The folder locked by another process."""
    words = [sys.executable, "-c", textwrap.dedent(HOLDS), str(folder)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    try:
        yield process
    finally:
        process.communicate()


def test_the_second_is_told_who_holds_it_and_the_lock_dies_with_its_holder(tmp_path: Path) -> None:
    with held(tmp_path) as process:
        with pytest.raises(FolderInUseError) as told, lock_folder(tmp_path):
            pass
        said = str(told.value)
        assert f"'{tmp_path}' is in use: process {process.pid} on '{os.uname().nodename}'" in said
        assert f"('-c {tmp_path}', since 2" in said
        assert said.endswith("is writing there; wait until it has ended, or stop it")
        assert writer_of(tmp_path) in said
        process.kill()
    assert (tmp_path / LOCK).is_file()  # of a dead process, which bars nobody
    assert writer_of(tmp_path) is None
    with lock_folder(tmp_path):
        assert (tmp_path / LOCK).is_file()
    assert not list(tmp_path.iterdir())


def test_again_within_and_not_from_another_thread(tmp_path: Path) -> None:
    with lock_folder(tmp_path), lock_folder(tmp_path / "." / "x" / ".."):
        refused: list[Exception] = []

        def other() -> None:
            try:
                with lock_folder(tmp_path):
                    pass
            except FolderInUseError as error:
                refused.append(error)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert len(refused) == 1
    with lock_folder(tmp_path):
        pass


def test_a_folder_made_for_the_lock_goes_if_nothing_came_into_it(tmp_path: Path) -> None:
    with lock_folder(tmp_path / "runs" / "a"):
        pass
    assert not list(tmp_path.iterdir())
    with lock_folder(tmp_path / "runs" / "a"):
        (tmp_path / "runs" / "a" / "file").touch()
    assert [path.name for path in (tmp_path / "runs" / "a").iterdir()] == ["file"]


def test_the_folder_may_be_moved_under_the_lock(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with lock_folder(tmp_path / "a"):
        (tmp_path / "a").rename(tmp_path / "b")
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / LOCK).write_text("of another")
    assert (tmp_path / "a" / LOCK).read_text() == "of another"


def test_systems_without_locks_and_folders_that_may_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    with monkeypatch.context() as patched:
        patched.setattr("labeltree.atomic.fcntl.flock", refuses)
        warned = pytest.warns(UserWarning, match=f"the file system of '{tmp_path}' has no locks")
        with warned, lock_folder(tmp_path):
            pass
    assert not list(tmp_path.iterdir())

    def read_only(path: Path, *_: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    with monkeypatch.context() as patched:
        patched.setattr("labeltree.lock.os.open", read_only)
        with pytest.raises(WriteError, match=f"cannot write '{tmp_path}': read-only"), lock_folder(tmp_path):
            pass


def test_a_download_in_the_same_folder(tmp_path: Path) -> None:
    """The second would delete what the first has downloaded so far."""
    (tmp_path / ".download").mkdir()
    (tmp_path / ".download" / "part").touch()
    with held(tmp_path):
        with pytest.raises(FolderInUseError, match="is writing there"), downloading(tmp_path, "words"):
            pass
        assert (tmp_path / ".download" / "part").is_file()
    with downloading(tmp_path, "words"):
        pass
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def trained(image_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "photos"
    words = f"train --data {image_folder} --objective supcon --out {out} --epochs 1 --batch-size 10"
    assert main([*words.split(), "--image-size", "16", "--accelerator", "cpu", "--quiet"]) == 0
    return out


def test_every_command_that_writes_asks_for_the_lock(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = tmp_path / "begun"  # a run whose training has not finished
    begun.mkdir()
    for name in ("recipe.yaml", "taxonomy.json", "samples.npz"):
        (begun / name).write_bytes((trained / name).read_bytes())
    study = tmp_path / "study"
    study.mkdir()
    shared = yaml.safe_load((trained / "recipe.yaml").read_text())
    plan = {"title": "S", "select": "val_map_at_r", "shared": shared, "seeds": [0], "trial_seed": 0}
    methods = {"A": {"settings": {"objective": "supcon"}}}
    (study / "study.yaml").write_text(yaml.safe_dump({**plan, "methods": methods, "baselines": []}))
    (study / "results.json").write_text('{"results": [], "choices": {}}')
    lt.evaluate(trained, out=tmp_path / "first", resamples=0)
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    table = RunFolder(trained).embeddings()
    commands = {
        begun: [f"train --config {begun}/recipe.yaml --out {begun} --quiet"],
        trained: [f"evaluate {trained} --quiet", f"calibrate {trained}", f"embed {trained}"],
        tmp_path / "out": [
            f"evaluate {trained} --out {tmp_path}/out --quiet",
            f"evaluate --embeddings {table} --taxonomy {trained}/taxonomy.json --out {tmp_path}/out",
            f"compare {tmp_path}/first {tmp_path}/second --out {tmp_path}/out",
        ],
        study: [f"study {study}/study.yaml --jobs 1 --quiet", f"study {study}/study.yaml --tables"],
    }
    for folder, lines in commands.items():
        with held(folder) as process:
            before = sorted(path for path in folder.rglob("*"))
            capsys.readouterr()
            for line in lines:
                assert main(line.split()) == 2, line
                said = capsys.readouterr().err
                assert f"'{folder}' is in use: process {process.pid} on" in said, line
                assert sorted(path for path in folder.rglob("*")) == before
            # who only reads is let in
            if folder == trained:
                assert main(["train", "--config", f"{trained}/recipe.yaml", "--out", str(trained)]) == 0
                lt.evaluate(trained, out=tmp_path / "read", resamples=0)
                assert main(["embed", str(trained), "--out", f"{tmp_path}/table.npz"]) == 0
            if folder == study:
                assert main(["study", f"{study}/study.yaml", "--dry-run"]) == 0
            if folder == begun:
                with pytest.raises(RunError, match=f"It is under way: process {process.pid}"):
                    RunFolder(begun).load_weights()


def test_leftovers_in_a_run_are_cleared_by_who_holds_the_lock(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    ours = [".history-abcd_123.csv", ".report-12345678.html", "checkpoints/.last-x2345678.ckpt"]
    ours += ["embeddings/.trained-12345678.npz", "embeddings/.of-photos-12345678.npz"]
    theirs = [".notes-12345678.txt", ".history-of-mine.csv", "embeddings/.hidden"]
    for name in ours + theirs:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    with folder.locked():
        pass
    assert [name for name in ours if (tmp_path / name).exists()] == []
    assert all((tmp_path / name).exists() for name in theirs)


def test_a_run_that_was_killed_when_all_was_written(trained: Path) -> None:
    (trained / LOCK).touch()
    (trained / ".encoder-12345678.safetensors").touch()
    assert main(["train", "--config", f"{trained}/recipe.yaml", "--out", str(trained), "--quiet"]) == 0
    assert not list(trained.glob(".*"))
