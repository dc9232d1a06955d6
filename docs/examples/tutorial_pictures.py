"""Make the pictures of the tutorials, by running them: `make tutorials`.

Needs Chromium for what is a page in the browser. Without names, all tutorials are run:

    python docs/examples/tutorial_pictures.py docs/images/tutorials [01-photos-in-folders …]
"""

from __future__ import annotations

import csv
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from PIL import Image

DOCS = Path(__file__).parents[1]
sys.path[:0] = [str(DOCS / "build_site"), str(Path(__file__).parent)]

# tutorial, name of the picture, page (or picture that the run draws), height in pixels at a width of 960
PICTURES = [
    ("01-photos-in-folders", "photos-report", "runs/birds/report.html", 860),
    ("01-photos-in-folders", "photos-errors", "runs/birds/report.html#errors", 900),
    ("01-photos-in-folders", "photos-search", "found.html", 760),
    ("02-table-of-texts", "messages-why", "runs/messages/report.html#why", 490),
    ("03-your-own-embeddings", "embeddings-report", "runs/old/report.html", 860),
    ("04-patients", "clinic-report", "runs/clinic/report.html", 600),
    ("04-patients", "clinic-elsewhere", "runs/clinic/elsewhere-clinic-b/report.html", 700),
    ("05-a-changing-taxonomy", "changed-errors", "runs/birds/on-2025/report.html#errors", 1222),
    ("06-your-own-loop", "similarities", "similarities.png", 0),
]
WIDTH = 960


def photograph(page: str, target: Path, height: int) -> None:
    """Save a page, from its ``#anchor`` on, as pictures with few colours: light, and dark as NAME-dark."""
    from playwright.sync_api import sync_playwright

    file, _, anchor = page.partition("#")
    with sync_playwright() as browsers:
        browser = browsers.chromium.launch(executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"))
        for scheme, path in (("light", target), ("dark", target.with_stem(f"{target.stem}-dark"))):
            tab = browser.new_page(viewport={"width": WIDTH, "height": height}, color_scheme=scheme)
            tab.goto(Path(file).absolute().as_uri())
            tab.wait_for_timeout(500)
            if anchor:  # at once: the page would glide there
                tab.evaluate(f"document.getElementById('{anchor}').scrollIntoView({{ behavior: 'instant' }})")
            tab.screenshot(path=path)
            shown = Image.open(path).convert("RGB").quantize(128, dither=Image.Dither.NONE)
            shown.save(path, optimize=True)
        browser.close()


def wall_of_birds(target: Path, folder: Path, rows: int = 3) -> None:
    """A column of pictures for each species."""
    species = sorted({file.parent for file in folder.rglob("*.png")})
    wall = Image.new("RGB", (len(species) * 70, rows * 70), "white")
    for column, path in enumerate(species):
        for row in range(rows):
            wall.paste(Image.open(path / f"{row:03d}.png"), (column * 70 + 3, row * 70 + 3))
    wall.quantize(64, dither=Image.Dither.NONE).save(target, optimize=True)


def wall_of_swans(target: Path, folder: Path, columns: int = 6) -> None:
    """All pictures of a folder in rows."""
    files = sorted(folder.rglob("*.png"))
    wall = Image.new("RGB", (columns * 70, -(-len(files) // columns) * 70), "white")
    for number, file in enumerate(files):
        wall.paste(Image.open(file), (number % columns * 70 + 3, number // columns * 70 + 3))
    wall.quantize(256, dither=Image.Dither.FLOYDSTEINBERG).save(target, optimize=True)


def wall_of_lesions(target: Path, folder: Path) -> None:
    """A column of lesions for each diagnosis: three rows of clinic A, two of clinic B."""
    from labeltree.data.images.decode import decode

    pictures: dict[tuple[str, str], list[Path]] = {}
    for clinic in "ab":
        with (folder / f"clinic-{clinic}.csv").open(encoding="utf-8") as table:
            for row in csv.DictReader(table):
                if "/" in row["label"] and row["image"].endswith(("-0.dcm", "-0.tif")):
                    pictures.setdefault((clinic, row["label"]), []).append(folder / row["image"])
    labels = sorted({label for _, label in pictures})
    wall = Image.new("RGB", (len(labels) * 104, 5 * 104 + 8), "white")
    for column, label in enumerate(labels):
        for row in range(5):
            clinic, number = ("a", row) if row < 3 else ("b", row - 3)
            shown = decode(pictures[clinic, label][number], 98, 3).transpose(1, 2, 0)
            wall.paste(Image.fromarray(shown), (column * 104 + 3, row * 104 + 3 + (row > 2) * 8))
    wall.quantize(256, dither=Image.Dither.FLOYDSTEINBERG).save(target, optimize=True)


# tutorial: the pictures that are put together from its files, and how
WALLS: dict[str, tuple[str, str, Callable[[Path, Path], None]]] = {
    "01-photos-in-folders": ("birds", "birds", wall_of_birds),
    "04-patients": ("clinics", "clinics", wall_of_lesions),
    "05-a-changing-taxonomy": ("swans", "found", wall_of_swans),
}


def main(out: Path, names: Iterable[str]) -> None:
    """Run the tutorials and write their pictures."""
    import tutorials

    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # one for all: a tutorial may go on with the run of another
        for name in names or dict.fromkeys(picture[0] for picture in PICTURES):
            tutorials.run((tutorials.TUTORIALS / f"{name}.md").read_text("utf-8"), lambda *_: None)
            if name in WALLS:
                picture, source, draw = WALLS[name]
                draw(out / f"{picture}.png", Path(source))
            for tutorial, picture, page, height in PICTURES:
                if tutorial == name and page.endswith(".png"):
                    shutil.copyfile(page, out / f"{picture}.png")
                elif tutorial == name:
                    photograph(page, out / f"{picture}.png", height)
                if tutorial == name:
                    print(out / f"{picture}.png")
        os.chdir(DOCS)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), sys.argv[2:])
