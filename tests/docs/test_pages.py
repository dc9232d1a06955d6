"""The examples of the README and of the package run as they stand."""

import re
from pathlib import Path

import pytest

from labeltree.data import named_data as datasets
from labeltree.evaluation import protocol_registry as protocols
from labeltree.models import encoder_registry as encoders
from labeltree.training import registry as objectives
from sweeps import long_unless

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.fixture(autouse=True)
def _own_registries(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an example registers is known to that example alone, not to the tests that come after it."""
    # What is registered when it is first asked for must not be taken back with the example.
    datasets.list_datasets(), protocols.list_protocols(), encoders.registered_encoders()
    for registry, name in (
        (datasets, "_entries"),
        (encoders, "_ENTRIES"),
        (objectives, "_entries"),
        (protocols, "_entries"),
    ):
        monkeypatch.setattr(registry, name, dict(getattr(registry, name)))


def examples(page: Path) -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL))


TRIED_ELSEWHERE = {*(ROOT / "docs" / "tutorials").glob("*.md"), ROOT / "docs" / "index.md"}
EXAMPLES = [p for p in PAGES if examples(p) and p not in TRIED_ELSEWHERE]


LONG = {
    "bulk",
    "deploy",
    "encoders",
    "explore",
    "images-and-texts",
    "new-classes",
    "python",
    "report",
    "ridge-head",
    "search-servers",
    "several-devices",
    "taxonomy-changes",
    "vectors",
}  # with seconds of training


@pytest.mark.parametrize(
    "page",
    long_unless(EXAMPLES, [page for page in EXAMPLES if page.stem not in LONG]),
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_examples_run(page: Path) -> None:
    exec(compile(examples(page), str(page), "exec"), {"__name__": page.stem})


def test_examples_leave_nothing_registered() -> None:
    """Whatever ran before in this process, an example's data set and encoder are not among ours."""
    assert not {"fruit", "my-encoder", "family"} & {
        *datasets.list_datasets(),
        *encoders.registered_encoders(),
        *(entry.name for entry in objectives.list_objectives()),
    }


def test_links_lead_somewhere() -> None:
    for page in [*PAGES, *(ROOT / f"{name}.md" for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY"))]:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_every_objective_has_a_page() -> None:
    from labeltree.training.registry import list_objectives

    for entry in list_objectives():
        page = ROOT / "docs" / "objectives" / f"{entry.name}.md"
        if entry.loss.__module__.startswith("labeltree."):
            assert page.is_file(), page
