"""The tutorials run from beginning to end and print what they show; their notebooks hold the same code."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "tutorials").glob("[0-9]*.md"))


def _module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tutorials", ROOT / "docs" / "build_site" / "tutorials.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["tutorials"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tutorials = _module()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all pages: the birds of two of them are drawn and trained on once."""
    return tmp_path_factory.mktemp("tutorials")


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tutorial(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    differing, done = [], 0

    def seen(block: object, printed: str, shown: str) -> None:
        nonlocal done
        done += 1
        if shown and not tutorials.agrees(shown, printed):
            differing.append(f"{block}\nshown:\n{shown}\nprinted:\n{printed}")

    tutorials.run(page.read_text("utf-8"), seen)
    assert done > 1
    assert not differing, "\n".join(differing)


def test_every_tutorial_is_listed() -> None:
    index = (ROOT / "docs" / "tutorials" / "index.md").read_text("utf-8")
    assert re.findall(r"\]\((\d\d-[\w-]+\.md)\)", index) == [page.name for page in PAGES]


def test_notebooks(tmp_path: Path) -> None:
    """Each is what the format asks for, with the code, files, commands and outputs of its page in order."""
    files = tutorials.write_notebooks(tmp_path)
    assert [file.stem for file in files] == [page.stem for page in PAGES]
    for page, file in zip(PAGES, files, strict=True):
        content = json.loads(file.read_text("utf-8"))
        assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
        cells = content["cells"]
        for cell in cells:
            assert {"cell_type", "id", "metadata", "source"} <= set(cell)
            assert (cell["cell_type"] == "code") == ("outputs" in cell) == ("execution_count" in cell)
            assert all(isinstance(line, str) for line in cell["source"])
        assert len({cell["id"] for cell in cells}) == len(cells)
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        text = page.read_text("utf-8")
        assert [cell.rstrip("\n") for cell in re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)] == [
            cell for cell in code if cell[0] not in "!%"
        ]
        assert re.findall(r"^\$ (.*)$", text, re.M) == [
            cell[1:].split("\n")[0] for cell in code if cell[0] == "!"
        ]
        printed = ["".join(out["text"]) for cell in cells for out in cell.get("outputs", [])]
        shown = [block.text.rstrip("\n") for block in tutorials.blocks(text) if block.kind == "output"]
        assert printed == shown
        assert printed
        assert not any("](../" in "".join(cell["source"]) for cell in cells)


def test_what_agrees() -> None:
    assert tutorials.agrees("top1  0.91 [0.8, 1.0]\nfile: …/a", "top1 0.87 [0.81, 0.95]\nfile:  /tmp/x/a\n")
    assert not tutorials.agrees("top1  0.91\n", "top2 of 1  0.91\n")
    assert not tutorials.agrees("a\n", "a\nb\n")
    assert tutorials.agrees("x.png  tits/…  0.99  tits/blue 0.9", "x.png  tits/?   –     tits/blue 0.8")
    assert not tutorials.agrees("x.png  tits/…  0.99", "x.png  tits/?")
    assert tutorials.agrees("x.png  no answer  –", "x.png  tits/…  0.99")
    chosen = "Answers come from the nearest class mean of the embeddings now; before, from a linear probe.\n"
    assert tutorials.agrees("3 right\n", f"3 right\n{chosen}")
    assert tutorials.agrees(f"3 right\n{chosen}", "4 right\n")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_sentence_above_a_table_says_what_is_in_it(page: Path) -> None:
    """What is shown may differ a little from what a machine prints, but not from itself."""
    for said in re.split(r"(?=^Of [\d,]+ test )", page.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        shares = [float(share) for share in re.findall(r"([\d.]+)\s?%", said.splitlines()[0])[:4]]
        row = re.search(r"^top-1 accuracy +([\d.]+) \[([\d.]+), ([\d.]+)\]", said, re.MULTILINE)
        if row is None or len(shares) < 4:
            continue
        right, _, low, high = shares
        assert right == pytest.approx(100 * float(row[1]), abs=0.06), said.splitlines()[0]
        assert (low, high) == pytest.approx([100 * float(end) for end in row.groups()[1:]], abs=0.06)
