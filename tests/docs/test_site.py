"""The site builds without a warning and without a network; nothing is missing, and no link is broken."""

from __future__ import annotations

import argparse
import importlib
import json
import posixpath
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote

import pytest

import labeltree
from axe import CHROMIUM, SIZES, faults, read_axe
from forked import run_forked
from labeltree.cli.main import command_summaries
from labeltree.training.registry import list_objectives

pytestmark = [pytest.mark.slow, pytest.mark.long]
pytest.importorskip("sphinx", reason="Sphinx is not installed: it builds the site")

ROOT = Path(__file__).parents[2]
BUILDER = ROOT / "docs" / "build_site"
_ELSEWHERE = re.compile(r"^(?:[a-z]+:|//)")
_ANCHOR = re.compile(r'\sid="([^"]+)"')
_HREF = re.compile(r'<a\b[^>]*?\shref="([^"]*)"')
_TAG = re.compile(r"<(a|link|script|img|source|iframe|use)\b([^>]*)>")
_NO_SCRIPT = re.compile(r"<script\b[^>]*>.*?</script>", re.DOTALL)


@dataclass(frozen=True)
class Site:
    """The built pages: where they are, and the text and the anchors of each, by its address."""

    folder: Path
    pages: dict[str, str]
    anchors: dict[str, set[str]]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    out = tmp_path_factory.mktemp("site")
    built = run_forked(f"import runpy; runpy.run_path({str(BUILDER)!r}, run_name='__main__')", [str(out)])
    assert built.returncode == 0, built.stderr[-6000:]
    folder = out / "html"
    pages = {page.relative_to(folder).as_posix(): page.read_text("utf-8") for page in folder.rglob("*.html")}
    anchors = {page: {unescape(name) for name in _ANCHOR.findall(text)} for page, text in pages.items()}
    return Site(folder, pages, anchors)


@pytest.fixture(scope="module")
def builder() -> Iterator[None]:
    """The modules that build the site, importable."""
    sys.path.insert(0, str(BUILDER))
    try:
        yield
    finally:
        sys.path.remove(str(BUILDER))


def test_no_link_is_broken(site: Site) -> None:
    files = {file.relative_to(site.folder).as_posix() for file in site.folder.rglob("*") if file.is_file()}
    broken = set()
    for page, text in site.pages.items():
        for href in set(_HREF.findall(_NO_SCRIPT.sub("", text))):
            path, _, anchor = unquote(unescape(href)).partition("#")
            if _ELSEWHERE.match(path):
                continue
            name = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
            if name not in files or (anchor and name in site.pages and anchor not in site.anchors[name]):
                broken.add(f"{page}: {href}")
    assert not broken


def test_nothing_is_loaded_from_elsewhere(site: Site) -> None:
    loaded = []
    for page, text in site.pages.items():
        for tag, attributes in _TAG.findall(text):
            if tag == "a":
                continue
            for address in re.findall(r'\s(?:src|href)="([^"]*)"', attributes):
                if _ELSEWHERE.match(address) and not address.startswith("data:"):
                    loaded.append(f"{page}: <{tag}> {address}")
    styles = list((site.folder / "_static").rglob("*.css"))
    assert styles
    for style in styles:
        found = re.findall(r"@import[^;]*|url\(\s*['\"]?(?:https?:)?//[^)]*\)", style.read_text("utf-8"))
        loaded += [f"{style.name}: {address}" for address in found]
    assert not loaded


# One page of each kind.
KINDS = ("index", "search", "findings", "objectives/hwc", "reference/api/labeltree-index", "tutorials/index")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    sync = pytest.importorskip("playwright.sync_api", reason="playwright drives chromium")
    with sync.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.mark.skipif(read_axe() is None, reason="AXE does not name the file axe.min.js of axe-core")
@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_everyone_can_use_the_pages(browser: Any, site: Site, width: int, scheme: str) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    for kind in KINDS:
        page.goto((site.folder / f"{kind}.html").as_uri())
        assert faults(page, read_axe() or "") == [], kind
    page.close()


def test_drawers_open_by_keyboard(browser: Any, site: Site) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 900})
    page.goto((site.folder / "objectives/hwc.html").as_uri())
    link = page.locator(".sidebar-tree a").first
    assert not link.is_visible()
    reached = ""
    for _ in range(8):
        page.keyboard.press("Tab")
        reached = page.evaluate("document.activeElement.id")
        if reached == "__navigation":
            break
    assert reached == "__navigation"
    page.keyboard.press("Space")
    assert link.is_visible()
    page.locator("#__navigation").focus()
    page.keyboard.press("Space")
    page.locator(".highlight pre").first.wait_for()
    assert page.locator(".math[tabindex]").count() + page.locator("pre[tabindex]").count()
    page.close()


def test_tables_and_lists_head_something(site: Site) -> None:
    for page, text in site.pages.items():
        assert 'role="heading">' not in text, page
        assert not re.search(r"<dl>\s*<dd>", text), page
        assert '<th class="head"></th>' not in text, page


def test_formulas_are_drawn_and_dark_pictures_beside_light_ones(site: Site) -> None:
    page = site.pages["objectives/hwc.html"]
    assert page.count("<math ") == 2
    assert "\\frac" not in page
    assert "math" not in "".join(re.findall(r"<script[^>]*>", page))
    front = site.pages["index.html"]
    assert re.findall(r'class="when-(\w+)" src="_images/photos-report([-\w]*)\.png', front) == [
        ("light", ""),
        ("dark", "-dark"),
    ]


def test_every_page_is_in_the_sidebar(site: Site) -> None:
    front = site.pages["index.html"]
    listed = set(re.findall(r'<a class="reference internal" href="([^"#]+)"', front.partition("<article")[0]))
    assert set(site.pages) - listed == {"index.html", "search.html"}
    assert {"Start", "How to train", "How to deploy", "Reference", "Explanation"} <= set(
        re.findall(r'<span class="caption-text">([^<]*)</span>', front)
    )


def test_names_in_the_sidebar_differ(site: Site) -> None:
    front = site.pages["index.html"].partition("<article")[0]
    entries = set(re.findall(r'<a class="reference internal" href="(studies/[^"#]+)">([^<]*)', front))
    names = [name for _, name in entries]
    assert len(names) > 30
    assert len(set(names)) == len(names)


def test_the_sidebar_marks_the_page(site: Site) -> None:
    text = site.pages["objectives/hwc.html"]
    assert re.findall(r'<li class="[^"]*current-page[^"]*"><a[^>]*href="([^"]*)"[^>]*>([^<]*)', text) == [
        ("#", "hwc")
    ]
    opened = re.findall(r"<a[^>]*>([^<]*)</a><input checked", text)
    assert opened == ["Objectives"]


def test_the_search_finds_words_and_messages(site: Site) -> None:
    index = (site.folder / "searchindex.js").read_text("utf-8")
    content = json.loads(index.removeprefix("Search.setIndex(").removesuffix(")"))
    names = content["docnames"]

    def pages(word: str) -> set[str]:
        places = [content[kind].get(word, []) for kind in ("terms", "titleterms")]
        lists = [found if isinstance(found, list) else [found] for found in places]
        return {names[number] for found in lists for number in found}

    assert {"objectives/supcon", "findings"} <= pages("supcon")
    assert "reference/errors" in pages("malform")
    for script in re.findall(r'<script src="([^"?]+)', site.pages["search.html"]):
        assert (site.folder / script).is_file(), script


def test_every_public_name_is_described(site: Site, builder: None) -> None:
    from api import ROOMS, Api

    api = Api()
    text = "".join(site.pages[f"{room.page}.html"] for room in ROOMS)
    described = set(re.findall(r'<dt class="[^"]*"\s+id="(labeltree[\w.]+)"', text))
    assert set(api.names) <= described
    inherited = {f"labeltree.taxonomy.Taxonomy.{name}" for name in ("lca_height", "encode", "from_file")}
    assert inherited <= set(re.findall(r'id="(labeltree[\w.]+)"', text))
    short = {name.rpartition(".")[2] for name in described}
    for name in labeltree.__all__:
        assert name in short or isinstance(getattr(labeltree, name), ModuleType), name


def test_every_command_and_setting_is_described(site: Site, builder: None) -> None:
    from commands import parser_of
    from recipe_settings import setting_names

    for command in command_summaries():
        page = f"reference/commands/labeltree-{command}.html"
        described = set(re.findall(r'<span class="pre">(-[\w.-]+)</span>', site.pages[page]))
        if command != "train":  # whose page has the common settings
            assert {option for option in _options(parser_of(command)) if option not in described} == set()
    recipe = site.pages["reference/recipe.html"]
    for name in setting_names():
        assert f'id="confval-{name}"' in recipe, name
    for entry in list_objectives():
        assert entry.name in recipe


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                yield from _options(sub)
        elif action.help != argparse.SUPPRESS and "--help" not in action.option_strings:
            yield from action.option_strings


def test_file_versions_are_those_of_the_code() -> None:
    page = (ROOT / "docs" / "file-formats.md").read_text("utf-8")
    versions = {
        row[0]: int(row[1]) for row in re.findall(r"^\| (.+?) \| .+? \| (\d+) \|", page, re.MULTILINE)
    }
    places = {
        "taxonomy as JSON": "taxonomy.files.saved_document.VERSION",
        "mapping between taxonomies, YAML": "taxonomy.versions.mapping_file.VERSION",
        "`model.json` of a run": "runs.model_description._VERSION",
        "`samples.npz` of a run": "runs.sample_record._VERSION",
        "`metrics.json`": "evaluation.result.FORMAT",
        "`outcomes.npz`": "evaluation.outcomes.FORMAT",
        "`comparison.json`": "evaluation.comparing.comparison.FORMAT",
        "`decisions.json`": "decisions.rule.VERSION",
        "`classifier.json`": "inference.run_classifiers._VERSION",
        "`reference.safetensors`": "inference.reference._VERSION",
        "`labels.json`, `preprocess.json` of an export": "inference.export.export_labels.VERSION",
        "`config.json` of an export": "inference.model_facts.EXPORT_VERSION",
        "a folder of Parquet parts": "runs.parts._VERSION",
        "settings of an index": "index.store._FORMAT",
    }
    assert versions.keys() == places.keys()
    for what, place in places.items():
        module, _, constant = place.rpartition(".")
        assert versions[what] == getattr(importlib.import_module(f"labeltree.{module}"), constant), what


def test_files_of_a_run_are_described() -> None:
    from labeltree.runs import RunFolder

    page = (ROOT / "docs" / "file-formats.md").read_text("utf-8")
    folder = RunFolder("run")
    for name, value in vars(RunFolder).items():
        path = getattr(folder, name) if isinstance(value, property) else None
        if isinstance(path, Path):
            assert path.name in page, path.name
