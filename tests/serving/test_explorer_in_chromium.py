"""The explorer in a browser: search, filter, map, node pages and review are used as people use them."""

from __future__ import annotations

import csv
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from explorer_inputs import ColourEngine, make_show, square, with_dials, with_search

from axe import CHROMIUM, SIZES, faults, read_axe
from labeltree.errors import DataError

pytestmark = [pytest.mark.slow, pytest.mark.long]

if CHROMIUM is None:
    pytest.skip("no chromium on this machine: install it to test the explorer", allow_module_level=True)
sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: it drives chromium")
pytest.importorskip("fastapi")
uvicorn = pytest.importorskip("uvicorn")
create_explorer = pytest.importorskip("labeltree.serving.explorer.explorer_app").create_explorer

TOKEN = "0123456789abcdef-token"
WAIT = 60_000  # milliseconds; a machine may be busy


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Serves a show in a thread, and gives its address."""
    servers = []

    def start(show: Any, engine: Any = None, **options: Any) -> str:
        app = create_explorer(show, engine, **options)
        server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        servers.append((server, thread))
        for _ in range(600):
            if server.started:
                break
            thread.join(0.05)
        return f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"

    yield start
    for server, thread in servers:
        server.should_exit = True
        thread.join(30)


@pytest.fixture
def visit(browser: Any) -> Iterator[Any]:
    """Opens an address; afterwards nothing came from elsewhere, and the page did not complain."""
    asked: list[str] = []
    said: list[str] = []
    contexts = []

    def opened(address: str, **options: Any) -> Any:
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 860}} | options))
        context.set_default_timeout(WAIT)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    expected = ("status of 4", "GPU stall")  # refusals that a test provokes; software WebGL that is slow
    assert [text for text in said if not any(words in text for words in expected)] == []
    assert [url for url in asked if not url.startswith(("http://127.0.0.1:", "data:", "blob:"))] == []


@pytest.fixture
def show(tmp_path: Path) -> Any:
    return make_show(tmp_path, tmp_path / "corrections.csv")


def ready(page: Any) -> Any:
    page.locator("#drawing").wait_for(state="hidden")
    page.locator("#plane[data-drawn=all]").wait_for()
    page.locator("#wall .card").first.wait_for(state="attached")
    return page


def spot(page: Any, row: int) -> tuple[float, float]:
    """Where a sample stands on the page."""
    x, y = page.evaluate(
        "(row) => explorer.map.onPage(explorer.map.points.x[row], explorer.map.points.y[row])", row
    )
    box = page.locator("#plane").bounding_box()
    return box["x"] + x, box["y"] + y


def settled(page: Any) -> Any:
    """With PCA, which does not change any more."""
    ready(page)
    page.locator("#method").select_option("PCA")
    page.locator("#note", has_text="variance").wait_for()
    return ready(page)


@pytest.mark.skipif(read_axe() is None, reason="AXE does not name the file axe.min.js of axe-core")
@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_everyone_can_use_it(serve: Any, visit: Any, show: Any, width: int, scheme: str) -> None:
    size = {"width": width, "height": 860}
    page = ready(visit(serve(show), viewport=size, color_scheme=scheme, bypass_csp=True))
    for pane in ("samples", "node", "review"):
        page.locator(f"#tab-{pane}" if width > 1000 else f"#panes [data-pane={pane}]").click()
        assert faults(page, read_axe() or "") == [], pane


def test_an_image_is_searched_by(serve: Any, visit: Any, show: Any) -> None:
    page = ready(visit(serve(show, ColourEngine())))
    page.locator("#file").set_input_files(
        {"name": "a.png", "mimeType": "image/png", "buffer": square((30, 40, 200))}
    )
    page.locator("#asked h2", has_text="a.png").wait_for()
    cards = page.locator("#wall .card.framed")
    assert "blue" in cards.nth(1).inner_text()
    assert float(cards.nth(1).get_attribute("data-far")) == 0
    far = cards.last
    assert float(far.get_attribute("data-far")) > 0
    assert far.evaluate("(card) => card.style.borderColor") != cards.nth(1).evaluate(
        "(c) => c.style.borderColor"
    )
    page.locator("#file").set_input_files({"name": "bad.png", "mimeType": "image/png", "buffer": b"no image"})
    page.locator("#notice", has_text="cannot read").wait_for()


def test_an_image_is_dropped(serve: Any, visit: Any, show: Any) -> None:
    page = ready(visit(serve(show, ColourEngine())))
    page.evaluate(
        """(bytes) => {
          const data = new DataTransfer();
          data.items.add(new File([new Uint8Array(bytes)], "dropped.png", { type: "image/png" }));
          const event = (kind) => new DragEvent(kind, { dataTransfer: data, cancelable: true });
          for (const kind of ["dragenter", "dragover"]) window.dispatchEvent(event(kind));
          window.shown = !document.getElementById("drop").hidden;
          window.dispatchEvent(event("drop"));
        }""",
        list(square((200, 30, 30))),
    )
    assert page.evaluate("window.shown")
    page.locator("#asked h2", has_text="dropped.png").wait_for()
    assert page.locator("#drop").is_hidden()


def test_the_dials_turn_a_search_by_keys_and_stay_in_the_address(serve: Any, visit: Any, show: Any) -> None:
    address = serve(with_dials(show))
    page = ready(visit(address))
    page.locator("#wall .card").nth(5).click()
    page.locator("#asked h2").wait_for()
    first = page.locator("#wall .card").first.get_attribute("title")
    tree = page.get_by_label("tree", exact=True)
    assert tree.input_value() == "0.5"
    tree.focus()
    with page.expect_response(lambda reply: "tree=0" in reply.url) as turned:
        page.keyboard.press("Home")
    assert turned.value.ok
    page.wait_for_function("(title) => document.querySelector('#wall .card').title !== title", arg=first)
    assert page.locator("#tree-value").inner_text() == "0.00"
    assert page.url.endswith("#tree=0")
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    again = ready(visit(f"{address}#tree=0.7&instance=9"))
    assert again.locator("#tree-value").inner_text() == "0.70"
    assert "instance must be a number from 0 to 2, not 9" in again.locator("#notice").inner_text()


def test_a_node_filters_map_and_samples(serve: Any, visit: Any, show: Any) -> None:
    page = settled(visit(serve(show)))
    page.locator("#nodes .node", has_text="cold").first.click()
    page.locator("#count", has_text="20 samples of 40").wait_for()
    node = show.collection.taxonomy.find("cold")
    inside = page.evaluate("[...explorer.map.inside]")
    end = int(show.collection.taxonomy.subtree_end[node])
    assert inside == [int(node <= label < end) for label in show.collection.nodes.tolist()]
    assert page.url.endswith("#node=cold")
    page.locator("#tab-node").click()
    page.locator("#node h2", has_text="cold").wait_for()
    assert "Hardest" in page.locator("#node").inner_text()
    page.locator("#tab-samples").click()
    page.locator(".chip").first.click()
    page.locator("#count", has_text="40 samples").wait_for()


def test_the_tree_is_used_by_keys(serve: Any, visit: Any, show: Any) -> None:
    page = ready(visit(serve(show)))
    page.locator("#nodes").focus()
    for key in ("ArrowDown", "ArrowLeft", "ArrowDown"):  # fold the first branch, go to the second
        page.keyboard.press(key)
    assert page.locator("#nodes .node.active").inner_text().split("\n")[1] == "cold"
    page.keyboard.press("Enter")
    page.locator(".chip", has_text="cold").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("red")
    page.locator("#matches li", has_text="warm › red").wait_for()
    page.keyboard.press("Enter")
    page.locator(".chip", has_text="warm › red").wait_for()


def test_the_map_tells_what_is_under_the_mouse(serve: Any, visit: Any, show: Any) -> None:
    page = settled(visit(serve(show)))
    page.mouse.move(*spot(page, 25))
    tip = page.locator("#tip[data-row='25']:not([hidden])")
    tip.wait_for()
    assert "cold › blue" in tip.inner_text()
    assert "sample 025" in tip.inner_text()
    tip.locator("img").wait_for()
    page.mouse.click(*spot(page, 25))
    page.locator("#asked p", has_text="sample 025").wait_for()


def test_what_is_drawn_around_is_shown(serve: Any, visit: Any, show: Any) -> None:
    page = settled(visit(serve(show)))
    box = page.locator("#plane").bounding_box()
    page.locator("#lasso").click()
    left, top, right, low = (
        box["x"] + 1,
        box["y"] + 1,
        box["x"] + box["width"] - 1,
        box["y"] + box["height"] - 1,
    )
    page.mouse.move(left, top)
    page.mouse.down()
    for place in ((right, top), (right, low), (left, low), (left, top + 5)):
        page.mouse.move(*place, steps=3)
    page.mouse.up()
    page.locator(".chip", has_text="40 drawn around").wait_for()


def test_the_map_moves_and_fills_in(serve: Any, visit: Any, show: Any) -> None:
    page = settled(visit(serve(show)))
    before = spot(page, 3)
    page.mouse.move(*before)
    page.mouse.wheel(0, -400)
    assert page.evaluate("explorer.map.zoom") > 2
    assert spot(page, 3) == pytest.approx(before, abs=1)  # the place under the mouse stays
    page.locator("#plane").focus()
    page.keyboard.press("ArrowRight")
    assert spot(page, 3)[0] < before[0]
    page.keyboard.press("0")
    page.locator("#plane[data-drawn=all]").wait_for()
    assert page.evaluate("explorer.map.zoom") == 1


def test_points_that_are_filled_in_make_the_picture_of_all_at_once(serve: Any, visit: Any, show: Any) -> None:
    page = settled(visit(f"{serve(show)}?draw=pixels"))
    for choose in ("label", "suspect"):
        page.locator("#colour").select_option(choose)
        page.locator("#nodes .node", has_text="warm").first.click()
        page.locator("#count", has_text="19 samples of 40").wait_for()
        pictures = page.evaluate(
            """() => [1e9, 7, 1].map((most) => {
              const { painter, paper, count, view } = explorer.map;
              painter.begin({ ...view, size: 20 }, paper);
              for (let at = 0; at < count;) [at] = painter.draw(at, most);
              return [painter.pixels.reduce((sum, one, i) => (sum * 31 + one * (i % 97 + 1)) % 1000003, 0),
                new Set(painter.pixels).size];
            })"""
        )
        assert pictures[0] == pictures[1] == pictures[2]
        assert pictures[0][1] > 2


@pytest.mark.parametrize("way", ["webgl", "pixels"])
def test_both_ways_of_drawing_show_the_points(serve: Any, visit: Any, show: Any, way: str) -> None:
    page = settled(visit(f"{serve(show)}?draw={way}"))
    kind = page.evaluate("explorer.map.kind")
    if kind != way:
        pytest.skip("this browser has no WebGL")
    page.mouse.move(5, 5)
    page.evaluate("explorer.map.over.remove()")  # names and rings
    x, y = spot(page, 25)
    picture = page.screenshot(clip={"x": x - 1, "y": y - 1, "width": 3, "height": 3})
    assert mean_colour(picture) == pytest.approx(hexadecimal(page, 25), abs=40)


def mean_colour(png: bytes) -> list[float]:
    import io

    import numpy as np
    from PIL import Image

    return list(np.asarray(Image.open(io.BytesIO(png)).convert("RGB"), float).reshape(-1, 3).mean(0))


def hexadecimal(page: Any, row: int) -> list[int]:
    colour = page.evaluate("(row) => explorer.map.colours[row]", row)
    return [colour & 255, colour >> 8 & 255, colour >> 16 & 255]


def test_a_correction_is_accepted_by_one_and_told_to_the_other(
    serve: Any, visit: Any, show: Any, tmp_path: Path
) -> None:
    address = serve(show)
    pages = [ready(visit(address)) for _ in range(2)]
    for page in pages:
        page.locator("#tab-review").click()
        page.locator("#review .decide").wait_for()
    assert "cold › blue" in pages[0].locator("#review dl").inner_text()
    pages[0].keyboard.press("a")
    pages[0].locator("#progress", has_text="1 of 2 decided").wait_for()
    with (tmp_path / "corrections.csv").open(newline="", encoding="utf-8") as file:
        assert [row["suggested"] for row in csv.DictReader(file)] == ["warm/red"]
    pages[1].keyboard.press("k")
    pages[1].locator("#notice", has_text="Somebody else has decided meanwhile: warm › red").wait_for()
    pages[1].locator("#review dl", has_text="warm › orange").wait_for()
    pages[1].keyboard.press("o")
    field = pages[1].locator("#review .other input")
    field.fill("red")
    field.press("Enter")
    pages[1].locator("h2", has_text="All decided").wait_for()
    pages[1].locator("#review .done button").click()
    pages[1].locator("#progress", has_text="1 of 2 decided").wait_for()


def test_the_hits_of_a_slow_search_do_not_replace_newer_ones(serve: Any, visit: Any, show: Any) -> None:
    page = ready(visit(serve(show, ColourEngine())))
    page.evaluate(
        """() => {
          const [make, give, ask] = [URL.createObjectURL, URL.revokeObjectURL, window.fetch];
          Object.assign(window, { made: 0, given: 0, slow: () => {} });
          URL.createObjectURL = (file) => { window.made++; return make(file); };
          URL.revokeObjectURL = (url) => { window.given++; give(url); };
          window.fetch = async (path, options) => {
            const reply = await ask(path, options);
            if (path.includes("row=1&")) await new Promise((done) => { window.slow = done; });
            return reply;
          };
        }"""
    )
    cards = page.locator("#wall .card")
    with page.expect_response("**/api/search/sample?row=1&*"):
        cards.nth(1).click()
    cards.nth(5).click()
    asked = page.locator("#asked p", has_text="sample 005")
    asked.wait_for()
    page.evaluate("slow()")
    page.evaluate("new Promise((done) => setTimeout(done))")
    assert asked.count() == 1
    image = {"name": "a.png", "mimeType": "image/png", "buffer": square((30, 40, 200))}
    page.locator("#file").set_input_files(image)
    page.locator("#asked h2", has_text="a.png").wait_for()
    page.locator("#nodes .node", has_text="cold").first.click()  # the same image, within the node
    page.locator("#count", has_text="20 nearest within the node").wait_for()
    page.locator("#asked button", has_text="Close").click()
    assert page.evaluate("[made, given]") == [2, 2]


def test_the_review_stays_open_and_its_keys_act_in_it_alone(serve: Any, visit: Any, show: Any) -> None:
    page = ready(visit(serve(show)))
    page.locator("#wall .card").nth(5).click()  # hits are asked for anew in a chosen node
    page.locator("#asked h2").wait_for()
    page.locator("#tab-review").click()
    label = page.locator("#review dl")
    label.wait_for()
    with page.expect_response("**/api/search/sample?row=5&within=*"):
        page.locator("#nodes .node", has_text="cold").first.click()
    page.locator("#progress", has_text="0 of 1 decided within cold").wait_for()
    page.locator("#nodes .node", has_text="All samples").click()
    page.locator("#progress", has_text="0 of 2 decided").wait_for()
    page.keyboard.press("s")
    page.locator("#review dl", has_text="warm › orange").wait_for()
    page.locator("#tab-samples").click()
    for key in "aknr":
        page.keyboard.press(key)
    page.locator("#tab-review").click()
    page.locator("#progress", has_text="0 of 2 decided").wait_for()
    page.locator("#review dl", has_text="warm › orange").wait_for()  # what was skipped comes last
    page.keyboard.press("k")
    page.locator("#progress", has_text="1 of 2 decided").wait_for()
    page.locator("#review dl", has_text="cold › blue").wait_for()
    page.locator("#review .done button").click()
    page.locator("#progress", has_text="0 of 2 decided").wait_for()
    page.locator("#review dl", has_text="warm › orange").wait_for()  # what was taken back


def test_suspects_are_looked_for_from_the_page(serve: Any, visit: Any, show: Any, tmp_path: Path) -> None:
    wait = threading.Event()
    show = with_search(show, tmp_path / "found.csv", [DataError("5 labels are too few"), wait])
    page = ready(visit(serve(show)))
    assert page.locator("#about").inner_text() == (
        "Predictions by a linear probe on the features, judged on the split test. "
        "Index version 0, last changed 2026-01-02 03:04 UTC; up to date."
    )
    assert page.locator("#colour option[value=suspect]").is_disabled()
    page.locator("#tab-review").click()
    page.locator("#find-suspects").click()
    page.locator("#review [role=alert]", has_text="It could not be done: 5 labels are too few.").wait_for()
    page.locator("#find-suspects", has_text="Look again").click()
    page.locator("#review [role=status]", has_text="reading").wait_for()
    assert page.locator("#review progress").get_attribute("value") == "0.25"
    wait.set()
    page.locator("#review .decide").wait_for()
    assert page.locator("#tab-review").inner_text() == "Review (2)"
    assert not page.locator("#colour option[value=suspect]").is_disabled()
    page.keyboard.press("a")
    page.locator("#review dl", has_text="warm › orange").wait_for()
    with (tmp_path / "found.csv").open(encoding="utf-8") as file:
        assert [row["decision"] for row in csv.DictReader(file)] == ["accept"]
    page.locator("#order").select_option("wrong")
    assert page.locator("#nodes .node b").all_inner_texts()[1] == "warm"  # its one wrong answer


def test_what_was_taken_back_by_others_can_be_taken_back(serve: Any, visit: Any, show: Any) -> None:
    page = ready(visit(serve(show)))
    page.locator("#tab-review").click()
    page.locator("#review .decide").wait_for()
    page.keyboard.press("a")
    undo = page.locator("#review .done button")
    undo.wait_for()
    taken = show.review.read().decisions["sample 000"]
    show.review.decide("sample 000", type(taken)("remove", -1), str(taken))
    undo.click()
    page.locator("#notice", has_text="Somebody else has decided meanwhile: left out").wait_for()
    page.locator("#review .done span", has_text="left out").wait_for()
    undo.click()
    page.locator("#progress", has_text="0 of 2 decided").wait_for()
    assert show.review.read().decisions == {}


def test_names_are_text_and_never_html(serve: Any, visit: Any, show: Any) -> None:
    page = ready(visit(serve(show)))
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    page.locator("#nodes .node", has_text="<img src=x").first.click()
    page.locator("#tab-node").click()
    page.locator("#node h2", has_text="<img src=x onerror=alert(1)>").wait_for()
    assert page.locator("img[src=x]").count() == 0
    page.locator("#query").fill("bold")
    page.locator("#matches li", has_text="<b>bold").wait_for()
    assert page.locator("#matches b").count() == 0


def press(page: Any, selector: str, text: str | None = None) -> None:
    """Enter on an element."""
    page.locator(selector, has_text=text).first.focus()
    page.keyboard.press("Enter")


def at(page: Any, selector: str) -> None:
    """Waits until an element that the selector matches has the focus."""
    page.wait_for_function("(selector) => document.activeElement.matches(selector)", arg=selector)


def test_keys_go_on_where_something_was_replaced(serve: Any, visit: Any, show: Any) -> None:
    page = ready(visit(serve(show)))
    press(page, "#wall .card[data-row='5']")
    at(page, "#asked h2")
    press(page, "#asked .path .link", "warm")  # the same search, within the node
    page.locator("#count", has_text="nearest within the node").wait_for()
    at(page, "#asked h2")
    press(page, "#asked button", "Close")
    at(page, "#wall .card[data-row='5']")
    press(page, "#chips .chip", "warm")
    page.locator("#count", has_text="40 samples").wait_for()
    at(page, "#chips button")
    press(page, "#tab-node")
    press(page, "#node .bars .link", "cold")
    page.locator("#node h2", has_text="cold").wait_for()
    at(page, "#node h2")
    press(page, "#node .card")
    at(page, "#asked h2")
    page.keyboard.press("Escape")
    page.locator("#asked h2").wait_for(state="detached")
    at(page, "#wall .card, #samples")
    press(page, "#tab-review")
    press(page, "#review .decide button", "Keep")
    page.locator("#progress", has_text="1 of").wait_for()
    at(page, "#review .one, #review h2")
    press(page, "#review .done button")
    page.locator("#progress", has_text="0 of").wait_for()
    at(page, "#review .one")


def test_every_control_is_reached_by_keys_and_shows_it(serve: Any, visit: Any, show: Any) -> None:
    page = ready(visit(serve(with_dials(show))))
    controls = "button, input, select, [tabindex='0']"
    expected = page.evaluate(
        """(controls) => [...document.querySelectorAll(controls)].filter((one) => one.getClientRects().length
          && !one.disabled && one.tabIndex >= 0 && one.type !== "radio" && !one.matches(".card"))
          .map((one) => one.id || one.textContent)""",
        controls,
    )
    reached, bare = [], []
    for _ in range(len(expected) + page.locator("#wall .card").count() + 4):
        page.keyboard.press("Tab")
        name, outline = page.evaluate(
            """() => {
              const one = document.activeElement;
              const seen = one.matches(".theme input") ? one.nextElementSibling : one;
              return [one.id || one.textContent, getComputedStyle(seen).outlineStyle];
            }"""
        )
        reached.append(name)
        if outline == "none" and page.evaluate("document.activeElement !== document.body"):
            bare.append(name)
    assert [name for name in expected if name not in reached] == []
    assert bare == []
    places = [reached.index(name) for name in ("query", "nodes", "plane", "tab-samples")]
    assert places == sorted(places)


def test_many_matches_follow_the_keys(serve: Any, visit: Any, show: Any) -> None:
    page = ready(visit(serve(show), viewport={"width": 1280, "height": 260}))
    page.keyboard.press("/")
    page.keyboard.type("sample")
    page.locator("#matches li").nth(5).wait_for()
    page.keyboard.press("ArrowUp")  # the last one
    low, box_low = page.evaluate(
        """() => [document.querySelector("#matches [aria-selected=true]"), document.getElementById("matches")]
          .map((one) => one.getBoundingClientRect().bottom)"""
    )
    assert low <= box_low + 1


def test_the_question_for_a_token_stays(serve: Any, visit: Any, show: Any) -> None:
    page = visit(serve(show, token=TOKEN))
    page.locator("#token").wait_for()
    for _ in range(4):
        page.keyboard.press("Escape")
        page.evaluate("new Promise((done) => setTimeout(done, 50))")
    page.locator("#token").fill(TOKEN)
    page.keyboard.press("Enter")
    ready(page)


def test_a_token_is_asked_for(serve: Any, visit: Any, show: Any) -> None:
    page = visit(serve(show, token=TOKEN))
    page.locator("#token").fill("wrong")
    page.locator("#login button").click()
    page.locator("#login-problem", has_text="not the token").wait_for()
    page.locator("#token").fill(TOKEN)
    page.locator("#login button").click()
    ready(page)
    assert (
        page.locator("#wall img").first.evaluate("(image) => image.decode().then(() => image.naturalWidth)")
        > 0
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_telephone(serve: Any, visit: Any, show: Any, scheme: str) -> None:
    page = ready(
        visit(serve(show), viewport={"width": 390, "height": 800}, color_scheme=scheme, has_touch=True)
    )
    for pane, part in (
        ("tree", "#tree"),
        ("map", "#map"),
        ("samples", "#samples"),
        ("node", "#node"),
        ("review", "#review"),
    ):
        page.locator(f"#panes [data-pane={pane}]").click()
        page.locator(part).wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        outside = page.locator(f"{part} *").evaluate_all(
            "(all) => all.filter((a) => a.getBoundingClientRect().right > 391).map((a) => a.outerHTML)"
        )
        assert outside == []
    page.locator("#panes [data-pane=samples]").click()
    page.locator("#wall .card").nth(4).click()
    page.locator("#asked h2").wait_for()
