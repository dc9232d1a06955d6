"""What recipes say of where their values are from, and the table of all recipes."""

import re
from collections.abc import Iterator

import pytest
from paper_recipes import PAPERS, RECIPES, TREES, PaperRecipe, paper_recipes

from labeltree.data import list_datasets
from labeltree.training.read_recipes import read_recipe

pytestmark = pytest.mark.slow

ALL = paper_recipes()
PLACE = re.compile(r"§\d|Tables? \d|Eq\. \d|Appendix [A-E]|supplement|Figure \d|et al\. \d{4}")


def name_of(recipe: PaperRecipe) -> str:
    return recipe.name


def remarks(recipe: PaperRecipe) -> Iterator[tuple[str, str]]:
    """Each setting that has a value, with its remark, which may go on in the next lines or stand above."""
    lines = recipe.text.split("\n\n", 1)[1].splitlines()
    above = ""
    for number, line in enumerate(lines):
        setting, _, remark = line.partition("#")
        if not setting.strip():
            above = "" if remark.startswith("   ") else remark.strip()
            continue
        following = []
        for later in lines[number + 1 :]:
            if not later.strip().startswith("#   "):
                break
            following.append(later.strip().lstrip("# "))
        whole = " ".join([remark.strip(), *following]).strip() or above
        above = ""
        if not setting.rstrip().endswith(":"):
            yield setting.strip(), whole


@pytest.mark.parametrize("recipe", ALL, ids=name_of)
def test_every_value_has_a_place_or_is_not_given(recipe: PaperRecipe) -> None:
    before = ""
    for setting, remark in remarks(recipe):
        known = remark.startswith("not given; ") or bool(PLACE.search(remark))
        assert known or (remark == "likewise" and before), f"{setting}: {remark!r}"
        before = remark
    assert len(list(remarks(recipe))) >= 15


@pytest.mark.parametrize("recipe", ALL, ids=name_of)
def test_the_first_lines_say_what_and_whence(recipe: PaperRecipe) -> None:
    first, second = recipe.text.splitlines()[:2]
    assert first.startswith("# ")
    assert first.endswith(".")
    assert second.startswith(f"# Source: {PAPERS[recipe.file.parent.name]}, ")
    assert PLACE.search(recipe.source)


def test_every_data_set_is_known() -> None:
    named = {str(recipe.settings["data"]) for recipe in ALL}
    assert named == set(TREES) | {"tripadvisor", "beeradvocate"}
    assert named <= set(list_datasets())


def test_recipes_differ() -> None:
    """No file repeats another one's settings."""
    seen: dict[str, str] = {}
    for recipe in ALL:
        settings = repr(read_recipe(recipe.file))
        assert settings not in seen, f"{recipe.name} repeats {seen.get(settings)}"
        seen[settings] = recipe.name


@pytest.mark.parametrize("recipe", [*ALL, PaperRecipe(RECIPES / "quickstart" / "hwc-lam.yaml")], ids=name_of)
def test_defaults_that_are_our_advice_are_not_relied_on(recipe: PaperRecipe) -> None:
    advice = {"hwc": {"alpha", "gamma"}, "hicone": {"variant"}, "himulcone": {"variant"}}
    for term in str(recipe.settings["objective"]).split("+"):
        assert advice.get(term, set()) <= set(recipe.settings.get(term) or {}), term  # type: ignore[call-overload]


def rows(paper: str) -> list[str]:
    """The rows of a paper's table."""
    return [
        f"| [{recipe.file.stem}]({recipe.name}.yaml) | {recipe.title} | {recipe.source} "
        f"| {recipe.settings['data']} | {recipe.settings['objective']} |"
        for recipe in ALL
        if recipe.file.parent.name == paper
    ]


@pytest.mark.parametrize("paper", PAPERS)
def test_the_table_has_every_recipe(paper: str) -> None:
    page = (RECIPES / "README.md").read_text("utf-8")
    section = page.split(f"\n## {PAPERS[paper]}\n")[1].split("\n## ")[0]
    found = [line for line in section.splitlines() if line.startswith("| [")]
    expected = rows(paper)
    assert found == expected, "the table should be:\n" + "\n".join(expected)
