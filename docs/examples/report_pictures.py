"""Make the pictures of docs/report.md and of the README from the runs of `make quickstart`.

Needs Chromium. The comparison is drawn if there is one, for which each run is evaluated by itself:

    labeltree compare runs/quickstart-supcon runs/quickstart runs/quickstart-hwc-lam --out runs/comparison
    python docs/examples/report_pictures.py runs docs/images
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from PIL import Image

WIDTH = 960


def main(runs: Path, images: Path) -> None:
    """Photograph the report, its searched tree of errors, and the chart of differences, light and dark."""
    from playwright.sync_api import sync_playwright

    made = []
    with sync_playwright() as browsers:
        browser = browsers.chromium.launch(executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"))
        for scheme, mark in (("light", ""), ("dark", "-dark")):
            report, tree, chart = (
                images / f"report{name}{mark}.png" for name in ("", "-tree", "-comparison")
            )
            tab = browser.new_page(viewport={"width": WIDTH, "height": 1314}, color_scheme=scheme)
            tab.goto((runs / "quickstart" / "report.html").absolute().as_uri())
            tab.wait_for_timeout(500)
            tab.screenshot(path=report)
            tab.locator("#errors input[type=search]").fill("shirt")
            tab.wait_for_timeout(500)
            whole = tab.locator("#errors").bounding_box() or {}
            below = tab.locator("#errors h3").first.bounding_box() or {}
            whole["height"] = below["y"] - whole["y"] - 16
            tab.screenshot(path=tree, clip=whole, full_page=True)
            made += [report, tree]
            if (comparison := runs / "comparison" / "comparison.html").is_file():
                tab.goto(comparison.absolute().as_uri())
                tab.wait_for_timeout(500)
                tab.locator("#differences svg").first.screenshot(path=chart)
                made.append(chart)
        browser.close()
    for file in made:
        Image.open(file).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(file, optimize=True)
        print(file)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
