"""The pages of the objectives say what the code does: names, options, defaults, commands."""

import ast
import inspect
import re
import shlex
from pathlib import Path

import pytest

from labeltree import losses, ridge
from labeltree.training.read_recipes import objective_of, parser_of
from labeltree.training.registry import GIVEN, list_objectives, list_sums

pytestmark = pytest.mark.slow

PAGES = Path(__file__).parents[2] / "docs" / "objectives"
SUMS = {named.name for named in list_sums()}
NAMES = sorted(page.stem for page in PAGES.glob("*.md") if page.stem not in {"index", *SUMS})


def options(page: str) -> dict[str, object]:
    """Name and default of the options in a page's table."""
    rows = re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", (PAGES / f"{page}.md").read_text("utf-8"), re.MULTILINE)
    return {name: ast.literal_eval(default) for name, default in rows}


def class_of(page: str) -> type:
    text = (PAGES / "index.md").read_text("utf-8")
    found = re.search(rf"^\| \[`{page}`\]\({page}\.md\) \| `(\w+)` \|", text, re.MULTILINE)
    assert found, f"the index has no row for {page}"
    return getattr(ridge if page == "tree-ridge" else losses, found.group(1))


def test_every_objective_of_the_library_has_a_page():
    known = {
        entry.name: entry.loss
        for entry in list_objectives()
        if entry.loss.__module__.startswith("labeltree.")
    }
    assert set(known) == set(NAMES)
    index = (PAGES / "index.md").read_text("utf-8")
    for name in SUMS:
        assert (PAGES / f"{name}.md").is_file()
        assert f"[`{name}`]({name}.md)" in index
    for name, loss in known.items():
        assert issubclass(loss, class_of(name)), name


@pytest.mark.parametrize("page", NAMES)
def test_the_table_of_a_page_has_all_options_with_their_defaults(page):
    parameters = inspect.signature(class_of(page)).parameters
    defaults = {name: p.default for name, p in parameters.items() if name not in GIVEN}
    own, common = options(page), options("index")
    text = (PAGES / f"{page}.md").read_text("utf-8")
    assert own == {name: defaults[name] for name in own}
    for name in set(defaults) - set(own):
        assert defaults[name] == common[name], name
        assert f"`{name}`" in text, f"the page does not refer to {name} of the index"


def test_commands_of_the_pages_are_understood():
    count = 0
    for page in PAGES.glob("*.md"):
        for command in re.findall(r"labeltree train (--data .*)", page.read_text("utf-8")):
            given = shlex.split(re.sub(r" --out \S+", "", command))
            arguments = [
                part.replace("-", "_").replace("__", "--", 1) if part[:2] == "--" else part for part in given
            ]
            recipe = parser_of(objective_of(arguments)).recipe(arguments)
            assert recipe.objective in command
            count += 1
    assert count
