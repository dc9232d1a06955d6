"""The Markdown of findings as HTML."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from labeltree.report.charts.grid_charts import _ink_on, _shade
from labeltree.report.pages.document import inline, prose

FINDINGS = sorted((Path(__file__).parents[2] / "studies").glob("*/FINDINGS.md"))


def test_lists_paragraphs_and_words() -> None:
    html = prose(
        "## What <we> found\n\nOne *very* **bold** line,\ngoing on with `a*b*c`.\n\n"
        "1. **First** item\n   goes on\n2. second\n   - inner\n   - other\n\nEnd, 2 * 3 * 4.\n"
    )
    assert " ".join(html.split()).replace("> <", "><") == (
        "<h2>What &lt;we&gt; found</h2>"
        "<p>One <em>very</em><strong>bold</strong> line, going on with <code>a*b*c</code>.</p>"
        "<ol><li><strong>First</strong> item goes on</li>"
        "<li>second <ul><li>inner</li><li>other</li></ul></li></ol>"
        "<p>End, 2 * 3 * 4.</p>"
    )


def test_a_list_may_begin_anywhere_and_tables_are_tables() -> None:
    assert '<ol start="3">' in prose("3. three\n4. four")
    html = prose("| a | b |\n|---|--:|\n| 1 | **2** |")
    assert '<div class="scroll" tabindex="0"><table class="words">' in html
    assert html.count("</table></div>") == 1
    assert '<th scope="col">a</th>' in html
    assert "<td>1</td>" in html
    assert "<td><strong>2</strong></td>" in html
    assert "---" not in html
    assert prose("```\na < b\n```") == "<pre><code>a &lt; b\n</code></pre>\n"


@pytest.mark.parametrize("show", [inline, prose])
@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "a <b onclick='x'>c</b>",
        "`<i>`",
        "**<u>**",
        "# <style>*{}</style>",
        "[<svg onload=x>](a)",
        '[x](a"onclick="b)',
        '[x](a "t\\" onclick=\\"b")',
        "![x](https://example.org/a.png)",
        "![x](a.png)",
        "| <i> |\n|---|\n| <script> |",
        "```<i>\n<b>\n```",
    ],
)
def test_no_markup_but_its_own(show: Callable[[str], str], text: str) -> None:
    tags = re.findall(r"<[^>]*>", show(text))
    own = (
        r"</?(p|h1|strong|code|pre|table|thead|tbody|tr|td|div)>|"
        r"<(div|table|code) class=\"[^\"]*\"( tabindex=\"0\")?>|"
        r'<th scope="col">|</th>|<a href="[^" ]*"( title="[^"]*")?>|</a>'
    )
    assert [tag for tag in tags if not re.fullmatch(own, tag)] == []


def test_a_page_links_to_nothing_elsewhere() -> None:
    assert inline("[other](../emoji/README.md)") == '<a href="../emoji/README.md">other</a>'
    assert inline("[x](https://example.org) and `y`") == "x and <code>y</code>"
    assert inline("[x](//example.org)") == "x"
    assert inline("[x](mailto:a@b.org)") == "x"
    assert inline("<https://example.org>") == "https://example.org"
    assert prose("[x][1]\n\n[1]: https://example.org\n") == "<p>x</p>\n"
    for link in ("[x](javascript:alert(1))", "[x](data:text/html,x)", "[x](JaVaScript&#58;alert(1))"):
        assert "<a" not in inline(link)


@pytest.mark.parametrize("path", FINDINGS, ids=lambda path: path.parent.name)
def test_findings_keep_all_their_words(path: Path) -> None:
    text = path.read_text("utf-8")
    html = str(prose(text))
    shown = re.sub(r"<[^>]+>", " ", html)
    for left in ("**", "##", "]("):
        assert left not in shown
    words = set(re.findall(r"[A-Za-z]{4,}", re.sub(r"\]\([^)]*\)", " ", text)))
    assert words <= set(re.findall(r"[A-Za-z]{4,}", shown))


def test_text_on_a_map_is_readable() -> None:
    def luminance(rgb: list[int]) -> float:
        parts = [v / 255 for v in rgb]
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for i in range(101):
        ink = 1.0 if _ink_on(i / 100) == "#fff" else 0.0
        paper = luminance(_shade(i / 100))
        assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) >= 4.5
