"""Build the site: ``python docs/build_site OUT``, or ``make docs``. Every warning is an error.

Nothing is fetched: the pages are those of the repository, the reference is made from the docstrings, parsers
and messages of the package that is installed.
"""

from __future__ import annotations

import gc
import sys
from functools import cache
from pathlib import Path

from api import Api
from commands import command_pages
from error_messages import error_page
from lists import list_measurements, list_numbers, list_papers, list_studies
from recipe_settings import recipe_page
from sphinx.cmd.build import main as sphinx
from sphinx.domains.python import PythonDomain
from sphinx.search.en import SearchEnglish
from staging import Stage
from tutorials import write_notebooks

ROOT = Path(__file__).parents[2]
# A quarter of a build: the same few thousand words and names are looked up again and again. Names are first
# looked up when all pages have been read.
SearchEnglish.stem = cache(SearchEnglish.stem)
PythonDomain.find_obj = cache(PythonDomain.find_obj)


def build(out: Path) -> int:
    """Build the site into a folder; returns the exit code of Sphinx, 0 if there was no warning."""
    stage = Stage(ROOT, out / ".pages")
    stage.pages()
    stage.add("studies/index", list_studies(ROOT))
    stage.add("studies/papers", list_papers(ROOT))
    stage.add("benchmarks/index", list_measurements(ROOT))
    for page, text in {**Api().pages(), **command_pages()}.items():
        stage.add(page, text)
    stage.add("reference/recipe", recipe_page())
    stage.add("reference/numbers", list_numbers())
    stage.add("reference/errors", error_page(ROOT))
    for notebook in write_notebooks(out / "html" / "notebooks"):
        link = f'<a href="../notebooks/{notebook.name}" download>as a notebook</a>'
        stage.add(f"tutorials/{notebook.stem}", f"This page {link}.\n")
    stage.finish()
    words = ["-b", "html", "-W", "--keep-going", "-q", "-c", str(ROOT / "docs"), "-d", str(out / ".doctrees")]
    return sphinx([*words, str(stage.folder), str(out / "html")])


if __name__ == "__main__":
    gc.set_threshold(200_000, 50, 100)
    sys.exit(build(Path(sys.argv[1]).absolute()))
