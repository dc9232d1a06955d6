"""Lays the pages of the site out in a folder that Sphinx reads.

The pages of `docs/` stand at its top, the studies, recipes and measurements that they link to beside them.
Links between files of the repository become links between pages of the site; files that are no pages become
downloads. Only what changed is written, so that a second build is quick.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from pathlib import Path, PurePosixPath

from dark_pictures import dark_sibling
from navigation import NAVIGATION

__all__ = ["Stage", "title_of"]

_LINK = re.compile(r"(?<=\]\()(<?)([^()\s<>]+)(>?)(?=[)\s])")
_ON_SITE = "<!-- The site goes on here; what follows stands on the repository only. -->\n"
_RENAMED = {  # what would stand where the site has a page of its own
    "docs/search.md": "searching.md",
    "benchmarks/results/index.md": "benchmarks/search_index.md",
}
_FENCE = re.compile(r"^(`{3,}|~{3,}|:{3,})([^\n]*)\n.*?^\1`*[ ]*$", re.MULTILINE | re.DOTALL)


def title_of(text: str, *, whole: bool = False) -> str:
    """The title of a page without the marks of code: its first heading, up to the colon unless ``whole``."""
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    if found is None:
        raise ValueError(f"this page has no title: {text[:60]!r}")
    title = found[1].replace("`", "")
    return title if whole else title.partition(": ")[0]


class Stage:
    """The folder of pages that Sphinx reads.

    Args:
        root: the repository.
        folder: where pages are laid out; what lies there and is no page of the site any longer is removed.
    """

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.folder = root, folder
        self._written: set[Path] = set()
        self._pages = {page: self.place(page) for page in self._sources()}
        self._texts: dict[str, str] = {}

    def _sources(self) -> list[PurePosixPath]:
        patterns = (
            *("docs/**/*.md", "studies/*/README.md", "recipes/README.md", "benchmarks/results/**/*.md"),
            *("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
        )
        found = [path for pattern in patterns for path in self.root.glob(pattern)]
        return sorted(PurePosixPath(path.relative_to(self.root).as_posix()) for path in found)

    @staticmethod
    def place(source: PurePosixPath) -> PurePosixPath:
        """Where a file of the repository stands on the site."""
        if source.as_posix() in _RENAMED:
            return PurePosixPath(_RENAMED[source.as_posix()])
        if source.parts[0] == "docs":
            return source.relative_to("docs")
        if source.parts[:2] == ("benchmarks", "results"):
            return "benchmarks" / source.relative_to("benchmarks/results")
        if source.name == "README.md":
            return source.parent.with_suffix(".md")
        return source if source.suffix != ".md" else PurePosixPath(source.name.lower())

    def pages(self) -> None:
        """Lay out all pages that are written by hand."""
        for source, place in self._pages.items():
            text = (self.root / source).read_text("utf-8")
            if not text.startswith("# "):  # a file of measurements begins with its command
                text = (
                    f"# {source.stem.replace('_', ' ')}\n\n{text.replace(chr(10) + '### ', chr(10) + '## ')}"
                )
            self.add(place.with_suffix("").as_posix(), self._with_links(text, source, place))

    def add(self, page: str, text: str) -> None:
        """Add a generated page, or what is generated of a page; ``page`` is its name without ``.md``."""
        introduction, on_site, _ = self._texts.get(page, "").partition(_ON_SITE)
        if introduction and not on_site:
            raise ValueError(f"there are two pages named '{page}'")
        self._texts[page] = introduction + text

    def add_file(self, place: str, text: str) -> None:
        """Add a file that is no page."""
        self._write(PurePosixPath(place), text)

    def finish(self) -> None:
        """Put every page into the sidebar, write what changed, and remove what is no longer part of it."""
        indices = [page for page in self._texts if page.endswith("/index")]
        for index in indices:
            self._texts[index] += self._toctree(self._below(index))
        self._texts["index"] += "".join(
            self._toctree(pages, caption) for caption, pages in NAVIGATION.items()
        )
        for page, text in self._texts.items():
            self._write(PurePosixPath(f"{page}.md"), text)
        for path in self.folder.rglob("*"):
            if path.is_file() and path not in self._written:
                path.unlink()

    def _below(self, index: str) -> list[str]:
        """The pages of the index's folder, in the order in which it links to them."""
        folder = index.removesuffix("index")
        pages = {page for page in self._texts if page.startswith(folder) and page != index}
        nested = {
            page for page in pages if page.removeprefix(folder).count("/") and not page.endswith("/index")
        }
        deeper = {page for page in nested if f"{page.rpartition('/')[0]}/index" in pages}
        linked = [
            os.path.normpath(f"{folder}{target.removesuffix('.md')}")
            for target in re.findall(r"\]\(([\w./-]+\.md)", self._texts[index])
        ]
        order = [page for page in dict.fromkeys(linked) if page in pages - deeper]
        listed = [*order, *sorted(pages - deeper - set(order))]
        shared = Counter(title_of(self._texts[page]) for page in listed)
        return [
            f"{title_of(text, whole=shared[title_of(text)] > 1)} <{page}>"
            for page, text in ((page, self._texts[page]) for page in listed)
        ]

    def _toctree(self, entries: list[str], caption: str | None = None) -> str:
        lines = ["", "", "```{toctree}", ":hidden:"]
        if caption is not None:
            lines.append(f":caption: {caption}")
        for entry in entries:
            named = re.fullmatch(r".* <(.+)>", entry)
            page = entry if named is None else named[1]
            title = title_of(self._texts[page]) if named is None else entry.rpartition(" <")[0]
            lines.append(f"{title} </{page}>")
        return "\n".join([*lines, "```", ""])

    def _with_links(self, text: str, source: PurePosixPath, place: PurePosixPath) -> str:
        """The text with its links to files of the repository turned into links of the site."""

        def moved(found: re.Match[str]) -> str:
            path, hash_, anchor = found[2].partition("#")
            if not path or re.match(r"[a-z]+:", path):
                return found[0]
            return self._link(path, source, place) + hash_ + anchor

        pieces, end = [], 0
        for fence in _FENCE.finditer(text):
            inside = fence[0] if not fence[2].startswith("{") else _LINK.sub(moved, fence[0])
            pieces += [_LINK.sub(moved, text[end : fence.start()]), inside]
            end = fence.end()
        return "".join([*pieces, _LINK.sub(moved, text[end:])])

    def _link(self, path: str, source: PurePosixPath, place: PurePosixPath) -> str:
        target = PurePosixPath(os.path.normpath(source.parent / path))
        if target == PurePosixPath("README.md"):
            staged = PurePosixPath("index.md")
        elif (self.root / target).is_dir():
            staged = self._of_folder(target, f"{source}: {path}")
        elif target in self._pages:
            staged = self._pages[target]
        elif (self.root / target).is_file():
            staged = self.place(target)
            self._copy(target, staged)
            if (self.root / (dark := PurePosixPath(dark_sibling(Path(target))))).is_file():
                self._copy(dark, self.place(dark))
        else:
            raise FileNotFoundError(f"{source} links to '{path}', which does not exist")
        return os.path.relpath(staged, place.parent)

    def _of_folder(self, folder: PurePosixPath, link: str) -> PurePosixPath:
        """What a link to a folder leads to: the page in it, the file of a study, or a list of the like."""
        for name in ("README.md", "index.md"):
            if folder / name in self._pages:
                return self._pages[folder / name]
        study = folder / "study.yaml"
        if (self.root / study).is_file():
            self._copy(study, study)
            return study
        lists = {"benchmarks/results": "benchmarks/index.md", "studies/papers": "studies/papers.md"}
        if str(folder) not in lists:
            raise FileNotFoundError(f"{link} is a folder without a page; link to a file in it")
        return PurePosixPath(lists[str(folder)])

    def _copy(self, source: PurePosixPath, place: PurePosixPath) -> None:
        target = self.folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        self._written.add(target)
        content = (self.root / source).read_bytes()
        if not target.is_file() or target.read_bytes() != content:
            shutil.copyfile(self.root / source, target)

    def _write(self, place: PurePosixPath, text: str) -> None:
        target = self.folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        self._written.add(target)
        if not target.is_file() or target.read_text("utf-8") != text:
            target.write_text(text, "utf-8")
