"""Files of a room do not import in circles: whoever reads one can read on without coming back to it.

Every import counts, also those within functions and for type checkers only. Importing from the room's own
package (`from labeltree.data import ...` within data) is an import of its `__init__`.
"""

import ast
from collections import defaultdict
from pathlib import Path

import labeltree

PACKAGE = Path(labeltree.__file__).parent

FILES_IN_CIRCLES = {"evaluation": 16, "training": 2}
"""How many files of a room import in circles. A number may shrink, and no room may be added."""


def module_name(file: Path) -> str:
    parts = ("labeltree", *file.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(file: Path, modules: set[str]) -> set[str]:
    """The modules of labeltree that a file imports from anywhere within it."""
    found = set()
    for statement in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(statement, ast.Import):
            found |= {alias.name for alias in statement.names}
        elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            for alias in statement.names:
                inner = f"{statement.module}.{alias.name}"
                found.add(inner if inner in modules else statement.module)
    return found & modules


def circles(imports: dict[str, set[str]]) -> list[set[str]]:
    """The sets of modules of which each leads to each other one (Tarjan's algorithm)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        stack.append(module)
        for other in sorted(imports[module]):
            if other not in number:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in stack:
                lowest[module] = min(lowest[module], number[other])
        if lowest[module] == number[module]:
            at = stack.index(module)
            if len(stack) - at > 1:
                found.append(set(stack[at:]))
            del stack[at:]

    for module in sorted(imports):
        if module not in number:
            visit(module)
    return found


def circles_by_room() -> dict[str, list[set[str]]]:
    files = {module_name(file): file for file in sorted(PACKAGE.rglob("*.py"))}
    rooms: dict[str, set[str]] = defaultdict(set)
    for module in files:
        if module.count("."):
            rooms[module.split(".")[1]].add(module)
    found = {}
    for room, modules in rooms.items():
        imports = {module: imports_of(files[module], set(files)) & modules - {module} for module in modules}
        if room_circles := circles(imports):
            found[room] = room_circles
    return found


def test_files_of_a_room_do_not_import_in_circles() -> None:
    for room, found in circles_by_room().items():
        shown = "; ".join(", ".join(sorted(circle)) for circle in found)
        assert sum(map(len, found)) <= FILES_IN_CIRCLES.get(room, 0), f"circles in {room}: {shown}"


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [{"a", "b", "c"}]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
