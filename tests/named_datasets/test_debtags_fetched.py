"""Fetching Debian's package lists, with a stand-in for apt, and what is said where that fails."""

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from official_layouts import check, check_refuses_what_is_missing
from package_lists import write_lists

from labeltree.data import data_home, fetch, open_source
from labeltree.errors import DataError
from labeltree.studies.named_data.debian_packages import Package, read_lists, read_packages, write_packages
from labeltree.studies.named_data.debtags import FILE


@pytest.fixture
def packages(tmp_path: Path) -> list[Package]:
    return read_lists(write_lists(tmp_path / "lists"))


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("LABELTREE_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache" / "debtags"


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands for apt-get: copies lists into the folder that it is told."""
    write_lists(tmp_path / "mirror")
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "dpkg-deb").write_text("#!/bin/sh\n")
    (tools / "apt-get").write_text(
        f"""#!/bin/sh
echo "$@" >> {tmp_path}/calls
if [ -e {tmp_path}/fails ]; then echo "E: no network"; exit 100; fi
for part in "$@"; do case "$part" in Dir::State=*) state="${{part#Dir::State=}}";; esac; done
cp {tmp_path}/mirror/* "$state/lists" 2> /dev/null || true
"""
    )
    for tool in tools.iterdir():
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def test_fetched_once_and_opened(apt: Path, cache: Path) -> None:
    told: list[str] = []
    assert fetch("debtags", progress=lambda message, *_: told.append(message)) == cache
    assert [path.name for path in cache.iterdir()] == [FILE]  # and nothing else stays
    assert "not to be passed on" in told[-1]
    call = (apt / "calls").read_text()
    assert "Acquire::Languages=en" in call
    assert f"Dir::State={cache}/.download" in call  # the machine's own lists are left alone
    assert len(open_source("debtags")) == 4
    programs = open_source("debtags-programs")
    assert len(programs) == 3
    for name, count in (("debtags", 4), ("debtags-programs", 3)):
        samples, _, problems = check(name, cache)
        assert (sum(samples.values()), problems) == (count, [])
        check_refuses_what_is_missing(name, cache, FILE)
    assert "role" not in [tree.names[0] for tree in programs.aspect_taxonomies]
    fetch("debtags-programs")
    assert len((apt / "calls").read_text().splitlines()) == 1
    before = (cache / FILE).read_bytes()
    fetch("debtags", force=True)
    assert (cache / FILE).read_bytes() == before


def test_what_fails_leaves_what_was_there(apt: Path, cache: Path) -> None:
    fetch("debtags")
    before = (cache / FILE).read_bytes()
    (apt / "fails").touch()
    with pytest.raises(DataError, match=r"could not get the package lists \(apt-get: no network\)"):
        fetch("debtags", force=True)
    (apt / "fails").unlink()
    for path in (apt / "mirror").iterdir():
        path.unlink()
    with pytest.raises(DataError, match=r"no list of packages|no package with tags"):
        fetch("debtags", force=True)
    assert (cache / FILE).read_bytes() == before


def test_a_machine_without_apt(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DataError, match=r"this machine has none; run .* on a machine with Debian, and copy"):
        fetch("debtags")
    with pytest.raises(DataError, match="'labeltree data get debtags' fetches the data set"):
        open_source("debtags")


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [
        (lambda data: data[:-20], "line"),
        (lambda data: b"", "line 1"),
        (lambda data: b"no gzip", "line 1"),
        (lambda data: gzip.compress(b'{"format": "another"}\n'), "its first line is another"),
        (lambda data: gzip.compress(gzip.decompress(data) + b'{"name": 3}\n'), "line 6"),
        (lambda data: gzip.compress(gzip.decompress(data) + b"{\n"), "line 6"),
        (lambda data: gzip.compress(gzip.decompress(data).rsplit(b"\n", 2)[0]), "3 packages where 4"),
        (lambda data: gzip.compress(gzip.decompress(data).replace(b'"fruit"', b"3")), "a value is not text"),
        (lambda data: gzip.compress(gzip.decompress(data).replace(b"plum", b"pl\xff")), "utf-8"),
    ],
)
def test_a_damaged_file(
    packages: list[Package], tmp_path: Path, harm: Callable[[bytes], bytes], sentence: str
) -> None:
    path = tmp_path / FILE
    write_packages(path, packages)
    assert read_packages(path) == packages
    assert json.loads(gzip.decompress(path.read_bytes()).splitlines()[0])["packages"] == 4
    path.write_bytes(harm(path.read_bytes()))
    with pytest.raises(DataError, match=f"{sentence}.*'labeltree data get debtags' makes a new one"):
        open_source("debtags", data_path=tmp_path)


def test_home_is_shared(cache: Path) -> None:
    from labeltree.data import get_dataset

    assert get_dataset("debtags-programs").folder == get_dataset("debtags").folder == data_home() / "debtags"
