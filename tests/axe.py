"""Whether pages can be used by everyone, as far as the rules of axe-core say, and fit a telephone.

Each is looked at narrow and wide, light and dark. axe-core is no part of the project and of no extra: `npm
pack axe-core` fetches it, and `AXE` names its file `axe.min.js`. Tests that need it are skipped elsewhere.
Every page of the site, or any other page:

    AXE=package/axe.min.js python tests/axe.py build/docs/html runs/quickstart/report.html
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SIZES = tuple((width, scheme) for width in (390, 1280) for scheme in ("light", "dark"))
_RUN = """async () => (await axe.run(document, { resultTypes: ["violations"] })).violations.flatMap(
  ({ id, impact, nodes }) =>
    nodes.map(({ target, html }) => [impact, id, target.join(" "), html.slice(0, 120)]))"""
_UNFOLD = "() => document.querySelectorAll('details').forEach((one) => { one.open = true; })"
_TOO_WIDE = """() => [document.documentElement, ...document.querySelectorAll(".content")]
  .filter((box) => box.scrollWidth > box.clientWidth + 1)
  .map((box) => `${box.tagName} ${box.className} is ${box.scrollWidth} wide`)"""


def read_axe() -> str | None:
    """The text of axe-core, if `AXE` names its file."""
    path = os.environ.get("AXE")
    return Path(path).read_text("utf-8") if path else None


def faults(page: Any, axe: str, impacts: Iterable[str] = ("critical", "serious")) -> list[str]:
    """What is wrong with a page that is open, its folded parts unfolded; nothing, if all is well."""
    page.evaluate(_UNFOLD)
    page.wait_for_timeout(100)
    page.evaluate(axe)
    broken = [
        f"{impact}: {rule}: {target}: {html}"
        for impact, rule, target, html in page.evaluate(_RUN)
        if impact in impacts
    ]
    return broken + [f"critical: too wide: {what}" for what in page.evaluate(_TOO_WIDE)]


def _addresses(named: Iterable[str]) -> Iterator[str]:
    for name in named:
        if name.startswith("http"):
            yield name
        elif Path(name).is_dir():
            yield from (path.absolute().as_uri() for path in sorted(Path(name).rglob("*.html")))
        else:
            yield Path(name).absolute().as_uri()


def main(named: list[str]) -> int:
    """Print the faults of pages at both sizes, light and dark; returns 1 if one is critical or serious."""
    from playwright.sync_api import sync_playwright

    axe = read_axe()
    if axe is None:
        raise SystemExit("AXE does not name the file axe.min.js of axe-core; 'npm pack axe-core' fetches it")
    counts: dict[str, int] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for width, scheme in SIZES:
            context = browser.new_context(
                viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True
            )
            page = context.new_page()
            for address in _addresses(named):
                page.goto(address)
                for fault in faults(page, axe, ("critical", "serious", "moderate", "minor")):
                    impact = fault.partition(":")[0]
                    counts[impact] = counts.get(impact, 0) + 1
                    print(f"{width} {scheme} {address}: {fault}")
        browser.close()
    print(", ".join(f"{count} {impact}" for impact, count in counts.items()) or "no faults")
    return int(bool({"critical", "serious"} & counts.keys()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
