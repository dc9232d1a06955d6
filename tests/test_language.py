"""Names and sentences of the package: three habits that only become rarer, counted by room.

A room that is not listed has none left. Whoever removes some lowers the number; nobody raises one.
"""

import ast
import re
from collections import Counter
from pathlib import Path

import labeltree

ROOT = Path(labeltree.__file__).parent

# A variable or an argument called `found` says how it came about; its name shall say what it holds.
# Those of curation are public: `Suspects.found` and `TreeSuspects.found`.
FOUND = {"curation": 2, "evaluation": 1, "inference": 1, "metrics": 3, "serving": 1}

# Functions are verbs: `_of_x` and its like say what something belongs to; the name shall say what is done.
NAMED_BY_PREPOSITION: dict[str, int] = {}
PREPOSITIONS = re.compile(r"_(?:as|at|below|beside|by|from|in|of|on|over|with)_[a-z]")

# "'x' is none" leaves open what x is not. "None where there is none" is fine.
SAYS_NONE = {"cli": 2, "evaluation": 1, "index": 2, "inference": 2, "metrics": 2}
IS_NONE = re.compile(r"(?<!there )\b(?:is|are) none\b")

MAY_HAVE_SOME = re.compile(
    r"\bfound\b|\b(?:is|are)\s+none\b|def _(?:as|at|below|beside|by|from|in|of|on|over|with)_"
)  # others need no parsing


def test_names_and_sentences() -> None:
    found, prepositions, none = Counter[str](), Counter[str](), Counter[str]()
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text("utf-8")
        if MAY_HAVE_SOME.search(text) is None:
            continue
        room = path.relative_to(ROOT).parts[0]
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Name(id="found", ctx=ast.Store()) | ast.arg(arg="found"):
                    found[room] += 1
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    prepositions[room] += PREPOSITIONS.match(name) is not None
                case ast.Constant(value=str(words)):
                    none[room] += len(IS_NONE.findall(" ".join(words.split())))
    for habit, counts, limits in (
        ("variables called 'found'", found, FOUND),
        ("functions named by a preposition", prepositions, NAMED_BY_PREPOSITION),
        ("texts that say 'is none'", none, SAYS_NONE),
    ):
        more = {room: count for room, count in counts.items() if count > limits.get(room, 0)}
        assert not more, f"{habit}: {more}, where {limits} are the most"


# A section's entry: `name: Text.`, `name (type): Text.`, `SomeError: Text.`
ENTRY = re.compile(
    r"^        \*{0,2}[\w.]+(?:, \*{0,2}\w+)*(?: \([^)]*\))?: (?=[a-z]{2,}[ ,.;])", re.MULTILINE
)
SECTION = re.compile(r"^    (?:Args|Attributes|Raises):\n((?:        .*\n|\n)+)", re.MULTILINE)


def test_docstrings_have_one_dialect() -> None:
    """Code stands in single backticks; entries of sections of functions and classes begin with a capital."""
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text("utf-8")
        assert re.search(r"(?<!`)``(?!`)", text) is None, f"double backticks in {path}"
        for section in SECTION.finditer(text):
            small = ENTRY.search(section[1])
            assert small is None, f"{path}: '{small[0].strip()}' goes on with a small letter"
