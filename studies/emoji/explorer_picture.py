"""The picture of `labeltree explore`: python studies/emoji/explorer_picture.py RUN docs/images/explore.png

RUN is a run on emoji with an index (`labeltree index RUN`). Styles whose licence puts conditions on the page
around them are left out of a copy of it.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from labeltree.index import Index
from labeltree.index.opening import index_folder

LEFT_OUT = ("openmoji", "emojione-v1")
QUERY = "rabbit"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))


def main(run: str, out: str) -> None:
    """Explore a copy of the index, search by a drawing, and take the picture."""
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder) / "emoji"
        shutil.copytree(index_folder(run), where)
        index = Index.open(where)
        table = index.rows(["id", "path"]).to_pylist()
        index.delete([row["id"] for row in table if {*Path(row["path"]).parts} & {*LEFT_OUT}])
        command = [sys.executable, "-m", "labeltree", "explore", str(where), "--port", "0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split(" at ")[1].split(";")[0]
            take(address, out)
        finally:
            process.terminate()
            process.wait(60)


def take(address: str, out: str) -> None:
    """The page after a search, with t-SNE."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_context(viewport={"width": 1280, "height": 820}).new_page()
        page.set_default_timeout(600_000)
        page.goto(address)
        page.locator("#note", has_text="t-SNE; only").wait_for()
        page.locator("#query").fill(QUERY)
        page.locator("#matches li", has_text=QUERY).first.wait_for()
        page.keyboard.press("Enter")
        page.locator(".chip").first.wait_for()
        page.locator("#wall .card").nth(2).click()
        page.locator("#asked h2").wait_for()
        page.locator(".chip").first.click()
        page.locator("#count", has_text="nearest;").wait_for()
        page.locator("#plane[data-drawn=all]").wait_for()
        page.mouse.move(5, 5)
        page.wait_for_timeout(3000)
        page.screenshot(path=out)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:3])
