"""What the tests of readers share: lists in official formats, and what 'labeltree data check' should find."""

from pathlib import Path

from labeltree.data import check_layout, get_dataset


def write_list(path: Path, *lines: str, end: str = "\n", encoding: str = "utf-8") -> Path:
    """A text file with one record a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(line + end for line in lines).encode(encoding))
    return path


def edit_line(path: Path, number: int, line: str) -> None:
    """Replace a line of a text file, counted from 1."""
    lines = path.read_text("utf-8").splitlines()
    lines[number - 1] = line
    write_list(path, *lines)


def check(name: str, path: Path) -> tuple[dict[str, int], tuple[int, ...], list[str]]:
    """Samples and classes that are found, and problems other than that a miniature is smaller."""
    found = check_layout(get_dataset(name), path)
    return found.samples, found.labels, [p for p in found.problems if " are published (" not in p]


def check_refuses_what_is_missing(name: str, path: Path, *needed: str) -> None:
    """Without any of the needed files or folders, their absence is the one problem, and it is named."""
    for file in needed:
        aside = path / f"{Path(file).name}.aside"
        (path / file).rename(aside)
        _, _, problems = check(name, path)
        assert any(str(path / file) in problem for problem in problems), (file, problems)
        assert not check_layout(get_dataset(name), path).samples
        aside.rename(path / file)
    assert check(name, path)[2] == []
