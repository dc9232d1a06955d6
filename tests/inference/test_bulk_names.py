"""Labels of a bulk job are read with the names and synonyms of the run."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from labeltree.inference.bulk.bulk_samples import BulkSamples
from labeltree.taxonomy import Taxonomy
from labeltree.training.recipe import TableRecipe


def test_names_and_synonyms(tmp_path: Path) -> None:
    synonyms = tmp_path / "synonyms.csv"
    synonyms.write_text("synonym,accepted\nParus caeruleus,Cyanistes caeruleus\n")
    table = tmp_path / "table.csv"
    rows = ["Parus caeruleus L.", "PARUS MAJOR", "Parus sp.", "?Parus major", "Vulpes vulpes", ""]
    table.write_text("\n".join(["text,label", *(f"t{i},{name}" for i, name in enumerate(rows))]))
    taxonomy = Taxonomy.from_paths(["Cyanistes/Cyanistes caeruleus", "Parus/Parus major"])
    run: Any = SimpleNamespace(
        recipe=SimpleNamespace(
            missing_labels=None,
            table=TableRecipe(names="scientific", synonyms=str(synonyms)),
        ),
        columns={"labels": ("label",), "texts": ("text",)},
        taxonomy=taxonomy,
        change=None,
        network=SimpleNamespace(encoder=SimpleNamespace(modality="text")),
    )
    samples = BulkSamples(cast(Any, run), str(table))
    found = [samples.label(sample) for sample in samples.stream()]
    nodes = [None if node < 0 else taxonomy.names[node] for _, node, _ in found]
    assert nodes == ["Cyanistes caeruleus", "Parus major", "Parus", None, None, None]
    assert [lacks for _, _, lacks in found] == [False, False, False, False, True, False]
    synonyms.unlink()
    unlabelled = BulkSamples(run, str(table), labelled=False)
    assert len(list(unlabelled.stream())) == len(rows)


def test_breadcrumbs(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("text,label\na,Apparel > Hats\nb,C > A\nc,Apparel > Cars\nd,Apparel::Hats\n")
    taxonomy = Taxonomy.from_paths(["Apparel/Hats", "C > A", "C/A"])

    def nodes(separator: str | None) -> list[int]:
        run: Any = SimpleNamespace(
            recipe=SimpleNamespace(missing_labels=None, table=TableRecipe(separator=separator)),
            columns={"labels": ("label",), "texts": ("text",)},
            taxonomy=taxonomy,
            change=None,
            network=SimpleNamespace(encoder=SimpleNamespace(modality="text")),
        )
        samples = BulkSamples(cast(Any, run), str(table))
        return [samples.label(sample)[1] for sample in samples.stream()]

    hats, name = taxonomy.find("Apparel/Hats"), taxonomy.find("C > A")
    assert nodes(None) == [hats, name, -1, -1]
    assert nodes("none") == [-1, name, -1, -1]
    assert nodes("::") == [-1, name, -1, hats]
