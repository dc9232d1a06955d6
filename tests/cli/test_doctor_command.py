"""`labeltree doctor`: what is installed, in words and as JSON."""

import json
import re
from pathlib import Path

import pytest

from labeltree import installation
from labeltree.cli.commands import doctor_command


@pytest.fixture
def examined(cache_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of known size, and an installation without qdrant-client."""
    (cache_folder / "features").mkdir(parents=True)
    (cache_folder / "features" / "file.bin").write_bytes(bytes(200_000))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub-home"))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("LABELTREE_OFFLINE", "1")
    known = installation._version
    lacking = ("qdrant-client",)
    monkeypatch.setattr(installation, "_version", lambda name: None if name in lacking else known(name))
    return cache_folder


def test_in_words(examined: Path, capsys: pytest.CaptureFixture[str]) -> None:
    doctor_command.run([])
    said = capsys.readouterr().out
    assert re.match(r"labeltree +\d+\.\d+\.\d+, Python 3\.", said)
    assert re.search(r"^ +torch \d", said, re.MULTILINE)
    assert "qdrant       without qdrant-client: pip install 'labeltree[qdrant]'" in said
    assert "nothing is fetched" in said
    assert "LABELTREE_OFFLINE=1" in said
    assert not re.search(r"^(extras)? +(dev|docs|bench) ", said, re.MULTILINE)


def test_as_json(examined: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    doctor_command.run(["--json"])
    content = json.loads(capsys.readouterr().out)
    assert content["extras"]["qdrant"] == ["qdrant-client"]
    assert content["libraries"]["torch"]
    assert content["caches"][str(examined)] >= 200_000
    assert content["caches"][str(tmp_path / "hub-home" / "hub")] == 0
    assert content["offline"] is True
    assert content["processors"] >= 1
