"""The explorer's page at 100,000 samples: first paint, and frames a second while its map moves (P19).

    python benchmarks/explorer.py [--short]

An index of 100,000 vectors in 60 classes, explored in headless Chromium by software: there is no graphics
card. Server and browser share one core. First paint is the time from the request of the page until the map
shows points, by PCA; the very first visit, for which nothing is prepared and t-SNE begins to be computed, is
measured once. While a script pans and zooms, the page counts its frames, and the points in each: as people
get it, with WebGL in place of the painter of pixels, and with WebGL that draws every point in every frame, as
a map without levels of detail does. The processor time of a frame, of the browser and all others of its
processes, says how much is left where other programs want the core, too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from urllib.request import urlopen

import numpy as np

from harness import Results, Size, Table, choose, main
from labeltree.index import Index, IndexRows
from labeltree.taxonomy import Taxonomy

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DIM = 64
WIDTH, HEIGHT = 1280, 860

MOVE = """(milliseconds) => new Promise((done) => {
  const map = explorer.map, began = performance.now(), times = [], points = [], shares = [];
  const step = () => {
    const now = performance.now() - began;
    times.push(now);
    points.push(map.painted);
    shares.push(map.drawn / map.count);
    if (now > milliseconds) {
      map.fit();
      done([times, points, shares]);
      return;
    }
    map.look(0.3 * Math.sin(now / 500), 0.2 * Math.cos(now / 400), 2 + Math.sin(now / 900));
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})"""
ALL_POINTS = """() => {
  const map = explorer.map;
  Object.defineProperty(map, "budget", { get: () => map.count, set: () => {} });
}"""


def measure(size: Size) -> Results:
    """Measure the page of a collection."""
    if CHROMIUM is None:
        raise SystemExit("no chromium on this machine: install it to measure the explorer")
    from playwright.sync_api import sync_playwright

    samples = choose(size, full=100_000, short=100_000, tiny=300)
    rounds, seconds = choose(size, full=3, short=2, tiny=1), choose(size, full=5.0, short=3.0, tiny=0.5)
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder) / "index"
        Index.create(where, _rows(samples), taxonomy=_taxonomy())
        began = time.perf_counter()
        with _served(where) as address, sync_playwright() as playwright:
            opened = time.perf_counter() - began
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            first = _first_paint(browser, address)
            _wait_for_maps(address)
            address += "?map=PCA"
            paints = [_first_paint(browser, address) for _ in range(rounds)]
            ways: dict[str, list[Moved]] = {}
            for _ in range(rounds):
                for name, query, script in (
                    ("as people get it", "", ""),
                    ("WebGL by software, levels of detail", "&draw=webgl", ""),
                    ("WebGL by software, every point", "&draw=webgl", ALL_POINTS),
                ):
                    ways.setdefault(name, []).append(_frames(browser, address + query, seconds, script))
            browser.close()
    frames = {name: median(one.rate for one in found) for name, found in ways.items()}
    page = Table(
        f"The page of {samples:,} samples: seconds from its request, median of {rounds} (least–most)",
        ["what", "seconds"],
        [
            [what, f"{median(values):.2f} ({min(values):.2f}–{max(values):.2f})"]
            for what, values in (
                ("first paint of the page", [paint[0] for paint in paints]),
                ("first points on the map", [paint[1] for paint in paints]),
                ("every point on the map", [paint[2] for paint in paints]),
            )
        ],
    )
    moving = Table(
        f"The map while it moves, {WIDTH} × {HEIGHT}: median of {rounds} rounds of {seconds:g} s",
        [
            "way",
            "frames a second",
            "95 % of frames within, ms",
            "processor time of a frame, ms",
            "points in a frame",
            "of those in sight",
        ],
        [
            [
                name,
                round(frames[name], 1),
                round(median(one.late for one in found), 1),
                round(median(one.cost for one in found), 1),
                f"{median(one.points for one in found):,.0f}",
                f"{100 * median(one.share for one in found):.0f} %",
            ]
            for name, found in ways.items()
        ],
    )
    start = Table(
        "Once",
        ["what", "seconds"],
        [
            ["from the command to the address of the page", round(opened, 1)],
            ["first visit: first points on the map, while t-SNE is computed", round(first[1], 2)],
        ],
    )
    return Results(
        tables=[page, moving, start],
        measured={
            "P19": frames["as people get it"],
            "P19 paint": median(paint[1] for paint in paints),
        },
        notes=[
            "60 frames a second are the most that the browser draws. Points in a frame: their mean.",
            "Where WebGL is software, people get the painter of pixels; on a graphics card, WebGL.",
        ],
    )


def _taxonomy() -> Taxonomy:
    return Taxonomy.from_paths([(f"branch {a}", f"class {a}.{b}") for a in range(10) for b in range(6)])


def _rows(samples: int) -> IndexRows:
    random = np.random.default_rng(0)
    taxonomy = _taxonomy()
    leaves = taxonomy.is_leaf.nonzero().squeeze(1).numpy()
    nodes = random.choice(leaves, samples)
    centres = random.normal(size=(taxonomy.num_nodes, DIM))
    vectors = 1.5 * centres[taxonomy.parent.numpy()[nodes]] + centres[nodes]
    vectors = vectors + 1.5 * random.normal(size=vectors.shape)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return IndexRows([f"sample {row}" for row in range(samples)], vectors.astype(np.float32), nodes)


@contextmanager
def _served(where: Path) -> Iterator[str]:
    """The address of the explorer, in a process of its own."""
    command = [sys.executable, "-m", "labeltree", "explore", str(where), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if " at " not in line:
            raise SystemExit("the explorer did not start")
        yield line.split(" at ")[1].split(";")[0] + "/"
    finally:
        process.terminate()
        process.wait(60)


def _wait_for_maps(address: str) -> None:
    """Until the explorer computes no map any more."""
    while "computing" in urlopen(f"{address}api/maps").read().decode():
        time.sleep(1)


def _opened(browser: Any, address: str) -> Any:
    page = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}).new_page()
    page.set_default_timeout(300_000)
    page.add_init_script(
        """new MutationObserver(() => {
          const drawn = document.getElementById("plane")?.dataset.drawn;
          if (drawn) window.firstPoints ??= performance.now();
          if (drawn === "all") window.allPoints ??= performance.now();
        }).observe(document, { subtree: true, attributes: true, attributeFilter: ["data-drawn"] });"""
    )
    page.goto(address)
    page.locator("#plane[data-drawn=all]").wait_for()
    page.locator("#wall .card").first.wait_for()
    return page


def _first_paint(browser: Any, address: str) -> tuple[float, float, float]:
    """Seconds from the request to the first paint, to the first points, and to all of them."""
    page = _opened(browser, address)
    found = page.evaluate(
        "[performance.getEntriesByName('first-contentful-paint')[0].startTime, firstPoints, allPoints]"
    )
    page.context.close()
    return found[0] / 1000, found[1] / 1000, found[2] / 1000


@dataclass(frozen=True)
class Moved:
    """What the page did while its map moved.

    Attributes:
        rate: frames a second.
        late: milliseconds that 95 % of the frames take at most.
        cost: milliseconds of processor time of a frame, of all processes.
        points: drawn in a frame.
        share: of the points in sight, which of them are drawn.
    """

    rate: float
    late: float
    cost: float
    points: float
    share: float


def _frames(browser: Any, address: str, seconds: float, script: str) -> Moved:
    page = _opened(browser, address)
    if script:
        page.evaluate(script)
    page.evaluate(MOVE, 400)  # the budget finds its size
    page.locator("#plane[data-drawn=all]").wait_for()
    before = _processor_seconds()
    times, points, shares = page.evaluate(MOVE, 1000 * seconds)
    after = _processor_seconds()
    page.context.close()
    took = np.diff(times)
    spent = sum(value - before.get(process, 0.0) for process, value in after.items())
    return Moved(
        rate=1000 * len(took) / float(took.sum()),
        late=float(np.quantile(took, 0.95)),
        cost=1000 * spent / len(times),
        points=float(np.mean(points)),
        share=float(np.mean(shares)),
    )


def _processor_seconds() -> dict[int, float]:
    """Processor time of each process that this one has begun, or one of those."""
    parents: dict[int, int] = {}
    spent: dict[int, float] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        process = int(file.parent.name)
        parents[process] = int(fields[1])
        spent[process] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    ours = {os.getpid()}
    while found := {process for process, parent in parents.items() if parent in ours} - ours:
        ours |= found
    return {process: spent[process] for process in ours - {os.getpid()} if process in spent}


if __name__ == "__main__":
    main(__doc__, measure)
