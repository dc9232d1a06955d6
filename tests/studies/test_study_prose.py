"""The Markdown of findings as HTML."""

import re
from pathlib import Path

import pytest

from labeltree.studies.figures import _mixed, _on
from labeltree.studies.prose import inline, prose

FINDINGS = sorted((Path(__file__).parents[2] / "studies").glob("*/FINDINGS.md"))


def test_lists_paragraphs_and_words() -> None:
    html = prose(
        "## What <we> found\n\nOne *very* **bold** line,\ngoing on with `a*b*c`.\n\n"
        "1. **First** item\n   goes on\n\n2. second\n   - inner\n   - other\n\nEnd, 2 * 3 * 4.\n"
    )
    assert html == (
        "<h2>What &lt;we&gt; found</h2>\n"
        "<p>One <em>very</em> <strong>bold</strong> line, going on with <code>a*b*c</code>.</p>\n"
        "<ol><li><strong>First</strong> item goes on</li>"
        "<li>second<ul><li>inner</li><li>other</li></ul></li></ol>\n"
        "<p>End, 2 * 3 * 4.</p>"
    )


def test_a_list_may_begin_anywhere_and_tables_are_tables() -> None:
    assert prose("3. three\n4. four") == '<ol start="3"><li>three</li><li>four</li></ol>'
    html = prose("| a | b |\n|---|--:|\n| 1 | **2** |")
    assert '<th scope="col">a</th>' in html
    assert "<td>1</td><td><strong>2</strong></td>" in html
    assert "---" not in html
    assert prose("```\na < b\n```") == "<pre><code>a &lt; b</code></pre>"


def test_a_page_links_to_nothing_elsewhere() -> None:
    assert inline("[other](../emoji/README.md)") == '<a href="../emoji/README.md">other</a>'
    assert inline("[x](javascript:alert(1))") == "x)"
    assert inline("[x](https://example.org)") == "x"
    assert inline("[x](//example.org)") == "x"
    assert "onclick" not in re.findall(r"<[^>]*>", inline('[x](a"onclick="b)'))[0].replace("&#34;onclick", "")


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
        ink = 1.0 if _on(i / 100) == "#fff" else 0.0
        paper = luminance(_mixed(i / 100))
        assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) >= 4.5
