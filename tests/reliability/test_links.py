"""In folders that labeltree writes nothing is read, written or locked through a link."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from labeltree.errors import DataError, TaxonomyError
from labeltree.index.lance_store.lance_store import LanceStore
from labeltree.links import check_regular, refuse_links
from labeltree.lock import LOCK, lock_folder, writer_of
from labeltree.runs import RunFolder
from labeltree.runs.parts import PartFolder
from labeltree.safe_files import Reader, read_arrays, read_json, read_parquet, read_tensors, read_torch
from labeltree.studies.study_file import read_study
from labeltree.studies.study_results import Book
from labeltree.taxonomy import load_taxonomy

STUDY = """
title: T
shared: {data: emoji-text, encoder: small-text, epochs: 1}
seeds: [0]
methods: {supcon: {settings: {objective: supcon}}}
"""


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file outside of every folder that labeltree writes."""
    file = tmp_path / "private"
    file.write_text("secret")
    return file


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    (folder / "embeddings").mkdir(parents=True)
    (folder / "recipe.yaml").write_text("objective: supcon\n")
    return folder


def symbolic(place: Path, victim: Path) -> None:
    place.symlink_to(victim)


def dangling(place: Path, victim: Path) -> None:
    place.symlink_to(victim.with_name("missing"))


def folder(place: Path, victim: Path) -> None:
    place.symlink_to(victim.parent)


def pipe(place: Path, victim: Path) -> None:
    os.mkfifo(place)


def hard(place: Path, victim: Path) -> None:
    place.hardlink_to(victim)


KINDS = [symbolic, dangling, folder, pipe, hard]


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("name", ["metrics.json", "embeddings/trained.npz", "of-somebody"])
def test_a_run_with_a_link_is_not_opened(
    run: Path, victim: Path, name: str, make: Callable[[Path, Path], None]
) -> None:
    assert RunFolder(run).require().path == run
    make(run / name, victim)
    with pytest.raises(DataError, match=rf"{name}.* (link|pipe).*is not followed"):
        RunFolder(run).require()


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("name", ["metrics.json", "report.html", "checkpoints", LOCK])
def test_nothing_is_written_through_a_link(
    run: Path, victim: Path, name: str, make: Callable[[Path, Path], None]
) -> None:
    make(run / name, victim)
    with pytest.raises(DataError, match=name), RunFolder(run).locked():
        pass
    assert victim.read_text() == "secret"
    assert set(os.listdir(run)) <= {"recipe.yaml", "embeddings", name}
    assert not victim.with_name("missing").exists()


def test_other_files_beside_an_output_may_be_links(run: Path, victim: Path) -> None:
    """``--out .`` in a folder with somebody's links."""
    (run / "data").symlink_to(victim.parent)
    with RunFolder(run).locked():
        pass


@pytest.mark.parametrize("make", KINDS)
def test_a_lock_that_is_a_link(tmp_path: Path, victim: Path, make: Callable[[Path, Path], None]) -> None:
    (tmp_path / "any").mkdir()
    make(tmp_path / "any" / LOCK, victim)
    assert writer_of(tmp_path / "any") is None
    with pytest.raises(DataError, match=LOCK), lock_folder(tmp_path / "any"):
        pass
    assert victim.read_text() == "secret"


def test_links_to_the_folder_and_within_it_stay(run: Path, tmp_path: Path) -> None:
    """An extension has the weights of its run under another name."""
    (run / "encoder.safetensors").write_text("weights")
    (run / "extensions" / "1").mkdir(parents=True)
    (run / "extensions" / "1" / "encoder.safetensors").hardlink_to(run / "encoder.safetensors")
    (run / "extensions" / "1" / "extension.json").write_text("{}")
    (run / "extensions" / "1" / "model.json").write_text("{}")
    (tmp_path / "latest").symlink_to(run)
    for place in (run, run / "extensions" / "1", tmp_path / "latest"):
        RunFolder(place).require()
    refuse_links(tmp_path / "none")
    refuse_links(run / "recipe.yaml")


@pytest.mark.parametrize("name", ["README.md", "results.json", "table.csv", "runs/supcon-seed0", "figures"])
@pytest.mark.parametrize("make", KINDS)
def test_a_study_with_a_link(
    tmp_path: Path, victim: Path, name: str, make: Callable[[Path, Path], None]
) -> None:
    file = tmp_path / "mine" / "study.yaml"
    (file.parent / name).parent.mkdir(parents=True, exist_ok=True)
    file.write_text(STUDY)
    study = read_study(file)
    (file.parent / "data").symlink_to(tmp_path)  # somebody's own
    Book(file, study)
    make(file.parent / name, victim)
    with pytest.raises(DataError, match=name):
        Book(file, study)


@pytest.mark.parametrize("make", KINDS)
def test_an_index_and_parts_with_a_link(
    tmp_path: Path, victim: Path, make: Callable[[Path, Path], None]
) -> None:
    rows = tmp_path / "index" / "rows.lance"
    rows.mkdir(parents=True)
    make(rows / "part-00000.parquet", victim)
    with pytest.raises(DataError, match="part-00000"):
        LanceStore.open(tmp_path / "index")
    with pytest.raises(DataError, match="part-00000"), PartFolder(rows).locked():
        pass
    assert victim.read_text() == "secret"


@pytest.mark.parametrize("read", [read_json, read_arrays, read_parquet, read_tensors, read_torch])
def test_a_pipe_is_not_waited_for(tmp_path: Path, read: Callable[[Path, Reader], object]) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "link"):
        with pytest.raises(DataError, match="not a file but a pipe"):
            read(tmp_path / name, Reader("a file", "take another"))


def test_a_taxonomy_that_is_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "tree.yaml")
    with pytest.raises(TaxonomyError, match="not a file but a pipe"):
        load_taxonomy(tmp_path / "tree.yaml")
    check_regular(tmp_path)
    check_regular(tmp_path / "none")
