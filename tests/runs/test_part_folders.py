"""A folder of parts: its manifest, what it refuses, and when a command writes one."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeltree.errors import DataError, OtherSettingsError, RunError
from labeltree.inference.bulk.job import BulkDone, BulkJob, writes_folder
from labeltree.runs import EmbeddingTable, PartFolder
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["a/b", "a/c"])
SETTINGS = {"what": "embed", "part_size": 2}


def begun(path: Path, parts: int = 2) -> tuple[PartFolder, dict[str, object]]:
    folder = PartFolder(path)
    manifest = folder.begin(SETTINGS, {"model": "m"}, TREE)
    vectors = pa.array([[1.0, 0.0], None], pa.list_(pa.float32(), 2))
    rows = pa.record_batch(
        {"sample": ["x", "y"], "embeddings": vectors, "nodes": [1, -1], "labels": ["a", None]}
    )
    for number in range(parts):
        with folder.new_part(number, rows.schema) as writer:
            writer.write(rows)
            writer.note.update(counts={"samples": 2, "unreadable": 1}, names="digest")
    return folder, manifest


def test_counts_are_those_of_the_parts(tmp_path: Path) -> None:
    folder, manifest = begun(tmp_path / "out")
    assert folder.finish(manifest, 3) is None
    assert not folder.is_complete(folder.read_manifest())
    assert folder.finish(manifest, 2) == {"parts": 2, "samples": 4, "unreadable": 2}
    assert folder.is_complete(folder.read_manifest())
    with pytest.raises(OtherSettingsError, match="before they changed"):
        folder.finish(manifest, 1)
    assert folder.note(1)["names"] == "digest"
    table = EmbeddingTable.load(folder.path, TREE)
    assert table.embeddings.tolist() == [[1.0, 0.0]] * 2
    assert table.nodes.tolist() == [1, 1]
    assert table.paths is not None
    assert table.paths.tolist() == ["x", "x"]


def test_a_part_that_fails_is_not_there(tmp_path: Path) -> None:
    folder, _ = begun(tmp_path / "out", parts=1)
    schema = pa.schema([("sample", pa.string())])

    def fails() -> None:
        with folder.new_part(1, schema) as writer:
            writer.write(pa.record_batch({"sample": ["x"]}, schema=schema))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert folder.present() == {0}
    assert not [path for path in folder.path.iterdir() if path.name.startswith(".")]


def test_rows_are_written_in_groups(tmp_path: Path) -> None:
    schema = pa.schema([("sample", pa.string())])
    folder = PartFolder(tmp_path)
    with folder.new_part(0, schema) as writer:
        for _ in range(10):
            writer.write(pa.record_batch({"sample": ["x"] * 500}, schema=schema))
    assert pq.read_metadata(folder.part(0)).num_rows == 5000
    assert pq.read_metadata(folder.part(0)).num_row_groups == 2


def test_other_settings_are_refused(tmp_path: Path) -> None:
    folder, manifest = begun(tmp_path / "out")
    assert folder.begin(SETTINGS, {"model": "later"}, TREE) == manifest  # as it was at the beginning
    for settings, sentence in (
        ({**SETTINGS, "part_size": 3}, "was begun with part size 2, not 3"),
        ({"what": "embed"}, "part size 2, not none"),
        ({**SETTINGS, "model": "x"}, "was made by another model"),
    ):
        with pytest.raises(OtherSettingsError, match=sentence):
            folder.begin(settings, {}, TREE)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "empty|JSON"),
        ("[]", "values by name"),
        ("{}", "does not say"),
        ('{"version": 9, "settings": {}}', "later version"),
    ],
)
def test_damaged_manifests_are_named(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "_manifest.json").write_text(text)
    with pytest.raises(RunError, match=sentence):
        PartFolder(tmp_path).begin(SETTINGS, {}, TREE)


def test_damaged_parts_are_named(tmp_path: Path) -> None:
    folder, manifest = begun(tmp_path / "out")
    folder.finish(manifest, 2)
    folder.part(1).write_bytes(b"PAR1")
    with pytest.raises(RunError, match=r"part-00001\.parquet"):
        folder.note(1)
    with pytest.raises(DataError, match=r"part-00001\.parquet"):
        EmbeddingTable.load(folder.path)


def test_when_a_folder_is_written(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "photos").mkdir()
    (tmp_path / "s.tar").write_bytes(b"")
    photos, shard = tmp_path / "photos", tmp_path / "s.tar"
    assert writes_folder(photos, "out/")
    assert writes_folder(photos, tmp_path / "there")
    assert writes_folder(None, "out/")
    assert writes_folder(shard, "out")
    assert not writes_folder(photos, "out")
    assert not writes_folder(shard, "out.npz")
    assert not writes_folder(shard, None)
    assert not writes_folder(None, "out")


def test_jobs_and_what_they_have_done() -> None:
    for wrong in ({"part_size": 0}, {"workers": 0}, {"dtype": "int8"}, {"what": "x"}, {"coverage": 2.0}):
        with pytest.raises(ValueError, match=r"expected|coverage|must be"):
            BulkJob("run", "data", "out", **wrong)  # type: ignore[arg-type]
    job = BulkJob("run", "data", "out", workers=3)
    assert job.threads(1) == 3
    assert "coverage" not in job.settings()
    assert BulkJob("run", "data", "out", what="predict").settings()["coverage"] == 0.9
    done = BulkDone("out", 1000, 0, 0, 1, 500, 5.0, True)
    assert done.sentence() == "1,000 samples, 500 of them now, 100 a second: 1 file in out"
