"""The package as it is released: what its two files hold, and the wheel in a fresh environment."""

from __future__ import annotations

import email
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from packaging.metadata import Metadata

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
VERSION = PROJECT["version"]
# The source archive, and from what is in it the wheel, as `python -m build` makes them.
_BUILD = """
import sys, tarfile
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
root, out = sys.argv[1:]
(sdist,) = SdistBuilder(root).build(directory=out)
with tarfile.open(sdist) as archive:
    archive.extractall(out, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
(wheel,) = WheelBuilder(sdist.removesuffix(".tar.gz")).build(directory=out, versions=["standard"])
print(sdist, wheel, sep="\\n")
"""


@dataclass(frozen=True)
class Built:
    """The two files of a release."""

    sdist: Path
    wheel: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    pytest.importorskip("hatchling", reason="hatchling is not installed: it builds the package")
    words = [sys.executable, "-c", _BUILD, ROOT, tmp_path_factory.mktemp("dist")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return Built(*map(Path, done.stdout.splitlines()[-2:]))


def files_below(folder: Path) -> set[str]:
    """The files of a folder of the checkout, by their paths in it, without compiled ones."""
    files = (file for file in folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    return {file.relative_to(folder).as_posix() for file in files}


def test_the_source_archive_holds_what_the_wheel_is_built_from(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names == {
        *(f"src/labeltree/{name}" for name in files_below(ROOT / "src" / "labeltree")),
        *(f"recipes/{name}" for name in files_below(ROOT / "recipes")),
        *("CHANGELOG.md", "CITATION.cff", "LICENSE", "README.md", "pyproject.toml", ".gitignore", "PKG-INFO"),
    }


def test_the_wheel_holds_the_package_and_the_recipes(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        names = set(wheel.namelist())
    about = f"labeltree-{VERSION}.dist-info"
    assert names == {
        *(f"labeltree/{name}" for name in files_below(ROOT / "src" / "labeltree")),
        *(f"labeltree/recipes/{name}" for name in files_below(ROOT / "recipes")),
        *(f"{about}/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt")),
        f"{about}/licenses/LICENSE",
    }


def test_metadata_are_valid(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        text = wheel.read(f"labeltree-{VERSION}.dist-info/METADATA")
    found = Metadata.from_email(text, validate=True)
    assert str(found.version) == VERSION
    assert found.summary == PROJECT["description"]
    assert found.license_expression == "Apache-2.0"
    assert found.description_content_type == "text/markdown"
    assert found.description is not None
    assert found.description.strip() == (ROOT / "README.md").read_text("utf-8").strip()
    assert set(found.provides_extra or ()) == set(PROJECT["optional-dependencies"])
    needed = email.message_from_bytes(text).get_all("Requires-Dist", [])
    assert len(needed) > 15
    assert not [requirement for requirement in needed if "@" in requirement], "an address is no version"


@pytest.mark.long
def test_the_wheel_works_in_a_fresh_environment(built: Built, tmp_path: Path) -> None:
    """Its commands run where nothing of this checkout is seen, on the libraries that the tests use."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--no-compile", built.wheel], check=True)
    site = next((tmp_path / "venv" / "lib").glob("python*/site-packages"))
    libraries = Path(pytest.__file__).parents[1]
    (site / "libraries.pth").write_text(f"{libraries}\n")  # a path alone: its own .pth files are not followed

    def said(*words: object) -> str:
        done = subprocess.run(
            [*map(str, words)],
            cwd=tmp_path,
            env={"PATH": "", "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    command = python.with_name("labeltree")
    assert said(command, "--version") == f"labeltree {VERSION}\n"
    assert "quickstart/supcon" in said(command, "train", "--list-recipes")
    code = "import labeltree; print(labeltree.__file__)"
    assert Path(said(python, "-c", code).strip()).is_relative_to(site)


def test_versions_are_the_same_everywhere() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == VERSION
    assert citation["license"] == PROJECT["license"]
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert citation["keywords"] == PROJECT["keywords"]
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    headings = re.findall(r"^## \[(.+?)\](.*)$", changes, re.MULTILINE)
    assert headings
    assert headings[0][0] == VERSION, "the newest version stands first"
    for version, rest in headings:
        assert re.fullmatch(r" – (unreleased|\d{4}-\d{2}-\d{2})", rest), version
    kinds = set(re.findall(r"^### (.+)$", changes, re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
