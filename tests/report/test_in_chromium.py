"""The page in a browser without a network: no complaint, no empty panel, and all that can be used works."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from report_inputs import SMALL, large_result, random_table
from torch import Tensor

from axe import CHROMIUM, SIZES, faults, read_axe
from labeltree import report
from labeltree.evaluation import ProtocolResult, compare, evaluate
from labeltree.index import Hits
from labeltree.index.search_results import Answer
from labeltree.report import comparison_page, render_report
from labeltree.report.charts.interval_chart import IntervalDot, IntervalRow, interval_chart
from labeltree.report.pages.document import Cell, Figure, Fold, Heading, Notes, Table, Text, to_html
from labeltree.report.pages.search_page import search_page
from labeltree.report.wording import percent
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow

if CHROMIUM is None:
    pytest.skip("no chromium on this machine: install it to test the report in it", allow_module_level=True)
sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: it drives chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def pages(browser: Any) -> list[Any]:
    """Pages that can be used again, which costs half as much as a new one: what they show keeps nothing."""
    return [_page(browser)]


def _page(browser: Any, **options: Any) -> Any:
    return browser.new_context(offline=True, **options).new_page()


@pytest.fixture
def show(browser: Any, pages: list[Any]) -> Iterator[Any]:
    """Opens a file as ``show(path, scheme)``; afterwards nothing may have been fetched or complained of."""
    asked: list[str] = []
    said: list[str] = []
    heard = {
        "request": lambda request: asked.append(request.url),
        "console": lambda message: said.append(message.text),
        "pageerror": lambda error: said.append(str(error)),
    }
    shown = []

    def opened(
        path: Path,
        scheme: str = "light",
        viewport: dict[str, int] | None = None,
        java_script_enabled: bool = True,
    ) -> Any:
        if not java_script_enabled:
            page = _page(browser, java_script_enabled=False)
        else:
            page = pages.pop() if pages else _page(browser)
        shown.append((page, java_script_enabled))
        page.set_viewport_size(viewport or {"width": 1280, "height": 720})
        page.emulate_media(color_scheme=scheme, media="screen")
        for event, hear in heard.items():
            page.on(event, hear)
        page.goto(path.as_uri())
        return page

    yield opened
    for page, again in shown:
        page.mouse.move(0, 0)
        page.goto("about:blank")
        for event, hear in heard.items():
            page.remove_listener(event, hear)
        if again:
            pages.append(page)
        else:
            page.context.close()
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "about:"))] == []


def grey(instances: Tensor) -> Tensor:
    return (instances % 251)[:, None, None, None].expand(-1, 3, 8, 8).to(torch.uint8)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hyperbolic run of six classes with everything that a page can have."""
    taxonomy = Taxonomy.from_paths(SMALL)
    table = replace(random_table(taxonomy, 16, noise=1.0), geometry="poincare")
    table = replace(table, embeddings=table.space.embed(table.embeddings))
    result = evaluate(table, taxonomy, name="hwc", baselines={"other": table})
    asked = ProtocolResult(
        "Nearest neighbours", {"top1": 0.5}, {"accuracy": [0.7, 0.6]}, {"top1": {"/": 0.5}}
    )
    nodes = {"apparel": 40.0, "apparel/dress": 25.0, "footwear": 30.0}
    rates = {"apparel": 0.9, "apparel/dress": 0.5, "footwear": 0.7}
    counted = {"features.positives": nodes, "features.negatives": nodes}
    kinds = {f"features.{kind}_sensitivity": rates for kind in ("decision", "point")}
    tested = ProtocolResult("Every node", {"auroc": 0.5}, by_node=counted | kinds)
    protocols = {"knn": asked, "node-scores": tested}
    result = replace(result, methods={k: replace(m, protocols=protocols) for k, m in result.methods.items()})
    history = [
        {"epoch": e, "train_loss": 1 / e, "val_embeddings_pair_violations": 0.4 / e} for e in range(1, 6)
    ]
    trained = [{"step": step, "torch": "2", "threads": threads} for step, threads in ((0, 1), (2, 4))]
    path = tmp_path_factory.mktemp("small") / "report.html"
    recipe = {"objective": "hwc+lam", "optimizer": {"lr": 0.003}}
    html = render_report(
        result,
        table,
        taxonomy,
        images=grey,
        projection="PCA",
        history=history,
        recipe=recipe,
        trained=trained,
    )
    path.write_text(html, "utf-8")
    return path


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten thousand classes under 210 branches."""
    result, table, taxonomy = large_result()
    path = tmp_path_factory.mktemp("large") / "report.html"
    path.write_text(render_report(result, table, taxonomy, images=grey, projection="PCA"), "utf-8")
    return path


PANELS = [
    "errors",
    "search",
    "why",
    "depth",
    "curve",
    "map",
    "disk",
    "numbers",
    "protocols",
    "training",
    "notes",
]


@pytest.mark.parametrize("javascript", [True, False])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_panel_shows_something(show: Any, small: Path, scheme: str, javascript: bool) -> None:
    page = show(small, scheme, java_script_enabled=javascript)
    sections = page.locator("main > section")
    assert [section.get_attribute("id") for section in sections.all()] == PANELS
    for section in sections.all():
        box = section.bounding_box()
        assert box["height"] > 120
        assert len(section.inner_text()) > 100
        for chart in section.locator("svg.chart").all():
            assert chart.locator("path, circle").count() > 0
    trees = {name: page.locator(f"#errors {name}").is_visible() for name in ("#explorer", ".tree.static")}
    assert trees == {"#explorer": javascript, ".tree.static": not javascript}
    assert background(page) == {"light": "rgb(251, 251, 249)", "dark": "rgb(20, 23, 28)"}[scheme]
    if javascript:
        assert page.evaluate(
            "[...document.images].every((image) => image.complete && image.naturalWidth > 0)"
        )


def test_the_table_of_nodes_is_sorted_and_shows_the_other_decision(show: Any, small: Path) -> None:
    page = show(small)
    heads = page.locator(".sortable thead th")
    names = page.locator(".sortable tbody th")
    assert names.all_inner_texts() == ["apparel", "dress", "footwear"]
    sensitivity = page.locator(".sortable th.decided button").first
    sensitivity.click()
    assert names.all_inner_texts() == ["dress", "footwear", "apparel"]
    sensitivity.click()
    assert names.all_inner_texts() == ["apparel", "footwear", "dress"]
    assert heads.nth(3).get_attribute("aria-sort") == "descending"
    heads.nth(0).locator("button").click()
    assert names.all_inner_texts() == ["apparel", "dress", "footwear"]
    assert not heads.nth(7).is_visible()
    page.get_by_label("at the operating point").check()
    assert heads.nth(7).is_visible()
    assert not heads.nth(3).is_visible()


def background(page: Any) -> str:
    return str(page.locator("body").evaluate("(body) => getComputedStyle(body).backgroundColor"))


def faint_texts(page: Any, least: int = 100) -> list[Any]:
    """Texts whose contrast with what is behind them is below 4.5, the bound of WCAG 2 (AA)."""
    seen, faint = page.evaluate(
        """() => {
          const channels = (text) => text.match(/[\\d.]+/g).map(Number);
          const light = (text) => channels(text).slice(0, 3).map((c) => c / 255)
            .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
            .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
          const behind = (element) => {
            for (let one = element; one; one = one.parentElement) {
              const colour = getComputedStyle(one).backgroundColor;
              if (channels(colour)[3] !== 0) return colour;
            }
            return "rgb(255, 255, 255)";
          };
          const found = [];
          let seen = 0;
          const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
          while (texts.nextNode()) {
            const element = texts.currentNode.parentElement;
            if (!texts.currentNode.data.trim() || !element.getClientRects().length) continue;
            if (element.closest(".steps, script, option, title")) continue;
            const style = getComputedStyle(element);
            seen++;
            const [a, b] = [light(element.closest("svg") ? style.fill : style.color), light(behind(element))];
            const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
            if (contrast < 4.5) found.push([texts.currentNode.data.trim(), contrast]);
          }
          return [seen, found];
        }"""
    )
    assert seen > least
    return list(faint)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_background(show: Any, small: Path, scheme: str) -> None:
    page = show(small, scheme)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert faint_texts(page) == []


def test_the_theme_can_be_chosen(show: Any, small: Path) -> None:
    page = show(small, "light")
    light = background(page)
    page.locator("#theme-dark").check(force=True)
    assert background(page) != light
    page.locator("#theme-light").check(force=True)
    assert background(page) == light
    page.emulate_media(color_scheme="dark")
    assert background(page) == light


def test_the_tree_is_used_by_keys(show: Any, small: Path) -> None:
    page = show(small)
    grid = page.get_by_role("treegrid")
    assert grid.locator("[role=row]").count() == 11
    grid.focus()

    def at() -> Any:
        return page.locator(f"#{grid.get_attribute('aria-activedescendant')}")

    assert at().locator(".label").inner_text() == "All classes (exact)"
    page.keyboard.press("ArrowDown")
    assert at().locator(".label").inner_text() == "apparel"
    assert at().get_attribute("aria-expanded") == "true"
    page.keyboard.press("ArrowLeft")
    assert at().get_attribute("aria-expanded") == "false"
    assert grid.locator("[role=row]").count() == 7
    page.keyboard.press("Enter")
    assert grid.locator("[role=row]").count() == 11
    page.keyboard.press("End")
    assert at().get_attribute("aria-level") == "4"
    assert "footwear › closed › sneaker" in page.locator(".telling").inner_text()
    page.keyboard.press("/")
    page.keyboard.type("SHI")
    assert page.locator(".found").inner_text() == "1 found"
    assert grid.locator(".label").all_inner_texts() == ["All classes (exact)", "apparel", "tops", "shirt"]
    page.keyboard.press("Escape")
    assert grid.locator("[role=row]").count() == 11
    page.keyboard.type("nothing like it")
    assert page.locator(".found").inner_text() == "0 found"


def test_what_the_tree_says_is_what_the_result_says(show: Any, small: Path) -> None:
    page = show(small)
    drawn = page.locator("#explorer [role=row]").all_inner_texts()
    listed = page.locator(".tree.static .row:not(.head)").evaluate_all(
        "(rows) => rows.map((r) => r.textContent)"
    )
    assert [words(text.replace("▾", "")) for text in drawn] == [words(text) for text in listed]


def words(text: str) -> str:
    return "".join(text.split())


def test_shares_are_rounded_as_in_the_page_without_scripts(show: Any, small: Path) -> None:
    """2 of 16 were 13 % in the drawn tree, and 12 % in the one that is shown without JavaScript."""
    script = (Path(report.__file__).parent / "templates" / "report.js").read_text("utf-8")
    code = script[script.index("const fixed = ") : script.index("const count = ")]
    pairs = [(part, total) for total in range(1, 65) for part in range(total + 1)]
    drawn = show(small).evaluate(
        f"(pairs) => {{ {code}; return pairs.map(([a, b]) => [percent(a / b, 0), percent(a / b)]); }}", pairs
    )
    assert drawn == [[percent(part / total, 0), percent(part / total)] for part, total in pairs]


def test_ten_thousand_classes_stay_quick_to_draw(show: Any, large: Path) -> None:
    assert large.stat().st_size < 5_000_000
    page = show(large)
    grid = page.get_by_role("treegrid")
    page.get_by_role("button", name="Unfold all").click()
    assert grid.get_attribute("aria-rowcount") == "10212"
    assert page.locator("#explorer [role=row]").count() < 80
    grid.focus()
    page.keyboard.press("End")
    assert page.locator("#explorer .row.active").get_attribute("aria-rowindex") == "10212"
    assert page.locator("#explorer [role=row]").count() < 80
    page.get_by_role("searchbox").fill("class 7777")
    assert page.locator(".found").inner_text() == "1 found"
    assert "class 7777" in page.locator(".telling").inner_text()
    assert page.evaluate("document.querySelectorAll('*').length") < 8000


def test_names_show_where_the_mouse_is(show: Any, small: Path) -> None:
    page = show(small)
    page.locator("#disk g.mean").last.hover(force=True)
    tip = page.locator("#disk .tip")
    assert tip.is_visible()
    assert tip.inner_text() == page.locator("#disk .lit").first.get_attribute("data-name")


def cut_off(page: Any) -> list[str]:
    """What sticks out of the page to the right where nothing scrolls, and numbers out of reach without it."""
    found: list[str] = page.evaluate(
        """() => {
          const out = [];
          const width = document.documentElement.clientWidth;
          for (const one of document.querySelectorAll("main *, header *")) {
            const box = one.getBoundingClientRect();
            const may = ".hidden, .plane, .viewport, .plain:not(.metrics), details:not([open])";
            if (!box.width || one.closest(may)) continue;
            if (box.right > width + 1) out.push(`${one.tagName} ${one.className} ${one.textContent.trim()}`);
          }
          return out;
        }"""
    )
    return found


def chart_texts(page: Any, charts: str) -> tuple[int, list[str], list[Any]]:
    """How many texts the charts have, which of them leave their chart, and which names lie on another."""
    found: tuple[int, list[str], list[Any]] = page.evaluate(
        """(charts) => {
          const cut = [], covered = [];
          let texts = 0;
          for (const chart of document.querySelectorAll(charts)) {
            const frame = chart.getBoundingClientRect();
            const all = [...chart.querySelectorAll("text")].filter((t) => t.getBoundingClientRect().width);
            texts += all.length;
            for (const text of all) {
              const box = text.getBoundingClientRect();
              if (box.left < frame.left - 1 || box.right > frame.right + 1) cut.push(text.textContent);
            }
            const names = all.filter((t) => t.matches(".name, .halo")).map((t) => t.getBoundingClientRect());
            names.forEach((a, i) => names.slice(i + 1).forEach((b) => {
              const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
              const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
              if (across > 1 && down > 0.4 * Math.min(a.height, b.height)) covered.push([across, down]);
            }));
          }
          return [texts, cut, covered];
        }""",
        charts,
    )
    return found


@pytest.mark.parametrize("width", [360, 400])
def test_it_fits_a_telephone(show: Any, small: Path, width: int) -> None:
    page = show(small, viewport={"width": width, "height": 800})
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    page.locator("#depth details").evaluate("(one) => { one.open = false; }")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert cut_off(page) == []
    narrow, wide = page.locator("#curve .on-narrow"), page.locator("#curve .on-wide")
    assert (narrow.is_visible(), wide.is_visible()) == (True, False)
    assert narrow.locator(".legend li").count() == 3  # the lines are named below it
    assert faint_texts(page) == []
    for row in page.locator(".metrics tr:has(td)").all()[:3]:  # each number says which method it is of
        shown = row.locator("td.n").evaluate_all(
            "(cells) => cells.map((cell) => getComputedStyle(cell, '::before').content)"
        )
        assert shown == ['"hwc"', '"other"'] or shown == ["attr(data-of)"] * 2


def test_small_text_stays_readable(show: Any, small: Path) -> None:
    for width, least in ((390, 9.5), (1280, 11.0)):
        page = show(small, viewport={"width": width, "height": 800})
        sizes = page.locator("svg.chart:visible text").evaluate_all(
            """(texts) => texts.map((text) => [
              parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a, text.textContent])"""
        )
        assert len(sizes) > 20
        assert [entry for entry in sizes if entry[0] < least] == []


def test_all_numbers_unfold_where_a_link_leads_to_them(show: Any, small: Path) -> None:
    page = show(small)
    table = page.locator("#numbers table")
    assert not table.is_visible()
    page.locator("nav a", has_text="All numbers").click()
    table.wait_for()
    assert page.locator("#numbers details").get_attribute("open") is not None


def test_it_is_printed_whole(show: Any, small: Path) -> None:
    page = show(small)
    page.emulate_media(media="print")
    assert page.locator(".tree.static").is_visible()
    assert not page.locator("#explorer").is_visible()
    assert page.locator("#curve .on-wide").is_visible()
    for settings in page.locator(".settings").all():
        assert settings.get_attribute("open") is None
        assert settings.locator("dd").first.is_visible()


def test_keys_reach_everything_and_show_where_they_are(show: Any, small: Path) -> None:
    page = show(small)
    reached, bare = set(), []
    for _ in range(40):
        page.keyboard.press("Tab")
        name, outline = page.evaluate(
            """() => {
              const one = document.activeElement;
              const seen = one.matches(".theme input") ? one.nextElementSibling : one;
              if (one === document.body) return ["BODY", ""];
              return [one.id || one.className || one.textContent.trim().slice(0, 30) || one.tagName,
                      getComputedStyle(seen).outlineStyle];
            }"""
        )
        reached.add(name)
        if outline == "none" and name != "BODY":
            bare.append(name)
    assert bare == []
    assert {"theme-auto", "unfold", "fold", "viewport", "Map", "Notes and settings"} <= reached


@pytest.mark.skipif(read_axe() is None, reason="AXE does not name the file axe.min.js of axe-core")
@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_everyone_can_use_them(browser: Any, small: Path, comparison: Path, width: int, scheme: str) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True
    )
    page = context.new_page()
    for path in (small, comparison):
        page.goto(path.as_uri())
        assert faults(page, read_axe() or "") == [], path.stem
    context.close()


def test_training_tells_violations_and_versions(show: Any, small: Path) -> None:
    page = show(small)
    text = page.locator("#training").inner_text()
    assert "How often it violates the tree" in text
    assert "Pairs in the wrong order" in text
    notes = page.locator("#notes").inner_text()
    assert "Versions that trained the model" in notes
    assert "Continued after 2 steps" in notes


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_study_opens_and_fits(show: Any, tmp_path: Path, scheme: str) -> None:
    names = ["method", *(f"a measure of long name {i}" for i in range(12))]
    rows = [[Cell("a method"), *(Cell("0.1234 ± 0.0012", i == 3, "≈" * (i % 2)) for i in range(12))]] * 3
    notes = "## Found\n\n1. **One** is `better`, see [there](../x/).\n" + "2. Two\n" * 20
    dots = [IntervalDot(0.1, -0.2, 0.4), IntervalDot(0.3, filled=False, style=1)]
    several = [IntervalRow(f"a method with a name of many words {i}", dots[: i % 3]) for i in range(6)]
    chart = Figure("differences", "a", interval_chart(several, title="features: a measure"))
    blocks = [
        *(Heading("A study", 1), Text("Made by `labeltree study`."), Notes(notes)),
        *(chart, chart, Table(names, rows), Fold("Settings", [Text("none"), Table(names, rows)])),
    ]
    path = tmp_path / "table.html"
    path.write_text(to_html(blocks), "utf-8")
    for width in (1280, 400):
        page = show(path, scheme, viewport={"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert faint_texts(page, least=60) == []
        texts, cut, covered = chart_texts(page, "svg.chart")
        assert (cut, covered) == ([], [])
        assert texts > 20
        assert page.locator(".notes li").count() == 21
        left, right = (chart.bounding_box() for chart in page.locator("svg.chart").all())
        assert left["width"] >= 350  # a text of 13 pixels is drawn as one
        assert (left["y"] == right["y"]) is (width == 1280)
        assert not page.locator("details table").is_visible()
        page.locator("summary").click()
        assert page.locator("details table").is_visible()
        page.locator(".scroll:has(tbody)").first.evaluate("(one) => { one.scrollLeft = 300; }")
        assert page.locator("tbody th").first.bounding_box()["x"] >= 0  # what a row is of stays in sight


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of two methods, one of them much better."""
    taxonomy = Taxonomy.from_paths(SMALL)
    tables = {name: random_table(taxonomy, 20, noise=noise) for name, noise in (("a", 1.5), ("b", 0.5))}
    results = {name: evaluate(table, taxonomy, name=name) for name, table in tables.items()}
    found = compare(
        {name: result.outcomes[name] for name, result in results.items()}, min_samples=5, resamples=50
    )
    path = tmp_path_factory.mktemp("comparison") / "comparison.html"
    path.write_text(comparison_page(found, results), "utf-8")
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_comparison_opens_and_its_branches_fold(show: Any, comparison: Path, scheme: str) -> None:
    page = show(comparison, scheme)
    for section in page.locator("main > section").all():
        assert section.bounding_box()["height"] > 100
        assert len(section.inner_text()) > 60
    shown = page.locator(".difftree .line:visible").count()
    summary = page.locator(".difftree summary").first
    summary.focus()
    page.keyboard.press("Enter")
    assert page.locator(".difftree .line:visible").count() < shown
    page.keyboard.press("Enter")
    assert page.locator(".difftree .line:visible").count() == shown
    assert faint_texts(page) == []
    phone = show(comparison, scheme, viewport={"width": 400, "height": 800})
    assert phone.evaluate("document.documentElement.scrollWidth") <= 400
    assert cut_off(phone) == []
    assert faint_texts(phone) == []
    assert phone.locator("#differences .on-narrow").is_visible()


LONG = [
    ("epithelial neoplasm", "adenocarcinoma", "ductal adenocarcinoma in situ"),
    ("epithelial neoplasm", "adenocarcinoma", "lobular adenocarcinoma"),
    ("mesenchymal", "sarcoma", "rhabdomyosarcoma"),
    ("normal", "stroma", "normal stroma"),
]


@pytest.fixture(scope="module")
def perfect(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Methods of long names that are nearly all perfect, on a tree of long names."""
    taxonomy = Taxonomy.from_paths(LONG)
    best, worse = (random_table(taxonomy, 16, noise=noise) for noise in (0.01, 1.0))
    others = {"hierarchical-multi-label-contrast": best, "supcon, frozen encoder": best, "raw pixels": best}
    result = evaluate(worse, taxonomy, name="hwc+lam", baselines=others)
    path = tmp_path_factory.mktemp("perfect") / "report.html"
    path.write_text(render_report(result, worse, taxonomy, images=grey, projection="PCA"), "utf-8")
    return path


@pytest.mark.parametrize("width", [390, 1280])
def test_no_text_of_a_chart_leaves_it_or_lies_on_another(show: Any, perfect: Path, width: int) -> None:
    page = show(perfect, viewport={"width": width, "height": 900})
    texts, cut, covered = chart_texts(page, ":is(#depth, #curve, #map) svg.chart")
    assert texts > 20
    assert cut == []
    assert covered == []


@pytest.mark.parametrize("width", [390, 600, 780, 1280])
def test_the_page_is_as_wide_as_the_screen_and_the_tree_can_be_scrolled(
    show: Any, perfect: Path, width: int
) -> None:
    page = show(perfect, viewport={"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    hidden = page.evaluate(
        """() => [...document.querySelectorAll(".viewport, .confusions")].filter((e) =>
             e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX === "visible").length"""
    )
    assert hidden == 0


@pytest.mark.parametrize("width", [390, 1280])
def test_long_texts_stay_within_the_screen(show: Any, tmp_path: Path, width: int) -> None:
    taxonomy = Taxonomy.from_paths(SMALL)
    table = random_table(taxonomy, 16, noise=1.0)
    result = evaluate(table, taxonomy, name="texts")
    sentence = "a fish whose front rays are long, found on the bottom of warm seas; "

    def texts(instances: Tensor) -> list[str]:
        return [sentence * (1 + int(i) % 4) for i in instances]

    path = tmp_path / "report.html"
    path.write_text(render_report(result, table, taxonomy, texts=texts, projection="PCA"), "utf-8")
    page = show(path, viewport={"width": width, "height": 900})
    assert page.locator(".texts .card").count() > 5
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_word_that_fits_on_a_line_is_not_broken(show: Any, perfect: Path) -> None:
    """A box of one word is one line high."""
    page = show(perfect, viewport={"width": 390, "height": 900})
    broken = page.evaluate(
        """() => {
          const range = document.createRange(), found = [];
          for (const box of document.querySelectorAll(".card figcaption, .confusions td")) {
            const walk = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
            for (let text = walk.nextNode(); text; text = walk.nextNode())
              for (const word of text.data.matchAll(/\\S+/g)) {
                range.setStart(text, word.index);
                range.setEnd(text, word.index + word[0].length);
                const lines = [...range.getClientRects()].filter((r) => r.width > 0);
                if (new Set(lines.map((r) => Math.round(r.top))).size > 1) found.push(word[0]);
              }
          }
          return found;
        }"""
    )
    assert [word for word in broken if len(word) <= 14] == []  # "adenocarcinoma"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_wall_of_results_fits_a_telephone(show: Any, tmp_path: Path, scheme: str) -> None:
    tree = Taxonomy.from_paths(["animal/mammal/dog", "animal/mammal/cat", "plant/" + 80 * "oak"])
    nodes = np.array([*range(1, tree.num_nodes), -1])
    ids = [f"folder/{60 * 'name'}-{number}.png" for number in range(len(nodes))]
    rows = {"text": ["<b>bold</b>", 100 * "long", *[""] * (len(nodes) - 2)]}
    hits = Hits(ids, np.arange(len(nodes)) / 10, -np.arange(len(nodes)) / 10, nodes, rows)
    dog = int(tree.find("dog"))
    answers = [
        Answer("a dog", "text", hits, dog, "results"),
        Answer(ids[0], "id", hits, dog, "query"),
        Answer("broken.png", "image", None, problem="it is not an image"),
    ]
    pixel = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///ywAAAAAAQABAAACAUwAOw=="
    for pictures in (None, lambda asked: dict.fromkeys(asked, pixel)):
        path = tmp_path / "wall.html"
        path.write_text(search_page(answers, tree, about=["Exact search."], pictures=pictures), "utf-8")
        page = show(path, scheme, viewport={"width": 390, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        text = page.locator("body").inner_text()
        assert "a dog" in text
        assert "it is not an image" in text
        assert page.locator("img").count() == (0 if pictures is None else 2 * len(nodes) + 1)
        assert faint_texts(page, least=20) == []
