"""Debian's package lists as a data set, on lists in apt's format that the test writes; no apt is run."""

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from official_layouts import check, check_refuses_what_is_missing

from labeltree.data import data_home, debtags_taxonomy, fetch, make_splits, open_source
from labeltree.data.datasets.debtags.facets import FACETS, facet_label, tag_path, tag_table
from labeltree.data.datasets.debtags.lists import (
    Package,
    flowing_text,
    read_lists,
    read_packages,
    stanzas,
    write_packages,
)
from labeltree.data.datasets.debtags.packages import FILE, SECTIONS, package_source
from labeltree.errors import DataError

PACKAGES = """Package: apricot
Source: fruit (1.2)
Version: 1
Description: A stone fruit
Description-md5: aa
Tag: interface::graphical, interface::x11, role::program,
 uitoolkit::gtk, works-with::image, works-with::image:raster
Section: games

Package: apricot-dev
Source: fruit
Description: headers
Description-md5: ab
Tag: role::devel-lib, devel::lang:c, implemented-in::TODO
Section: universe/libdevel

Package: plum
Description: A fruit with everything in one list
 It is purple.
Tag: role::program, role::documentation, use::editing, use::viewing
Section: nowhere

Package: untagged
Description: nothing
Section: games

Package: cherry
Description: A stone fruit
Description-md5: aa2
Tag: role::program, not a tag, special::
Section: games

this line belongs to no field
"""
TRANSLATION = """Package: apricot
Description-md5: aa
Description-en: A stone fruit
 Grows on
 trees.
 .
  * and in gardens

Package: cherry
Description-md5: aa2
Description-en: A stone fruit
 Grows on trees.
 .
  * and in gardens

Package: apricot
Description-md5: other
Description-en: of another version
"""


def write_lists(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "a_main_binary-amd64_Packages").write_text(PACKAGES)
    (folder / "a_main_i18n_Translation-en").write_text(TRANSLATION)
    late = "Package: apricot\nDescription: late\nTag: role::dummy\nSection: misc\n"
    (folder / "b_main_binary-amd64_Packages").write_text(late)
    return folder


@pytest.fixture
def packages(tmp_path: Path) -> list[Package]:
    return read_lists(write_lists(tmp_path / "lists"))


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("LABELTREE_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache" / "debtags"


def test_tagged_packages_of_the_lists(packages: list[Package]) -> None:
    assert [package.name for package in packages] == ["apricot", "apricot-dev", "cherry", "plum"]
    apricot, dev, cherry, plum = packages
    assert apricot.text == "A stone fruit\nGrows on trees.\n\n* and in gardens"
    assert (apricot.source, dev.source, plum.source) == ("fruit", "fruit", "plum")
    assert apricot.tags == (
        "interface::graphical", "interface::x11", "role::program", "uitoolkit::gtk", "works-with::image",
        "works-with::image:raster",
    )  # fmt: skip
    assert dev.text == "headers"
    assert plum.text == "A fruit with everything in one list\nIt is purple."
    assert cherry.tags == ("role::program",)


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "x_Packages"
    path.write_bytes(
        b"Package: caf\xe9\nTag: role::program\nDescription: \xff fruit\n\n\n \xfe\nno colon\n more\n"
    )
    assert list(stanzas(path)) == [{"Package": "caf�", "Tag": "role::program", "Description": "� fruit"}]
    assert read_lists(tmp_path)[0].text == "� fruit"


def test_lists_without_tags(tmp_path: Path) -> None:
    (tmp_path / "x_Packages").write_text("Package: a\nDescription: b\n")
    (tmp_path / "y_Packages").write_text("")
    with pytest.raises(DataError, match="no package with tags"):
        read_lists(tmp_path)


def test_long_descriptions() -> None:
    assert flowing_text("one line") == "one line"
    assert flowing_text("a\n b\n c\n  verbatim\n  lines\n d\n .\n e") == "a\nb c\nverbatim\nlines\nd\n\ne"


@pytest.mark.parametrize(
    ("tags", "facet", "label"),
    [
        (["role::program"], "role", ("program",)),
        (["role::program", "role::plugin"], "role", ()),
        (["role::TODO"], "role", ()),
        (["role::TODO", "role::program"], "role", ("program",)),
        ([], "role", ()),
        (["works-with::image", "works-with::image:raster"], "works-with", ("image", "raster")),
        (["works-with::image:raster", "works-with::image:vector"], "works-with", ("image",)),
        (["works-with::image", "works-with::audio"], "works-with", ()),
        (["works-with-format::png"], "works-with", ()),  # the name of a facet may begin that of another
        (["interface::graphical", "interface::x11"], "interface", ("graphical", "x11")),
        (["interface::3d", "interface::graphical", "interface::x11"], "interface", ("graphical",)),
        (["devel::lang:c++"], "devel", ("lang", "c++")),
    ],
)
def test_one_label_per_facet(tags: list[str], facet: str, label: tuple[str, ...]) -> None:
    assert facet_label(tags, facet) == label
    assert facet_label(tags[::-1], facet) == label


def test_source(packages: list[Package]) -> None:
    source = package_source(packages)
    assert source.modalities == ("text",)
    assert source.taxonomy == debtags_taxonomy()
    assert [source.taxonomy.path(node) for node in source.nodes.tolist()] == [
        ("games", "games"), ("libraries", "libdevel"), ("games", "games"), ("other", "misc"),
    ]  # fmt: skip
    # cherry and apricot have one text, so their sources are one group
    assert source.groups is not None
    assert source.groups[0] == source.groups[1] == source.groups[2] != source.groups[3]
    assert source.split is not None
    assert len(set(source.split[:3].tolist())) == 1
    make_splits(source, test=0, val=0)  # no group is torn
    trees = {tree.names[0]: number for number, tree in enumerate(source.aspect_taxonomies)}
    assert list(trees) == [
        "role",
        "interface",
        "uitoolkit",
        "use",
        "works-with",
    ]  # what has no tag is no aspect

    def label(row: int, facet: str) -> str | None:
        assert source.aspects is not None
        node = int(source.aspects[row, trees[facet]])
        return None if node < 0 else source.aspect_taxonomies[trees[facet]].path_name(node)

    assert [label(row, "role") for row in range(4)] == ["program", "devel-lib", "program", None]
    assert [label(0, facet) for facet in ("interface", "works-with", "use")] == [
        "graphical/x11", "image/raster", None,
    ]  # fmt: skip
    assert label(3, "use") is None  # two tags, which have the root alone in common
    assert source.ratings is not None
    names, table = tag_table(packages, FACETS)
    assert source.ratings.tolist() == table.tolist()
    assert [name for name, there in zip(names, table[3].tolist(), strict=True) if there] == [
        "role::documentation", "role::program", "use::editing", "use::viewing",
    ]  # fmt: skip
    assert not any("TODO" in name or name.startswith("devel::") for name in names)
    assert set(tag_table(packages, ["use"])[1][0].tolist()) == {
        -1
    }  # nothing known, rather than nothing there


def test_packages_of_a_group_stay_together_whatever_ties_them() -> None:
    def package(name: str, source: str, text: str) -> Package:
        return Package(name, source, "games", ("role::program",), text)

    chain = [package(f"p{i}{j}", f"s{i}", f"text {i + j}") for i in range(20) for j in range(2)]
    source = package_source([*chain, package("alone", "alone", "another")])
    assert source.groups is not None
    assert len(set(source.groups[:-1].tolist())) == 1
    assert source.groups[-1] != source.groups[0]


def test_sections_are_in_one_area_each() -> None:
    sections = [section for row in SECTIONS.values() for section in row]
    assert len(sections) == len(set(sections)) == debtags_taxonomy().num_leaves == 58
    assert tag_path("game::rpg:rogue") == ("rpg", "rogue")


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
        (lambda data: gzip.compress(gzip.decompress(data).replace(b'"fruit"', b"3")), "a value is no text"),
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
