"""Debian's package lists as a data set, on lists in apt's format that the test writes; no apt is run."""

from pathlib import Path

import pytest
from package_lists import write_lists

from labeltree.data import make_splits
from labeltree.datasets import debtags_taxonomy
from labeltree.errors import DataError
from labeltree.studies.named_data.debian_packages import Package, flowing_text, read_lists, stanzas
from labeltree.studies.named_data.debtags import (
    FACETS,
    SECTIONS,
    facet_label,
    package_source,
    tag_path,
    tag_table,
)


@pytest.fixture
def packages(tmp_path: Path) -> list[Package]:
    return read_lists(write_lists(tmp_path / "lists"))


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
