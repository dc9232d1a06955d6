"""Text with a path a line: `a/b/c`, or `a > b > c`."""

from collections import Counter
from collections.abc import Sequence

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.files.breadcrumbs import BETWEEN_SPACES, Breadcrumbs, breadcrumbs_of, google_taxonomy
from labeltree.taxonomy.files.entries import Entries, entries_from_paths
from labeltree.taxonomy.files.json_records import is_list, is_scalar, text_of
from labeltree.taxonomy.files.line_forms import end_in_numbers, is_numbered_list, numbers_after
from labeltree.taxonomy.files.opened_file import OpenedFile
from labeltree.taxonomy.naming import join_path, some, split_path
from labeltree.taxonomy.numbering import depth_of

__all__ = ["entries_from_google", "entries_from_lines", "has_only_rooted_paths", "lines_from_tree"]

_FEW_SLASHES = 0.25  # of the lines have one in a list of names, or fewer


def has_only_rooted_paths(file: OpenedFile) -> bool:
    """Whether every line begins with `/`, so that it is a path whatever marks its names have.

    Not if the numbers of all lines stand behind them, as in Places365's list of classes.
    """
    rooted = file.start.startswith("/") and all(line.startswith("/") for _, line in file.lines)
    return rooted and not is_numbered_list(file)


def entries_from_lines(file: OpenedFile) -> Entries:
    """Read lines of paths `a/b/c` or of `a > b`; `/` in the first one is the root."""
    lines = file.lines_below_comments
    lines = lines[1:] if lines[0][1] == "/" and len(lines) > 1 else lines
    if numbers_after(file) is not None:
        file.note(
            "the number at the end of each line is part of its name; --form class-index makes it another name"
        )
    elif end_in_numbers(file):
        file.note(
            "each line ends in a number, which is part of its name; leave it out if it is something else"
        )
    texts = [line for _, line in lines]
    if tabs := [number for number, line in lines if "\t" in line]:
        raise TaxonomyError(
            f"line {tabs[0]} has a tab, and names have none: if lines are rows of a table, name the file .tsv"
        )
    paths: Sequence[str | tuple[str, ...]]
    if (breadcrumbs := _crumbs(texts)) is not None:
        paths = breadcrumbs.paths
    elif kept := _names_with_slash(texts):
        file.note(f"'/' is part of {some(kept, 3)}, since hardly any line has one; write /a/b for a below it")
        paths = [(line,) for line in texts]
    else:
        paths = texts
    return entries_from_paths(paths, file.root_name, lambda row: f"line {lines[row][0]}")


def entries_from_path_lists(file: OpenedFile) -> Entries | None:
    """Read a list of lists of names, or of texts `a > b` or `a/b` of which some begin alike.

    None if the data are something else.
    """
    data = file.data
    if not is_list(data) or len(data) < 2:
        return None
    paths: list[tuple[str, ...]]
    if all(is_list(path) and path and all(map(is_scalar, path)) for path in data):
        paths, said = [tuple(map(text_of, path)) for path in data], "each list is a path, coarse to fine"
    elif all(isinstance(text, str) and text.strip() for text in data):
        crumbs = breadcrumbs_of(data, marks=BETWEEN_SPACES)
        split = [tuple(split_path(text)) for text in data] if crumbs is None else crumbs.paths
        first = Counter(path[0] for path in split)
        if not any(len(path) > 1 and first[path[0]] > 1 for path in split):
            return None
        paths = list(split)
        said = f"each text is a path with {'/' if crumbs is None else crumbs.separator!r}"
    else:
        return None
    file.note(f"{said}; --form nested reads names as they stand")
    return entries_from_paths(paths, file.root_name, lambda row: f"entry {row + 1}")


def _names_with_slash(lines: Sequence[str]) -> list[str]:
    """The lines with `/` where these are too few to be paths, and begin with no name of another line."""
    slashed = [line for line in lines if "/" in line]
    if not slashed or len(slashed) > _FEW_SLASHES * len(lines) or any(line.startswith("/") for line in lines):
        return []
    first = Counter(split_path(line)[0] for line in lines)
    return slashed if all(first[split_path(line)[0]] == 1 for line in slashed) else []


def entries_from_google(file: OpenedFile) -> Entries | None:
    """Read Google's product taxonomy; its version becomes the release, and its ids are aliases.

    None if there is neither its first line nor a path.
    """
    google = google_taxonomy(file.text)
    if google.version is None and all(len(path) == 1 for path in google.paths):
        return None
    if google.ids:
        file.note("the number before each path is its id, which is a further name")
    aliases = [[id] for id in google.ids] or None
    entries = entries_from_paths(
        google.paths, file.root_name, lambda row: f"line {google.lines[row]}", aliases
    )
    return entries._replace(release=google.version)


def _crumbs(lines: Sequence[str]) -> Breadcrumbs | None:
    """Lines `a > b` as breadcrumbs; None if they are paths, as all are if one has only `/`."""
    if any(
        line.startswith("/") or ("/" in line and " > " not in line and len(split_path(line)) > 1)
        for line in lines
    ):
        return None
    return breadcrumbs_of(lines, marks=BETWEEN_SPACES)


def lines_from_tree(names: Sequence[str], parents: Sequence[int]) -> list[str]:
    """The paths of the leaves of a tree, given in preorder."""
    inner, depth = set(parents), depth_of(parents)
    lines = []
    path: list[str] = []
    for node in range(1, len(names)):
        path[depth[node] - 1 :] = [names[node]]
        if node not in inner:
            lines.append(join_path(path))
    return lines
