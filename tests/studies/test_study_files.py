"""Every study file of the project is understood, without its data, and is in the index of findings."""

from functools import cache
from pathlib import Path

import pytest

from labeltree.studies.study_file import read_study
from labeltree.studies.study_plan import Study
from sweeps import long_unless

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "studies").rglob("study.yaml"))
# Settings whose defaults are what we advise, not what a paper has.
ADVICE = {"hwc": ["alpha", "gamma"], "hicone": ["variant"], "himulcone": ["variant"]}


each_study = pytest.mark.parametrize(
    "file",
    long_unless(FILES, FILES[::3]),
    ids=lambda file: str(file.parent.relative_to(ROOT / "studies")),
)


@cache
def study_of(file: Path) -> Study:
    """A study file, read once: it takes longer than what is asked of it."""
    return read_study(file)


@each_study
def test_every_recipe_is_one(file: Path) -> None:
    study = study_of(file)
    # Points of a grid differ in values alone: the first and the last of each method are read.
    families = {method.family: method for method in reversed(study.methods)}
    families |= {f"last {method.family}": method for method in study.methods if method.point}
    for method in families.values():
        study.recipe(method, method.trials[-1], study.seeds[0])


@each_study
def test_defaults_that_are_our_advice_are_not_relied_on(file: Path) -> None:
    """A table must mean the same when the advice changes, so its file names what it was made with."""
    study = study_of(file)
    for method in study.methods:
        for trial in method.trials:
            settings = study.settings(method, trial, 0)
            for term in str(settings["objective"]).split("+"):
                missing = {f"{term}.{name}" for name in ADVICE.get(term, ())} - set(settings)
                assert not missing, f"{method.name} leaves {min(missing)} to the default"


def test_all_are_in_the_index() -> None:
    assert len(FILES) > 40
    index = (ROOT / "docs" / "findings.md").read_text("utf-8")
    for file in FILES:
        folder = file.parent.relative_to(ROOT)
        assert f"](../{folder}/" in index, folder
