"""The rooms stay small: files a level, lines of a class, names of files."""

import ast
from collections import Counter
from pathlib import Path

import labeltree

ROOT = Path(labeltree.__file__).parent
FILES = [path for path in sorted(ROOT.rglob("*.py")) if not path.name.startswith("__")]


def test_a_level_has_at_most_25_files() -> None:
    levels = Counter(str(path.parent.relative_to(ROOT)) for path in FILES)
    assert {level: count for level, count in levels.items() if count > 25} == {}


def test_no_two_files_have_one_name() -> None:
    names = Counter(path.name for path in FILES)
    assert [name for name, count in names.items() if count > 1] == []


def test_no_class_is_longer_than_400_lines() -> None:
    longest = {}
    for path in FILES:
        text = path.read_text("utf-8")
        if text.count("\n") < 400:  # its classes are shorter
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and (node.end_lineno or 0) - node.lineno >= 400:
                longest[node.name] = (node.end_lineno or 0) - node.lineno + 1
    assert longest == {}
