"""Text with a path a line: `a/b/c`, or `a > b > c`."""

from collections.abc import Sequence

from labeltree.taxonomy.files.breadcrumbs import BETWEEN_SPACES, Breadcrumbs, breadcrumbs_of, google_taxonomy
from labeltree.taxonomy.files.entries import Entries, entries_from_paths
from labeltree.taxonomy.files.opened_file import OpenedFile
from labeltree.taxonomy.naming import join_path, split_path
from labeltree.taxonomy.numbering import depth_of

__all__ = ["entries_from_google", "entries_from_lines", "has_only_rooted_paths", "lines_from_tree"]


def has_only_rooted_paths(file: OpenedFile) -> bool:
    """Whether every line begins with `/`, so that it is a path whatever marks its names have."""
    return file.start.startswith("/") and all(line.startswith("/") for _, line in file.lines)


def entries_from_lines(file: OpenedFile) -> Entries:
    """Read lines of paths `a/b/c` or of `a > b`."""
    breadcrumbs = _crumbs([line for _, line in file.lines])
    paths = (line for _, line in file.lines) if breadcrumbs is None else breadcrumbs.paths
    return entries_from_paths(paths, file.root_name, lambda row: f"line {file.lines[row][0]}")


def entries_from_google(file: OpenedFile) -> Entries:
    """Read Google's product taxonomy; its version becomes the release."""
    google = google_taxonomy(file.text, certain=True)
    assert google is not None
    entries = entries_from_paths(google.paths, file.root_name, lambda row: f"line {google.lines[row]}")
    return entries._replace(release=google.version)


def _crumbs(lines: Sequence[str]) -> Breadcrumbs | None:
    """Lines `a > b` as breadcrumbs; None if they are paths, as all are if one has only `/`."""
    if any(
        line.startswith("/") or ("/" in line and " > " not in line and len(split_path(line)) > 1)
        for line in lines
    ):
        return None
    return breadcrumbs_of(lines, marks={">": BETWEEN_SPACES[">"]})


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
