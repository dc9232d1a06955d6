"""How large a version of labeltree is, what it repeats, and how it speaks: one column for each version.

    python benchmarks/house.py [SOURCE ...]

SOURCE is the folder of a package, ``src/labeltree`` by default, or that of another checkout. Files are
read as text; nothing is run but ruff. What a datum passes is counted by ``benchmarks/passage.py``.
"""

from __future__ import annotations

import argparse
import ast
import re
import statistics
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

RUN = 6  # lines that two places must share to be a pair
COMMON = 8  # places; a run in more of them is too common to count
MOST_FILES = 25  # of a level
MOST_LINES = 400  # of a class

BANNED_NAMES = {
    "variables named found": re.compile(r"^found$"),
    "functions _of_x, _on_x": re.compile(r"^_(of|on|in|at|by|with)_\w+$|^_?(of|on)_\w+$"),
}
BANNED_WORDS = {
    "'is none', 'has not', 'are none'": re.compile(r"\b(is|are) none\b|\bhas not\b(?! been)"),
    "'promise', 'raw words', 'by the means'": re.compile(
        r"\bpromis(e|es|ed)\b|\braw words\b|\bby the means\b|\bits top1\b"
    ),
    "'as finely as', 'it is sure'": re.compile(r"\bas finely as\b|\bit is sure\b|\bfinest that\b"),
}


@dataclass(frozen=True)
class Source:
    """A file of the package: its path in it, its text and its syntax tree."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def room(self) -> str:
        """The room of the package that the file lies in."""
        return self.path.parts[0] if len(self.path.parts) > 1 else "(top)"


def read_package(root: Path) -> list[Source]:
    """Every module of a package."""
    paths = sorted(path for path in root.rglob("*.py"))
    texts = [(path, path.read_text("utf-8")) for path in paths]
    return [Source(path.relative_to(root), text, ast.parse(text)) for path, text in texts]


def code_lines(source: Source) -> int:
    """Lines that are neither docstring, comment, import nor blank."""
    skipped: set[int] = set()
    for node in ast.walk(source.tree):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if documented and ast.get_docstring(node, clean=False) is not None:
            skipped.update(lines_of(node.body[0]))
        if isinstance(node, ast.Import | ast.ImportFrom):
            skipped.update(lines_of(node))
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            skipped.update(lines_of(node))
    numbered = enumerate(map(str.strip, source.text.splitlines()), 1)
    return sum(1 for number, line in numbered if line and line[0] != "#" and number not in skipped)


def lines_of(node: ast.stmt) -> range:
    """Numbers of the lines of a statement."""
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def docstrings(tree: ast.Module) -> Iterator[str]:
    """All docstrings of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield text


def args_lines(text: str) -> int:
    """Lines of the sections Args and Attributes of a docstring."""
    sections = re.findall(r"^(?:Args|Attributes):\n((?:[ \t]+.*\n?|\n)+)", text, re.MULTILINE)
    return sum(sum(bool(line.strip()) for line in section.splitlines()) for section in sections)


def names_given(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """Names that a module gives: (name, whether it is a function's)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, True
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, False


def strings(tree: ast.Module) -> Iterator[str]:
    """All texts of a module, docstrings included; parts of formatted ones one by one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def alike_pairs(sources: list[Source]) -> int:
    """Pairs of files (also a file and itself) alike in a run of lines but for names and values."""
    word = re.compile(r"\"[^\"]*\"|'[^']*'|[A-Za-z_]\w*|\d+(?:\.\d+)?")
    keywords = {
        "if",
        "else",
        "for",
        "in",
        "return",
        "raise",
        "not",
        "and",
        "or",
        "with",
        "def",
        "class",
        "is",
    }
    places: dict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    for number, source in enumerate(sources):
        shapes = [
            word.sub(lambda m: m[0] if m[0] in keywords else "x", line.strip())
            for line in source.text.splitlines()
            if line.strip() and not line.strip().startswith(("#", "import ", "from "))
        ]
        for start in range(len(shapes) - RUN + 1):
            run = tuple(shapes[start : start + RUN])
            if sum(len(line) > 3 for line in run) >= RUN - 1:
                places[run].append((number, start))
    pairs = {
        (one[0], other[0])
        for run in places.values()
        if len(run) <= COMMON
        for index, one in enumerate(run)
        for other in run[index + 1 :]
        if one[0] != other[0] or abs(one[1] - other[1]) >= RUN
    }
    return len(pairs)


def ruff_count(root: Path, rule: str) -> int:
    """How often a rule of ruff is broken."""
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--select",
        rule,
        "--output-format",
        "concise",
    ]
    done = subprocess.run([*command, str(root)], capture_output=True, text=True, check=False)
    return done.stdout.count(f" {rule} ")


def count_all(root: Path) -> dict[str, int]:
    """All figures of a version."""
    sources = read_package(root)
    rooms: dict[str, list[int]] = defaultdict(list)
    for source in sources:
        rooms[source.room].append(code_lines(source))
    figures: dict[str, int] = {}
    for room, lines in sorted(rooms.items(), key=lambda item: -sum(item[1])):
        figures[f"{room}: files"] = len(lines)
        figures[f"{room}: lines"] = sum(lines)
    everything = [lines for room in rooms.values() for lines in room]
    figures["all: files"] = len(everything)
    figures["all: lines"] = sum(everything)
    figures["all: median lines of a file"] = int(statistics.median(everything))
    levels = Counter(source.path.parent for source in sources if source.path.name != "__init__.py")
    basenames = Counter(source.path.name for source in sources if not source.path.name.startswith("__"))
    classes = [node for one in sources for node in ast.walk(one.tree) if isinstance(node, ast.ClassDef)]
    calls = [node for one in sources for node in ast.walk(one.tree) if isinstance(node, ast.Call)]
    figures["files of the fullest level"] = max(levels.values())
    figures[f"levels of more than {MOST_FILES} files"] = sum(n > MOST_FILES for n in levels.values())
    figures["files that share their name"] = sum(n for n in basenames.values() if n > 1)
    figures["lines of the longest class"] = max(len(lines_of(node)) for node in classes)
    figures[f"classes of more than {MOST_LINES} lines"] = sum(
        len(lines_of(node)) > MOST_LINES for node in classes
    )
    figures["calls of add_argument"] = sum(getattr(node.func, "attr", "") == "add_argument" for node in calls)
    figures["keyword arguments that only forward (x=x)"] = sum(
        keyword.arg is not None and isinstance(keyword.value, ast.Name) and keyword.value.id == keyword.arg
        for node in calls
        for keyword in node.keywords
    )
    figures["lines of Args and Attributes"] = sum(
        args_lines(t) for one in sources for t in docstrings(one.tree)
    )
    figures[f"pairs of files alike in {RUN} lines"] = alike_pairs(sources)
    figures["PLR0913, too many arguments"] = ruff_count(root, "PLR0913")
    figures["C901, too complex"] = ruff_count(root, "C901")
    names = [given for one in sources for given in names_given(one.tree)]
    for title, pattern in BANNED_NAMES.items():
        functions = title.startswith("functions")
        figures[title] = sum(bool(pattern.match(name)) for name, is_one in names if is_one == functions)
    texts = [text for one in sources for text in strings(one.tree)]
    for title, pattern in BANNED_WORDS.items():
        figures[title] = sum(len(pattern.findall(text)) for text in texts)
    return figures


def main() -> None:
    """Print one column for each version."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sources", nargs="*", type=Path, default=[Path("src/labeltree")])
    measured = {str(root): count_all(root) for root in parser.parse_args().sources}
    for root in measured:
        print(f"# {root}")
    for title in dict.fromkeys(title for figures in measured.values() for title in figures):
        print(f"{title:44}" + "".join(f"{figures.get(title, 0):>9,}" for figures in measured.values()))


if __name__ == "__main__":
    main()
