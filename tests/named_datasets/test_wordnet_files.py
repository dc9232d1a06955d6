"""How WordNet's noun files come into the cache, from a miniature of the Debian package."""

import os
from pathlib import Path

import pytest

from labeltree.data import fetch, open_source
from labeltree.datasets import wordnet, wordnet_folder
from labeltree.errors import DataError

LINES = {"data.noun": 3, "index.noun": 4, "noun.exc": 2}


def write_files(folder: Path, lines: dict[str, int]) -> Path:
    folder.mkdir(parents=True)
    for name, count in lines.items():
        (folder / name).write_text("  1 the licence\n" + "entry\n" * count)
    return folder


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A machine with apt and without WordNet; what the package holds can be changed."""
    held = dict(LINES)
    monkeypatch.setattr(wordnet, "NOUN_FILES", LINES)
    monkeypatch.setattr(wordnet, "INSTALLED", Path("/nowhere/wordnet"))
    monkeypatch.setattr(wordnet, "has_apt", lambda: True)
    asked = []

    def unpack(name, work, size, progress):
        asked.append(name)
        root = tmp_path / f"unpacked{len(asked)}"
        write_files(root / "nowhere" / "wordnet", held)
        return root

    monkeypatch.setattr(wordnet, "unpack_package", unpack)
    return held, asked


def test_fetch_from_the_package(package, cache_folder):
    _, asked = package
    with pytest.raises(DataError, match="'labeltree data get wordnet' fetches them"):
        wordnet_folder()
    folder = fetch("wordnet")
    assert folder == wordnet_folder() == cache_folder / "wordnet"
    assert sorted(os.listdir(folder)) == sorted(LINES), "nothing else is left"
    fetch("wordnet")
    assert asked == ["wordnet-base"]
    (folder / "data.noun").write_text("half")
    fetch("wordnet")
    assert asked == ["wordnet-base"] * 2, "what is damaged is fetched again"


def test_another_dictionary_is_refused(package, cache_folder):
    held, _ = package
    held["index.noun"] = 9
    with pytest.raises(DataError, match=r"is not WordNet 3.0: .*index.noun' has 9 entries where 4 were"):
        fetch("wordnet")
    del held["data.noun"]
    with pytest.raises(DataError, match=r"is not WordNet 3.0: there is no .*data.noun"):
        fetch("wordnet")
    assert not list((cache_folder / "wordnet").glob("*.noun"))


def test_the_installed_package_is_used_and_its_absence_said(package, tmp_path, monkeypatch):
    _, asked = package
    monkeypatch.setattr(wordnet, "has_apt", lambda: False)
    with pytest.raises(
        DataError, match=r"this machine has no apt-get; put data.noun, index.noun, noun.exc of"
    ):
        fetch("wordnet")
    installed = write_files(tmp_path / "installed", LINES)
    monkeypatch.setattr(wordnet, "INSTALLED", installed)
    assert wordnet_folder() == installed
    assert len(os.listdir(fetch("wordnet"))) == 3
    assert not asked


def test_a_folder_that_cannot_be_written(package, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("LABELTREE_DATA", str(tmp_path / "file"))
    with pytest.raises(DataError, match="choose another folder with LABELTREE_DATA"):
        fetch("wordnet")


def test_it_is_no_data_set(package):
    fetch("wordnet")
    with pytest.raises(
        DataError, match="is not a data set but a dictionary; 'labeltree taxonomy from-wordnet'"
    ):
        open_source("wordnet")
