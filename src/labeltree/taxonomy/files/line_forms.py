"""Lines that are no `a/b/c`: ids before paths, tree numbers, edges, arrows, codes, numbers with names."""

import itertools
import re
from collections import Counter
from collections.abc import Hashable, Sequence

from labeltree.taxonomy.files.breadcrumbs import Breadcrumbs, are_nested, breadcrumbs_of, dotted_paths
from labeltree.taxonomy.files.codes_of_classes import (
    are_described_codes,
    are_numbers,
    entries_of_described_codes,
)
from labeltree.taxonomy.files.entries import (
    ROOT,
    Entries,
    Where,
    below_one_root,
    entries_from_edges,
    entries_from_paths,
    entries_of_tree,
)
from labeltree.taxonomy.files.json_objects import entries_of_numbered
from labeltree.taxonomy.files.json_records import is_one_tree
from labeltree.taxonomy.files.level_columns import is_header
from labeltree.taxonomy.files.opened_file import OpenedFile

__all__ = [
    "end_in_numbers",
    "entries_from_described_codes",
    "entries_from_ids_and_paths",
    "entries_from_is_a",
    "entries_from_numbered_names",
    "entries_from_pairs",
    "entries_from_parent_numbers",
    "entries_from_tight_paths",
    "entries_from_tree_numbers",
    "has_numbered_names",
    "is_numbered_list",
    "numbers_after",
]

_ID_BEFORE = re.compile(r"(\S+)(?:\s+[-:|=]\s+|\s*\t\s*|\s*[;,]\s*)(.+)")
_TREE_NUMBER = re.compile(r"(.+?)\s*[;\t|]\s*([A-Z]?\d+(?:\.\d+)*)")
_NUMBER_TIGHT = re.compile(r"(\d+):(\D.*)")
_CODE_BEFORE = re.compile(r"(\S+?)(?:\s*[:;|=]\s+|\s+[-\u2013:|=]\s+|\s+|[;|,])(.+)")
_PATENT_BEFORE = re.compile(r"([A-HY](?:\d\d(?:[A-Z](?:\s*\d{1,4}(/)\d{2,6})?)?)?)[\s:;,|=-]+(.+)")
_ORDER_FILE = re.compile(r"\d{5} ([A-Z]\w{2,6}) +[01] (.{60}) (.+)")  # ICD-10-CM's order file
_NUMBER_BEFORE = re.compile(r"(\d+)\s+(.+)")
_NUMBER_AFTER = re.compile(r"(.*\D)[\s,;]+(\d+)")
_PARENT_NUMBER = re.compile(r"(.*\S)\s+(-1|\d{1,9})")
_WORDNET_ID = re.compile(r"[nvars]\d{8}")
_WORDNET_BEFORE = re.compile(r"([nvars]\d{8})\s+(.+)")
_MARKS = ("\u2192", "->", "=>", ">", "|", ";", "\t", "::", "\\", "~")
_ARROWS = ("\u2192", "->", "=>")
_FEWEST = 3  # lines by which a form can be told


# 3237 - Animals > Live Animals


def entries_from_ids_and_paths(file: OpenedFile) -> Entries | None:
    """Read lines that are each an id and a path with `>`; ids are aliases. None if one is something else."""
    lines = file.lines_below_comments
    matches = [_ID_BEFORE.fullmatch(line) for _, line in lines]
    if len(matches) < 2 or not any(match and ">" in match[2] for match in matches):
        return None
    pairs = [(match[1], match[2]) for match in matches if match is not None]
    ids = [id for id, _ in pairs]
    if len(pairs) < len(matches) or len(set(ids)) < len(ids) or any(">" in id for id in ids):
        return None
    breadcrumbs = breadcrumbs_of([path for _, path in pairs], certain=True)
    if breadcrumbs is None:
        return None
    file.note(f"each line is an id, which is a further name, and a path with {breadcrumbs.separator!r}")
    return entries_from_paths(
        breadcrumbs.paths, file.root_name, lambda row: f"line {lines[row][0]}", [[id] for id in ids]
    )


# Mammary Glands, Human;A01.236.249


def entries_from_tree_numbers(file: OpenedFile) -> Entries | None:
    """Read names with dotted numbers, as MeSH's: a number is below the longest one that it begins with.

    A name with several numbers is one node below several parents where these are allowed. None if a line is
    something else, or no number is below another one.
    """
    lines = file.lines_below_comments
    read = _tree_numbers(lines)
    if read is None:
        return None
    node_of: dict[str, str] = {number: number for _, number in read}
    names = {number: name for name, number in read}
    if file.several_parents:
        first: dict[str, str] = {}
        node_of = {number: first.setdefault(name, number) for name, number in read}
    edges: dict[tuple[Hashable, Hashable], None] = {}
    tops: dict[str, None] = {}
    for number in names:
        above = _number_above(number, names)
        if above is None:
            tops.setdefault(node_of[number], None)
        elif node_of[above] != node_of[number]:
            edges[node_of[number], node_of[above]] = None
    below = {child for child, _ in edges}
    root: Hashable = None if len(tops) == 1 or file.root_name is None else ROOT
    edges |= {(top, root): None for top in tops if top not in below}
    known: dict[Hashable, object] = {node: names[node] for node in node_of.values()}
    known |= {root: file.root_name} if root is not None else {}
    aliases: dict[Hashable, list[str]] = {}
    for number, node in node_of.items():
        aliases.setdefault(node, []).append(number)
    file.note("each line is a name and a dotted number, which is a further name; levels end at its dots")
    line_of = {number: line for (line, _), (_, number) in zip(lines, read, strict=True)}
    children = [str(child) for child, _ in edges]
    return entries_from_edges(
        list(edges),
        names=known,
        where=lambda row: f"line {line_of[children[row]]}",
        several_parents=file.several_parents,
        aliases=aliases,
    )


def _tree_numbers(lines: Sequence[tuple[int, str]]) -> list[tuple[str, str]] | None:
    matches = [_TREE_NUMBER.fullmatch(line) for _, line in lines]
    read = [(match[1], match[2]) for match in matches if match is not None]
    numbers = {number for _, number in read}
    if len(read) < max(len(matches), _FEWEST) or len(numbers) < len(read):
        return None
    return read if any(_number_above(number, numbers) is not None for number in numbers) else None


def _number_above(number: str, known: set[str] | dict[str, str]) -> str | None:
    """The longest known number that a number begins with, at a dot."""
    while "." in number:
        number = number.rpartition(".")[0]
        if number in known:
            return number
    return None


# animal bird


def entries_from_is_a(file: OpenedFile) -> Entries | None:
    """Read lines of two words, parent and child in the order in which the edges are a tree.

    None if they are no edges of one tree or DAG, or of few.
    """
    lines = file.lines_below_comments
    texts = [line for _, line in lines]
    arrow = next((mark for mark in _ARROWS if all(mark in text for text in texts)), None)
    if arrow is not None:
        pairs = [[name.strip().strip('"') for name in text.split(arrow)] for text in texts]
    else:
        pairs = [text.split("\t") if "\t" in text else text.split() for text in texts]
    read = _is_a_edges(pairs)
    if read is None:
        return None
    otherwise = "for names with a blank" if arrow is None else "if it is a path"
    return _entries_of_pairs(
        file, read, lambda row: f"line {lines[row][0]}", f"{otherwise}, say --form paths"
    )


def _entries_of_pairs(
    file: OpenedFile, read: tuple[list[tuple[str, str]], str], where: Where, otherwise: str
) -> Entries:
    edges, order = read
    pairs = below_one_root(edges, file.root_name)
    names: dict[Hashable, object] = {end: end for pair in edges for end in pair}
    names[ROOT] = file.root_name
    file.note(f"each line is an edge, {order}; {otherwise}")
    return entries_from_edges(
        pairs,
        names=names,
        where=lambda row: where(row) if row < len(edges) else "a root",
        several_parents=file.several_parents,
    )


def entries_from_pairs(file: OpenedFile) -> Entries | None:
    """Read a table of two columns, parent and child in the order in which they are a tree.

    Line 1 is one of them unless it names the columns. None if they are no edges of one tree or DAG, or few.
    """
    table = file.table
    if len(table.header) != 2:
        return None
    lines = [table.lines[0] - 1, *table.lines]
    again = any(name in row for name in table.header for row in table.rows)
    first = 0 if again or not is_header(table.header, table.rows) else 1
    rows = [table.header, *table.rows][first:]
    read = _is_a_edges(rows)
    if read is None:
        return None
    whole = table._replace(lines=lines[first:])
    return _entries_of_pairs(file, read, whole.where, "if it is a path, say --form levels")


def _is_a_edges(pairs: Sequence[Sequence[str]]) -> tuple[list[tuple[str, str]], str] | None:
    """The edges `(child, parent)`, and in which order they stand; None if pairs are no edges."""
    if len(pairs) < _FEWEST or any(len(pair) != 2 or not all(pair) or pair[0] == pair[1] for pair in pairs):
        return None
    left, right = [a for a, _ in pairs], [b for _, b in pairs]
    down = [(b, a) for a, b in pairs]  # parent child
    up = [(a, b) for a, b in pairs]
    able = [
        (edges, order, len({child for child, _ in edges}))
        for edges, order in ((down, "parent before child"), (up, "child before parent"))
        if len(set(edges)) == len(edges) and is_one_tree(edges)
    ]
    if not able or not set(left) & set(right):
        return None
    edges, order, _ = max(able, key=lambda one: one[2])
    return edges, order


# animal -1; bird 0


def entries_from_parent_numbers(file: OpenedFile) -> Entries | None:
    """Read lines of a name and the number of its parent's line, from 0, as in Darknet's trees; -1 for none.

    None if a line is something else.
    """
    lines = file.lines_below_comments
    matches = [_PARENT_NUMBER.fullmatch(line.strip()) for _, line in lines]
    read = [(match[1], int(match[2])) for match in matches if match is not None]
    if len(read) < max(len(matches), _FEWEST) or not all(above < at for at, (_, above) in enumerate(read)):
        return None
    names, parents = [name for name, _ in read], [above for _, above in read]
    if parents.count(-1) > 0.5 * len(parents):
        return None
    if parents.count(-1) > 1 and file.root_name is not None:
        names, parents = [file.root_name, *names], [-1, *(above + 1 for above in parents)]
    file.note("each line is a name and the number of its parent's line, from 0 on")
    return entries_of_tree(names, parents)


# Pets>Birds>Cages


def entries_from_tight_paths(file: OpenedFile) -> Entries | None:
    """Read paths whose names a mark separates that is no `/`, also without blanks beside it: `Pets>Birds`.

    `/` within names is kept. None if no mark separates levels.
    """
    lines = file.lines_below_comments
    breadcrumbs = _tight_paths([line for _, line in lines])
    if breadcrumbs is None:
        return None
    otherwise = "; write /a.b for a name with '.'" if breadcrumbs.separator == "." else ""
    said = f"lines are paths whose names {breadcrumbs.separator!r} separates"
    file.note(f"{said}; '/' is part of a name{otherwise}")
    return entries_from_paths(breadcrumbs.paths, file.root_name, lambda row: f"line {lines[row][0]}")


def _tight_paths(lines: Sequence[str]) -> Breadcrumbs | None:
    """Paths where nearly all lines have a mark, first names repeat, and a name is always at one depth."""
    distinct = list(dict.fromkeys(lines))
    if len(distinct) < _FEWEST:
        return None
    if (dotted := dotted_paths(lines)) is not None:
        return dotted
    for mark in _MARKS:
        if sum(mark in line for line in distinct) < 0.5 * len(distinct):
            continue
        pattern = re.compile(rf"\s*{re.escape(mark)}\s*" if mark != "\t" else r"\t+")
        paths = [tuple(pattern.split(line.removesuffix(mark))) for line in lines]
        if all(all(path) for path in paths) and are_nested(paths):
            return Breadcrumbs(mark, paths)
    return None


# A000    Cholera


def entries_from_described_codes(file: OpenedFile) -> Entries | None:
    """Read lines of a code and what it means; see `entries_of_described_codes`.

    None if a line does not begin with a code in capitals and digits.
    """
    ordered = [_ORDER_FILE.fullmatch(line) for _, line in file.lines_below_comments]
    patents = [_PATENT_BEFORE.fullmatch(line) for _, line in file.lines_below_comments]
    if len(ordered) >= _FEWEST and all(ordered):
        pairs = [(match[1], match[3]) for match in ordered if match is not None]
    elif len(patents) >= _FEWEST and all(patents) and any(match[2] for match in patents if match):
        pairs = [(match[1], match[3]) for match in patents if match is not None]
    else:
        pairs = _id_and_text(file) or []
    if not are_described_codes(pairs):
        return None
    return entries_of_described_codes(pairs, file.root_name)


# n01440764 tench; 1 person


def has_numbered_names(file: OpenedFile) -> bool:
    """Whether each line is a number of a list, or an id of WordNet, and a name."""
    if numbers_after(file) is not None:
        return True
    pairs = _id_and_text(file)
    if pairs is None:
        return False
    ids = [id for id, _ in pairs]
    return len(set(ids)) == len(ids) and (are_numbers(ids) or all(map(_WORDNET_ID.fullmatch, ids)))


def entries_from_numbered_names(file: OpenedFile) -> Entries | None:
    """Read lines of a number or id and a name; the former are aliases. None if a line is one word."""
    if (after := numbers_after(file)) is not None:
        file.note("the number behind each name is a further name; '/' separates levels")
        lines = file.lines_below_comments
        known = [_WORDNET_BEFORE.fullmatch(name) for name, _ in after]
        ids = [
            [match[1], number] if match else [number] for match, (_, number) in zip(known, after, strict=True)
        ]
        count = Counter(match[2] for match in known if match)
        paths: list[str | tuple[str]] = [
            ((match[2] if count[match[2]] == 1 else f"{match[2]} ({match[1]})"),) if match else name
            for match, (name, _) in zip(known, after, strict=True)
        ]
        return entries_from_paths(paths, file.root_name, lambda row: f"line {lines[row][0]}", ids)
    pairs = _id_and_text(file)
    if pairs is None:
        return None
    matches = [_NUMBER_BEFORE.fullmatch(text) for _, text in pairs]
    numbers = [match[1] for match in matches if match is not None]
    if len(numbers) == len(pairs) and are_numbers(numbers):  # n02119789 1 kit_fox
        classes = [(match[2], [id, match[1]]) for (id, _), match in zip(pairs, matches, strict=True) if match]
    else:
        classes = [(text, [id]) for id, text in pairs]
    return entries_of_numbered(classes, file)


def numbers_after(file: OpenedFile) -> list[tuple[str, str]] | None:
    """Lines `airfield 0`: a name and the number of a list behind it."""
    matches = [_NUMBER_AFTER.fullmatch(line) for _, line in file.lines_below_comments]
    pairs = [(match[1], match[2]) for match in matches if match is not None]
    names = {name for name, _ in pairs}
    if len(pairs) < max(len(matches), _FEWEST) or len(names) < len(pairs):
        return None
    numbers = [int(number[:18]) for _, number in pairs]
    ascend = numbers[0] < 2 and all(before < after for before, after in itertools.pairwise(numbers))
    return pairs if ascend or are_numbers([number for _, number in pairs]) else None


def end_in_numbers(file: OpenedFile) -> bool:
    """Whether a number stands behind each line, whatever it is: `airfield 2`."""
    lines = file.lines_below_comments
    return len(lines) >= _FEWEST and all(_NUMBER_AFTER.fullmatch(line) for _, line in lines)


def is_numbered_list(file: OpenedFile) -> bool:
    """Whether lines are paths with the numbers of all lines behind them, from 0 or 1 on: `/a/abbey 0`."""
    numbers = [number for _, number in numbers_after(file) or []]
    return any(numbers == [str(at) for at in range(first, first + len(numbers))] for first in (0, 1)) and any(
        "/" in line.strip("/") for _, line in file.lines_below_comments
    )


def _id_and_text(file: OpenedFile) -> list[tuple[str, str]] | None:
    lines = [line for _, line in file.lines_below_comments]
    matches = [_NUMBER_TIGHT.fullmatch(line) or _CODE_BEFORE.fullmatch(line) for line in lines]
    if len(matches) < _FEWEST or not all(matches):
        return None
    return [(match[1].rstrip(".):"), match[2].strip()) for match in matches if match is not None]
