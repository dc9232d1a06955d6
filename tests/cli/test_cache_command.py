"""`labeltree cache`: what is kept, and what is cleared."""

from pathlib import Path

import pytest

from labeltree.cache import cache_entries, clear_cache
from labeltree.cli.main import main


@pytest.fixture
def filled(cache_folder: Path) -> Path:
    for name, size in (("features/a", 5000), ("images/b", 9000), ("emoji", 100)):
        (cache_folder / name).mkdir(parents=True)
        (cache_folder / name / "file.bin").write_bytes(bytes(size))
    (cache_folder / "emoji" / "link").symlink_to(cache_folder / "images" / "b" / "file.bin")
    return cache_folder


def test_shown(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache"]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith(str(filled))
    assert [line.split()[0] for line in rest] == ["features", "images", "emoji"]
    assert all("in 1 file, 0 days old" in line for line in rest)
    assert rest[0].endswith("made anew if cleared")
    assert rest[2].endswith("download")


def test_cleared(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "--clear", "features"]) == 0
    assert capsys.readouterr().out.startswith("deleted features: 0.0 MB")
    assert not (filled / "features").exists()
    assert (filled / "images").exists()
    assert main(["cache", "--clear"]) == 0
    assert capsys.readouterr().out.startswith("deleted features, images, copies: 0.0 MB")
    assert [entry.name for entry in cache_entries()] == ["emoji"]


def test_what_is_not_cleared(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "--clear", "emoji"]) == 2
    assert "emoji" in capsys.readouterr().err
    with pytest.raises(ValueError, match="'emoji' is not cleared; features, images, copies are"):
        clear_cache(["emoji"])
    assert (filled / "emoji").exists()


def test_an_empty_cache(cache_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache_folder.rmdir()
    assert main(["cache"]) == 0
    assert capsys.readouterr().out == f"{cache_folder}: 0.0 MB\n"
    assert main(["cache", "--clear"]) == 0
