"""Forms of taxonomy files that are recognised by their content: what is read, and what a note says of it."""

import contextlib
import json
import zipfile
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeltree.cli.main import main
from labeltree.errors import TaxonomyError
from labeltree.options.choices import Form
from labeltree.taxonomy import AnyTaxonomy, Taxonomy, TaxonomyDAG, load_taxonomy
from labeltree.taxonomy.files.entries import entries_from_paths
from labeltree.taxonomy.files.file_forms import FORMS, entries_of_form, find_form
from labeltree.taxonomy.files.opened_file import OpenedFile
from labeltree.taxonomy.files.path_lines import lines_from_tree
from labeltree.taxonomy.forms import read_form

CHECKLIST = """taxonID\tparentNameUsageID\tacceptedNameUsageID\tscientificName\ttaxonRank\ttaxonomicStatus
a\t\t\tPlantae\tkingdom\taccepted
b\ta\t\tFabaceae\tfamily\taccepted
c\tb\t\tVicia\tgenus\taccepted
d\tc\t\tVicia faba\tspecies\taccepted
e\t\td\tFaba vulgaris\tspecies\tsynonym
f\tb\tc\tFaba\tgenus\tsynonym
g\t\te\tFaba sativa\tspecies\tsynonym
"""
PREFIXED = CHECKLIST.replace("taxonID", "dwc:taxonID", 1).replace(
    "\tscientificName", "\tdwc:scientificName", 1
)
COLDP = """col:ID\tcol:parentID\tcol:status\tcol:scientificName\tcol:rank
a\t\taccepted\tPlantae\tkingdom
b\ta\tprovisionally accepted\tFabaceae\tfamily
c\tb\taccepted\tVicia\tgenus
d\tc\taccepted\tVicia faba\tspecies
e\td\tsynonym\tFaba vulgaris\tspecies
f\tc\tambiguous synonym\tFaba\tgenus
g\te\tmisapplied\tFaba sativa\tspecies
"""
BEAN = ["Plantae", "Plantae/Fabaceae", "Plantae/Fabaceae/Vicia", "Plantae/Fabaceae/Vicia/Vicia faba"]
PLACES = ["tool", "tool/saw", "tool/saw/bow saw", "toy", "toy/kite"]


def read(folder: Path, name: str, text: str) -> AnyTaxonomy:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return load_taxonomy(path)


def paths(taxonomy: AnyTaxonomy) -> list[str]:
    return sorted(taxonomy.path_name(node) for node in range(1, taxonomy.num_nodes))


LINES = {
    "tabs before names": "tool\n\tsaw\n\t\tbow saw\ntoy\n\tkite\n",
    "blanks before names": "# things\ntool\n  saw\n    bow saw\n\ntoy\n  kite\n",
    "bullets": "- tool\n  - saw\n    - bow saw\n- toy\n  - kite\n",
    "drawn": ".\n├── tool\n│   └── saw\n│       └── bow saw\n└── toy\n    └── kite\n",
    "drawn in ASCII": ".\n|-- tool\n|   `-- saw\n|       `-- bow saw\n`-- toy\n    `-- kite\n",
    "google with ids": "1 - tool\n2 - tool > saw\n3 - tool > saw > bow saw\n4 - toy\n5 - toy > kite\n",
    "ids with colons": "# ids\n# of shops\n\n"
    + "".join(f"id://shop/{i}   : {path.replace('/', ' > ')}\n" for i, path in enumerate(PLACES)),
    "ids with tabs": "".join(f"p{i}\t{path.replace('/', ' > ')}\n" for i, path in enumerate(PLACES)),
    "arrows": "".join(f"{path.replace('/', '>')}\n" for path in PLACES),
    "long arrows": "".join(f"{path.replace('/', ' -> ')}\n" for path in PLACES),
    "semicolons": "".join(f"{path.replace('/', ';')}\n" for path in PLACES),
    "pipes": "".join(f"{path.replace('/', '|')}\n" for path in PLACES),
    "tabs": "".join(f"{path.replace('/', chr(9))}\n" for path in PLACES),
    "edges with tabs": "tool\tsaw\nsaw\tbow saw\nall\ttool\nall\ttoy\ntoy\tkite\n",
    "edges, child first": "saw\ttool\nbow saw\tsaw\ntool\tall\ntoy\tall\nkite\ttoy\n",
    "tree numbers": "tool;B01\nsaw;B01.20\nbow saw;B01.20.300\ntoy;C07\nkite;C07.100\n",
}


@pytest.mark.parametrize("text", LINES.values(), ids=LINES)
def test_lines_are_read_as_what_they_are(tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    assert paths(read(tmp_path, "lines.txt", text)) == PLACES
    assert "each line is" in caplog.text or "lines are paths" in caplog.text


def test_ids_are_further_names(tmp_path: Path) -> None:
    for name in ("google with ids", "ids with colons", "ids with tabs", "tree numbers"):
        text = LINES[name]
        tree = read(tmp_path, "lines.txt", text)
        id = {"google with ids": "3", "ids with colons": "id://shop/2", "ids with tabs": "p2"}.get(
            name, "B01.20.300"
        )
        assert tree.decode(tree.encode([id])) == ["tool/saw/bow saw"], name


def test_edges_between_words_are_no_names_with_a_blank(tmp_path: Path) -> None:
    edges = "animal bird\nanimal fish\nbird owl\nbird tit\nfish cod\n"
    assert paths(read(tmp_path, "is_a.txt", edges)) == ["bird", "bird/owl", "bird/tit", "fish", "fish/cod"]
    birds = read(tmp_path, "names.txt", "great tit\nblue tit\nbarn owl\ngrey heron\ntawny owl\n")
    assert birds.num_nodes == 6  # names without edges between them
    several = "a b\na c\nb d\nc d\n"
    assert isinstance(read(tmp_path, "dag.txt", several), TaxonomyDAG)
    loop = read(tmp_path, "loop.txt", "a b\nb c\nc a\n")
    assert loop.num_nodes == 4


def test_a_slash_in_names_is_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    arrows = "media>CD/DVD\nmedia>book\nmedia>book>A/B\ntoy>kite\ntoy>kite>1/2\n"
    assert r"media/CD\/DVD" in paths(read(tmp_path, "arrows.txt", arrows))
    names = [f"class {i}" for i in range(30)] + ["and/or"]
    caplog.clear()
    assert r"and\/or" in paths(read(tmp_path, "names.txt", "\n".join(names)))
    assert "'/' is part of 'and/or'" in caplog.text
    names[0] = "and"  # now a node above it
    assert "and/or" in paths(read(tmp_path, "paths.txt", "\n".join(names)))


def test_many_classes_that_share_a_mark_are_noted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    read(tmp_path, "flat.txt", "".join(f"kind{i % 7}:name{i}\n" for i in range(200)))
    assert "200 classes without a level above, and most contain ':'" in caplog.text
    assert "--form breadcrumbs --separator ':'" in caplog.text
    caplog.clear()
    read(tmp_path, "small.txt", "".join(f"kind:name{i}\n" for i in range(20)))
    assert not caplog.text


CODES = [
    ("C50", "Breast"),
    ("C50.1", "Central part"),
    ("C50.2", "Upper, inner/left part"),
    ("D05", "In situ"),
]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("blanks.txt", "".join(f"{code}    {text}\n" for code, text in CODES)),
        ("one-blank.txt", "".join(f"{code} {text}\n" for code, text in CODES)),
        ("tabs.txt", "".join(f"{code}\t{text}\n" for code, text in CODES)),
        ("dots.txt", "".join(f"{code.replace('.', '')}  {text}\n" for code, text in CODES)),
        ("map.json", json.dumps(dict(CODES))),
        ("table.csv", "CODE,DESCRIPTION\n" + "".join(f'{code},"{text}"\n' for code, text in CODES)),
    ],
)
def test_codes_keep_what_they_mean(
    tmp_path: Path, name: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    tree = read(tmp_path, name, text)
    code = "C501" if name == "dots.txt" else "C50.1"
    assert tree.decode(tree.encode([code, "Central part", "Upper, inner/left part"])) == [
        f"C50/{code}",
        f"C50/{code}",
        f"C50/{code[:-1]}2",
    ]
    assert "4 codes, levels as in icd10" in caplog.text


def test_codes_without_levels_are_a_question(tmp_path: Path) -> None:
    with pytest.raises(TaxonomyError, match="nothing in the codes says where a level ends"):
        read(tmp_path, "codes.txt", "1A000X first thing\n2B000Y second thing\n3C000Z third thing\n")


def test_numbers_and_ids_of_classes_are_no_levels(tmp_path: Path) -> None:
    texts = {
        "index.json": '{"0": "crane", "1": "tench", "2": "oak"}',
        "pairs.json": '{"0": ["n01", "crane"], "1": ["n02", "tench"], "2": ["n03", "oak"]}',
        "names.json": '{"crane": 0, "tench": 1, "oak": 2}',
        "lines.txt": "0 crane\n1 tench\n2 oak\n",
        "wordnet.txt": "n01440764 crane\nn01440765 tench\nn01440766 oak\n",
        "dots.txt": "1. crane\n2. tench\n3. oak\n",
        "table.csv": "id,name\n0,crane\n1,tench\n2,oak\n",
    }
    for name, text in texts.items():
        assert paths(read(tmp_path, name, text)) == ["crane", "oak", "tench"], name
    tree = read(tmp_path, "pairs.json", texts["pairs.json"])
    assert tree.decode(tree.encode(["n02", "1"])) == ["tench", "tench"]
    twice = read(tmp_path, "twice.json", '{"0": ["n1", "crane"], "1": ["n2", "crane"]}')
    assert paths(twice) == ["crane (n1)", "crane (n2)"]


JSON = {
    "parent ids": [
        {"id": 1, "name": "tool", "parent_id": None},
        {"id": 2, "name": "saw", "parent_id": 1},
        {"id": 3, "name": "bow saw", "parent_id": 2},
        {"id": 4, "name": "toy", "parent_id": 0},
        {"id": 5, "name": "kite", "parent_id": 4},
    ],
    "lists of parents": [
        {"code": "t", "label": "tool", "parents": []},
        {"code": "s", "label": "saw", "parents": ["t"]},
        {"code": "b", "label": "bow saw", "parents": ["s"]},
        {"code": "y", "label": "toy", "parents": []},
        {"code": "k", "label": "kite", "parents": ["y"]},
    ],
    "child ids": {
        "version": 3,
        "classes": [
            {"id": "/m/1", "name": "tool", "child_ids": ["/m/2"]},
            {"id": "/m/2", "name": "saw", "child_ids": ["/m/3"]},
            {"id": "/m/3", "name": "bow saw", "child_ids": []},
            {"id": "/m/4", "name": "toy", "child_ids": ["/m/5"]},
            {"id": "/m/5", "name": "kite"},
        ],
    },
    "objects": [
        {"name": "tool", "children": [{"name": "saw", "children": [{"name": "bow saw", "size": 3}]}]},
        {"name": "toy", "children": [{"name": "kite"}]},
    ],
    "objects with other keys": {
        "LabelName": "root",
        "Subcategory": [
            {
                "LabelName": "tool",
                "Subcategory": [{"LabelName": "saw", "Subcategory": [{"LabelName": "bow saw"}]}],
            },
            {"LabelName": "toy", "Subcategory": [{"LabelName": "kite"}]},
        ],
    },
    "adjacency": {"all": ["tool", "toy"], "tool": ["saw"], "saw": ["bow saw"], "toy": ["kite"]},
    "child to parent": {"saw": "tool", "bow saw": "saw", "kite": "toy", "tool": "all", "toy": "all"},
    "nodes and links": {
        "directed": True,
        "nodes": [{"id": name} for name in ("all", "tool", "saw", "bow saw", "toy", "kite")],
        "links": [
            {"source": "all", "target": "tool"},
            {"source": "tool", "target": "saw"},
            {"source": "saw", "target": "bow saw"},
            {"source": "all", "target": "toy"},
            {"source": "toy", "target": "kite"},
        ],
    },
}


@pytest.mark.parametrize("suffix", [".json", ".yaml"])
@pytest.mark.parametrize("data", JSON.values(), ids=JSON)
def test_keys_of_objects_are_no_nodes(tmp_path: Path, data: object, suffix: str) -> None:
    assert paths(read(tmp_path, f"tree{suffix}", json.dumps(data))) == PLACES


def test_several_parents_in_json(tmp_path: Path) -> None:
    data = [{"id": i, "name": f"n{i}", "child_ids": c} for i, c in ((1, [2, 3]), (2, [4]), (3, [4]), (4, []))]
    assert isinstance(read(tmp_path, "sounds.json", json.dumps(data)), TaxonomyDAG)


def test_nested_names_stay_nested_names(tmp_path: Path) -> None:
    nested = {"tool": {"saw": ["bow saw"]}, "toy": ["kite"]}
    assert paths(read(tmp_path, "nested.json", json.dumps(nested))) == PLACES
    assert paths(read(tmp_path, "pairs.json", '{"animal": "dog", "plant": "oak"}')) == [
        "animal",
        "animal/dog",
        "plant",
        "plant/oak",
    ]


def test_categories(tmp_path: Path) -> None:
    coco = {"images": [], "categories": [{"supercategory": "tool", "id": 7, "name": "saw"}]}
    tree = read(tmp_path, "instances.json", json.dumps(coco))
    assert paths(tree) == ["tool", "tool/saw"]
    assert tree.encode(["7"]) == tree.encode(["saw"])
    lvis = {"categories": [{"id": 1, "name": "saw", "synset": "saw.n.02"}, {"id": 2, "name": "kite"}]}
    assert paths(read(tmp_path, "lvis.json", json.dumps(lvis))) == ["kite", "saw"]
    inat = {
        "categories": [
            {
                "id": 3,
                "name": "Vicia faba",
                "common_name": "bean",
                "supercategory": "Plants",
                "kingdom": "Plantae",
                "family": "Fabaceae",
                "genus": "Vicia",
                "specific_epithet": "faba",
            }
        ]
    }
    tree = read(tmp_path, "val.json", json.dumps(inat))
    assert paths(tree) == BEAN
    assert tree.encode(["bean"]) == tree.encode(["Vicia faba"])


@pytest.mark.parametrize("text", [CHECKLIST, PREFIXED, COLDP], ids=["Darwin Core", "prefixed", "ColDP"])
def test_synonyms_are_names_of_accepted_taxa(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    tree = read(tmp_path, "taxa.tsv", text)
    assert [tree.names[0], *paths(tree)] == ["Plantae", *[path.removeprefix("Plantae/") for path in BEAN[1:]]]
    asked = ["Vicia faba", "Faba vulgaris", "Faba sativa", "e", "g", "d"]
    assert len(set(tree.encode(asked).tolist())) == 1
    assert tree.encode(["Faba"]) == tree.encode(["Vicia"])
    assert "4 taxa by" in caplog.text
    assert "3 synonyms are further names" in caplog.text


def test_synonyms_of_taxa_elsewhere_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tree = read(tmp_path, "taxa.tsv", CHECKLIST + "h\t\tzzz\tNowhere\tspecies\tsynonym\n")
    assert tree.num_nodes == 4
    assert "1 synonyms of taxa that are not in the file are left out" in caplog.text


def test_homonyms_below_one_parent_have_their_authors(tmp_path: Path) -> None:
    text = "taxonID\tparentNameUsageID\tcanonicalName\tscientificName\ttaxonomicStatus\n"
    text += "1\t\tAves\tAves\taccepted\n2\t1\tX\tX Smith\taccepted\n3\t1\tX\tX Jones\tdoubtful\n"
    assert paths(read(tmp_path, "taxa.tsv", text)) == ["X Jones", "X Smith"]


def test_ranks_in_any_order_with_ids_and_vernacular_names(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = "species_code,English name,scientific name,order,family,range\n"
    text += "gretit,Great Tit,Parus major,Passeriformes,Paridae,a\n"
    text += "blutit,Blue Tit,Cyanistes caeruleus,Passeriformes,Paridae,b\n"
    text += "gretit1,Great Tit (western),Parus major minor,Passeriformes,Paridae,c\n"
    tree = read(tmp_path, "birds.csv", text)
    assert "Passeriformes/Paridae/Parus major/Parus major minor" in paths(tree)
    assert tree.encode(["gretit", "Great Tit"]).tolist() == tree.encode(["Parus major"] * 2).tolist()
    assert "order > family > scientificName are the levels" in caplog.text
    assert "left out: 'range'" in caplog.text
    plain = "taxonID\tscientificName\tfamily\n1\tparus major\tparidae\n2\tbubo bubo\tstrigidae\n"
    assert paths(read(tmp_path, "plain.tsv", plain)) == [
        "paridae",
        "paridae/parus major",
        "strigidae",
        "strigidae/bubo bubo",
    ]


def test_parents_without_a_row_are_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = "id,parent_id,name\nX:1,,spectrum\nX:2,X:1,peak\nX:3,Y:0,dalton\nX:4,,sample\n"
    assert paths(read(tmp_path, "terms.csv", text)) == [
        "Y:0",
        "Y:0/dalton",
        "sample",
        "spectrum",
        "spectrum/peak",
    ]
    assert "'Y:0' is a parent without a row (first in line 4)" in caplog.text


META = """<archive xmlns="http://rs.tdwg.org/dwc/text/"><core encoding="UTF-8" fieldsTerminatedBy="\\t"
 fieldsEnclosedBy="" ignoreHeaderLines="1" rowType="http://rs.tdwg.org/dwc/terms/Taxon">
<files><location>taxon.txt</location></files><id index="0"/>
<field index="1" term="http://rs.tdwg.org/dwc/terms/parentNameUsageID"/>
<field index="2" term="http://rs.tdwg.org/dwc/terms/acceptedNameUsageID"/>
<field index="3" term="http://rs.tdwg.org/dwc/terms/scientificName"/>
<field index="4" term="http://rs.tdwg.org/dwc/terms/taxonRank"/>
<field index="5" term="http://rs.tdwg.org/dwc/terms/taxonomicStatus"/></core>
<extension encoding="UTF-8" fieldsTerminatedBy="\\t" fieldsEnclosedBy="" ignoreHeaderLines="1"
 rowType="http://rs.gbif.org/terms/1.0/VernacularName"><files><location>names.txt</location></files>
<coreid index="0"/><field index="1" term="http://rs.tdwg.org/dwc/terms/vernacularName"/></extension></archive>"""


def test_zipped_checklists(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    members = {
        "dwca.zip": {"meta.xml": META, "taxon.txt": CHECKLIST, "names.txt": "id\tname\nd\tbroad bean\n"},
        "coldp.zip": {
            "x/NameUsage.tsv": COLDP,
            "x/VernacularName.tsv": "col:taxonID\tcol:name\nd\tbroad bean\n",
        },
    }
    for name, files in members.items():
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for member, text in files.items():
                archive.writestr(member, text)
        tree = load_taxonomy(tmp_path / name)
        assert (
            tree.encode(["broad bean", "Faba vulgaris"]).tolist() == tree.encode(["Vicia faba"] * 2).tolist()
        )
        main(["taxonomy", "show", str(tmp_path / name)])
        assert "Vicia faba" in capsys.readouterr().out
    (tmp_path / "broken.zip").write_bytes(b"PK\x03\x04 no more")
    with pytest.raises(TaxonomyError, match=r"broken.zip: no form of a .zip is in it: .*checklist"):
        load_taxonomy(tmp_path / "broken.zip")


def test_form_names_what_content_would_not_tell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "is_a.txt"
    path.write_text("animal bird\nanimal fish\nbird owl\n", encoding="utf-8")
    assert read_form(path, "paths").num_nodes == 4
    main(["taxonomy", "show", str(path), "--form", "paths"])
    assert "animal bird" in capsys.readouterr().out
    named = {form.name for form in FORMS}
    assert named == {*get_args(Form)}
    page = Path(__file__).parents[2] / "docs" / "taxonomy-files.md"
    text = page.read_text(encoding="utf-8")
    assert [name for name in sorted(named) if f"`{name}`" not in text] == []


@given(
    st.lists(
        st.lists(st.text("ab >|;./0\t#-", min_size=1, max_size=6), min_size=1, max_size=3),
        min_size=1,
        max_size=9,
    )
)
def test_no_line_that_is_written_reads_as_another_form(rows: list[list[str]]) -> None:
    try:
        tree = Taxonomy.from_paths([tuple(row) for row in rows])
    except TaxonomyError:  # an empty name
        return
    lines = lines_from_tree(list(tree.names), tree.entries().parent())
    rooted = "".join(f"/{line}\n" for line in lines)
    file = OpenedFile.from_text(rooted, ".txt")
    assert find_form(file)[0].name == "paths"
    assert entries_of_form(file).names == entries_from_paths([f"/{line}" for line in lines]).names


def test_taxa_that_call_each_other_accepted_end(tmp_path: Path) -> None:
    text = "taxonID\tparentNameUsageID\tacceptedNameUsageID\tscientificName\ttaxonomicStatus\n"
    text += (
        "1\t\t\tAves\t\n2\t1\t3\tParus\t\n3\t\t2\tPariolus\tinvalid\n4\t\t5\tX\tinvalid\n5\t\t4\tY\tinvalid\n"
    )
    tree = read(tmp_path, "taxa.tsv", text)
    assert paths(tree) == ["Parus"]
    assert tree.encode(["Pariolus"]) == tree.encode(["Parus"])


def test_text_files_may_be_tables_of_taxa(tmp_path: Path) -> None:
    assert read(tmp_path, "taxa.txt", CHECKLIST).num_nodes == 4
    edges = "id\tparent_id\tname\n1\t\ttool\n2\t1\tsaw\n"
    assert paths(read(tmp_path, "edges.txt", edges)) == ["saw"]


def test_normalised_coldp(tmp_path: Path) -> None:
    files = {
        "Taxon.tsv": "ID\tparentID\tnameID\na\t\tn1\nb\ta\tn2\n",
        "Name.tsv": "ID\tscientificName\nn1\tFabaceae\nn2\tVicia\nn3\tFaba\n",
        "Synonym.tsv": "taxonID\tnameID\tstatus\nb\tn3\tsynonym\n",
    }
    with zipfile.ZipFile(tmp_path / "coldp.zip", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    tree = load_taxonomy(tmp_path / "coldp.zip")
    assert tree.encode(["Faba", "b"]).tolist() == tree.encode(["Vicia"] * 2).tolist()


@pytest.mark.parametrize(
    "header", ["Unique ID,Parent ID,Name,Tier 1", "uid,parent_uid,name,rank", "Code,Code parent,Title,x"]
)
def test_a_parent_column_refers_to_the_column_of_its_ids(tmp_path: Path, header: str) -> None:
    rows = ["1,,tool,tool", "2,1,saw,tool", "3,2,bow saw,tool", "4,4,toy,toy", "5,4,kite,toy"]
    if header.startswith("Code"):
        header = header.replace("Code parent", "parent code")
    assert paths(read(tmp_path, "rows.csv", "\n".join([header, *rows, ""]))) == PLACES


def test_codes_that_a_mark_fills_up(tmp_path: Path) -> None:
    text = "NAICS,DESCRIPTION\n------,Total\n11----,Farms\n113///,Forests\n1131//,Timber\n21----,Mines\n"
    assert paths(read(tmp_path, "naics.csv", text)) == ["11", "11/113", "11/113/1131", "21"]


def test_headings_over_groups_of_columns_are_no_header(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = "Relations\t\t\tTiers\t\tMore\nUnique ID\tParent\tName\tTier 1\tTier 2\t\n"
    rows = [
        "1,,tool,tool,,",
        "2,1,saw,tool,saw,x",
        "3,2,bow saw,tool,saw,",
        "4,,toy,toy,,",
        "5,4,kite,toy,kite,",
    ]
    text += "\n".join(row.replace(",", "\t") for row in rows)
    assert paths(read(tmp_path, "tiers.tsv", text)) == PLACES
    assert "above the header (line 2)" in caplog.text


@pytest.mark.parametrize("text", ["sep=;\nchild;parent\nsaw;tool\n", "child|parent\nsaw|tool\n"])
def test_separators_of_tables(tmp_path: Path, text: str) -> None:
    assert paths(read(tmp_path, "edges.csv", text)) == ["saw"]


def test_workbooks_are_tables(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (
        ["All our products"],
        ["id", "parent_id", "name"],
        [1, None, "tool"],
        [2, 1, "saw"],
        [3, 2, "bow saw"],
    ):
        book.active.append(row)
    book.active.append([4, None, "toy"])
    book.active.append([5, 4, "kite"])
    book.save(tmp_path / "products.xlsx")
    assert paths(load_taxonomy(tmp_path / "products.xlsx")) == PLACES
    assert "above the header (row 2)" in caplog.text
    book.active.append([5, 1, "kite"])
    book.save(tmp_path / "products.xlsx")
    with pytest.raises(TaxonomyError, match=r"'5' has two parents, .*row 8"):
        Taxonomy.from_file(tmp_path / "products.xlsx")


def test_what_show_draws_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Taxonomy.from_paths(PLACES).save(tmp_path / "tree.json")
    main(["taxonomy", "show", str(tmp_path / "tree.json")])
    assert paths(read(tmp_path, "drawn.txt", capsys.readouterr().out)) == PLACES


def test_indentation_that_is_no_outline(tmp_path: Path) -> None:
    with pytest.raises(TaxonomyError, match="line 2 begins where no line above it does"):
        read_form(read_path(tmp_path, "  a\n b\nc\n"), "outline")
    assert read(tmp_path, "flat.txt", " a\n b\n c\n").num_nodes == 4
    assert read(tmp_path, "slip.txt", "a\n b\nc\n").num_nodes == 4


def read_path(folder: Path, text: str) -> Path:
    path = folder / "lines.txt"
    path.write_text(text, encoding="utf-8")
    return path


LISTS = {
    "data.yaml": "path: ../d\ntrain: images/train\nnc: 3\nnames:\n  0: crane\n  1: tench\n  2: oak\n",
    "list.yaml": "train: a\nnc: 3\nnames: [crane, tench, oak]\n",
    "numbers.yaml": "crane: 0\ntench: 1\noak: 2\n",
    "stop.csv": "ClassId,Name\n0,crane\n1,tench\n2,oak\n",
    "label.csv": "label,name\n0,crane\n1,tench\n2,oak\n",
    "coco.names": "crane\ntench\noak\n",
    "behind.txt": "crane 0\ntench 1\noak 2\n",
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_classes(tmp_path: Path, name: str) -> None:
    tree = read(tmp_path, name, LISTS[name])
    assert paths(tree) == ["crane", "oak", "tench"]
    if name != "coco.names":
        assert tree.decode(tree.encode(["1"])) == ["tench"]


def test_columns_that_count_are_no_level(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = "category,subcategory,count,active\nAnimals,Cat,12,TRUE\nAnimals,Dog,30,FALSE\nPlants,Oak,4,TRUE\n"
    assert paths(read(tmp_path, "t.csv", text)) == [
        "Animals",
        "Animals/Cat",
        "Animals/Dog",
        "Plants",
        "Plants/Oak",
    ]
    assert "left out: 'count' and 'active', whose cells are numbers" in caplog.text
    assert "category > subcategory are levels" in caplog.text


def test_keys_with_shared_values_are_children(tmp_path: Path) -> None:
    text = '{"beaver": "aquatic mammals", "dolphin": "aquatic mammals", "shark": "fish"}'
    assert paths(read(tmp_path, "fine.json", text)) == [
        "aquatic mammals",
        "aquatic mammals/beaver",
        "aquatic mammals/dolphin",
        "fish",
        "fish/shark",
    ]


def test_columns_of_edges_in_other_words(tmp_path: Path) -> None:
    rows = "saw,tool\nbow saw,saw\nkite,toy\n"
    for header in ("hyponym,hypernym", "narrower,broader", "subclass,superclass"):
        assert paths(read(tmp_path, "e.csv", f"{header}\n{rows}")) == PLACES, header
    assert (
        paths(read(tmp_path, "f.csv", "id,nom,parent\n1,tool,\n2,saw,1\n3,bow saw,2\n4,toy,\n5,kite,4\n"))
        == PLACES
    )


def test_codes_of_customs_and_industries(tmp_path: Path) -> None:
    customs = "code,name\n01,Live animals\n0101,Horses\n0101.21,Pure-bred\n02,Meat\n"
    assert paths(read(tmp_path, "hs.csv", customs)) == ["01", "01/0101", "01/0101/0101.21", "02"]
    industries = "code,title\n11,Farming\n111,Crops\n31-33,Manufacturing\n311,Food\n"
    assert paths(read(tmp_path, "naics.csv", industries)) == ["11", "11/111", "31-33", "31-33/311"]
    quoted = '"Code","Description"\n"A","Farming, forestry"\n'
    quoted += "".join(f'"A0{i}","Crop {i}"\n' for i in range(1, 5))
    assert paths(read(tmp_path, "isic.txt", quoted)) == ["A", "A/A01", "A/A02", "A/A03", "A/A04"]


def test_ebird_and_names_in_several_languages(tmp_path: Path) -> None:
    text = "TAXON_ORDER,SCI_NAME,ORDER,FAMILY\n2,Struthio camelus,Struthioniformes,Struthionidae\n"
    text += "3,Rhea americana,Rheiformes,Rheidae\n"
    assert "Rheiformes/Rheidae/Rhea americana" in paths(read(tmp_path, "ebird.csv", text))
    text = "Order,Family,Genus,Species (Scientific),Species (English)\n"
    text += "A,B,Bubo,Bubo bubo,Owl\nA,B,Bubo,Bubo ascalaphus,X\n"
    assert "A/B/Bubo/Bubo bubo" in paths(read(tmp_path, "ioc.csv", text))


def test_drawings_of_other_programs(tmp_path: Path) -> None:
    unix = ".\n├── animals\n│   └── cat\n└── plants\n\n3 directories, 0 files\n"
    assert paths(read(tmp_path, "unix.txt", unix)) == ["animals", "animals/cat", "plants"]
    windows = "C:.\n├───animals\n│   ├───cat\n└───plants\n"
    assert paths(read(tmp_path, "windows.txt", windows)) == ["animals", "animals/cat", "plants"]
    with pytest.raises(TaxonomyError, match="line 4 begins where no line above it does"):
        read(tmp_path, "crooked.txt", "Animals\n  Mammals\n      Cat\n    Dog\nPlants\n")


@pytest.mark.parametrize(
    ("name", "text"), [("names.json", '["a", "b"]'), ("rows.json", '[["A", "B", "C"]]'), ("a.txt", "a\nb\n")]
)
def test_a_form_that_a_file_does_not_hold(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    for form in get_args(Form):
        with contextlib.suppress(TaxonomyError):  # what it raises, or some read it as something plainer
            read_form(tmp_path / name, form)
    if name.endswith(".json"):
        with pytest.raises(TaxonomyError, match=r"not what --form records reads \(objects with"):
            read_form(tmp_path / name, "records")


def test_a_table_in_markdown_is_no_drawing(tmp_path: Path) -> None:
    with pytest.raises(TaxonomyError, match=r"no form of a \.md is in it"):
        read(tmp_path, "table.md", "# Things\n\n| a | b |\n|---|---|\n| x | y |\n")


def test_marks_between_blanks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert paths(read(tmp_path, "a.txt", "tool » saw » bow saw\ntoy » kite\ntool » saw\ntoy\n")) == PLACES
    places = read(tmp_path, "places.txt", "/a/field 0\n/a/cabin 1\n/b/shop/inside 2\n")
    assert paths(places) == ["a", "a/cabin", "a/field", "b", "b/shop", "b/shop/inside"]
    assert places.decode(places.encode(["0", "2"])) == ["a/field", "b/shop/inside"]
    assert "the number behind each name is a further name" in caplog.text
    assert "a/cabin 1" in paths(read(tmp_path, "gaps.txt", "/a/field 0\n/a/cabin 1\n/b/shop 31\n"))
    assert "the number at the end of each line is part of its name" in caplog.text


@pytest.mark.parametrize("names", [["a/field 0", "a/cabin 1", "b/shop 2"], ["field 0", "cabin 1", "shop 2"]])
def test_names_that_end_in_numbers_are_written_so_that_they_stay(tmp_path: Path, names: list[str]) -> None:
    tree = Taxonomy.from_paths(names)
    tree.save(tmp_path / "tree.txt")
    assert Taxonomy.from_file(tmp_path / "tree.txt") == tree


NOT_OF_THE_FORM = {
    "plain.csv": ("top,class\ntool,saw\ntool,axe\nfood,bread\n", "levels"),
    "names.txt": ("saw\naxe\nbread\n", "paths"),
    "tree.nwk": ("((a,b)c,d)e;\n", "newick"),
    "names.json": ('{"tool":["saw","axe"],"food":["bread"]}', "nested"),
    "terms.obo": ("[Term]\nid: A:1\nname: x\n\n[Term]\nid: A:2\nname: y\nis_a: A:1\n", "obo"),
}


@pytest.mark.parametrize("name", NOT_OF_THE_FORM)
@pytest.mark.parametrize(
    "form", ["adjacency", "checklist", "claml", "google", "ncbi", "rdf", "records", "rf2"]
)
def test_another_form_is_told_with_what_the_file_looks_like(tmp_path: Path, name: str, form: Form) -> None:
    text, looks = NOT_OF_THE_FORM[name]
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(
        TaxonomyError, match=rf"not what --form {form} reads \(.*; it looks like {looks} \(.*"
    ):
        read_form(tmp_path / name, form)


def test_a_form_that_is_said_is_sought_under_another_suffix(tmp_path: Path) -> None:
    (tmp_path / "tree.dat").write_text("#NEXUS\nBEGIN TREES;\nTREE t = (a,b)c;\nEND;\n", encoding="utf-8")
    assert read_form(tmp_path / "tree.dat", "nexus").num_nodes == 3
    with pytest.raises(TaxonomyError, match=r"not what --form newick reads.*say what it holds"):
        read_form(tmp_path / "tree.dat", "newick")
    with zipfile.ZipFile(tmp_path / "notes.zip", "w") as archive:
        archive.writestr("notes.txt", "none")
    with pytest.raises(TaxonomyError, match=r"neither a meta.xml in it nor the tables of ColDP"):
        read_form(tmp_path / "notes.zip", "checklist")


def test_codes_in_json_are_read_with_settings(tmp_path: Path) -> None:
    path = tmp_path / "codes.json"
    path.write_text('{"A00": "Cholera", "A001": "Classical cholera"}', encoding="utf-8")
    assert paths(read_form(path, "codes")) == ["A00", "A00/A001"]
    described = read_form(path, "codes", levels="1,3,4", describe=True)
    assert paths(described)[-1] == "A/A00 Cholera/A001 Classical cholera"


LABEL_MAP = """# pets
item {
  name: "/m/1"
  id: 1
  display_name: "cat"
  keypoints { id: 7 label: "ear" }
}
item: { id: 2, name: 'Père David\\'s deer' }
"""


def test_label_maps_of_detectors(tmp_path: Path) -> None:
    pets = read(tmp_path, "pets.pbtxt", LABEL_MAP)
    assert set(paths(pets)) == {"cat", "Père David's deer"}
    assert pets.decode(pets.encode(["/m/1", "1", "2"])) == ["cat", "cat", "Père David's deer"]
    for text, said in (
        ("item { id: 1 }\n", "item 1 has neither a display_name nor a name"),
        ("item { name: 'cat'\n", "an item does not end"),
        ("item { name: 'cat' }\n", "item 1, 'cat', has no id"),
        ("id: 1\nname: 'cat\n", "line 2: .* is not text of a label map"),
        ("id: 1\n", "there is no item"),
    ):
        with pytest.raises(TaxonomyError, match=said):
            read(tmp_path, "broken.pbtxt", text)


MEANINGS = {
    "lines.txt": "A00 Cholera\nA00 Asiatic cholera\nA00.0 Classical\nA01 Typhoid\n",
    "table.csv": "code,description\nA00,Cholera\nA00,Asiatic cholera\nA00.0,Classical\nA01,Typhoid\n",
    "object.json": '{"A00": "Cholera", "A00": "Asiatic cholera", "A00.0": "Classical", "A01": "Typhoid"}',
}


@pytest.mark.parametrize("name", MEANINGS)
def test_a_code_that_occurs_twice_is_one_class(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    tree = read(tmp_path, name, MEANINGS[name])
    assert paths(tree) == ["A00", "A00/A00.0", "A01"]
    assert tree.decode(tree.encode(["Cholera", "Asiatic cholera"])) == ["A00", "A00"]
    assert "'A00' has several meanings" in caplog.text


CODED = {
    "ranges of icd9.txt": (
        "001-139 INFECTIOUS\n001-009 INTESTINAL\n001 Cholera\n001.0 Classical\nE800-E807 Rail\nE800 Train\n",
        [
            "001-139",
            "001-139/001-009",
            "001-139/001-009/001",
            "001-139/001-009/001/001.0",
            "E800-E807",
            "E800-E807/E800",
        ],
    ),
    "order of icd10cm.txt": (
        "".join(
            f"{number:05d} {code:<7} {valid} {text:<60} {text}\n"
            for number, code, valid, text in (
                (1, "A00", 0, "Cholera"),
                (2, "A000", 1, "Classical"),
                (3, "A001", 1, "El tor"),
            )
        ),
        ["A00", "A00/A000", "A00/A001"],
    ),
    "subjects.csv": (
        "code,text\n00-XX,General\n00Axx,Specific\n00A05,Maths\n",
        ["00-XX", "00-XX/00Axx", "00-XX/00Axx/00A05"],
    ),
    "subjects of mathematics.txt": (
        "00-XX General\n00-01 Introductory\n00Axx Specific\n00A05 In general\n01-XX History\n",
        ["00-XX", "00-XX/00-01", "00-XX/00Axx", "00-XX/00Axx/00A05", "01-XX"],
    ),
    "library classes.txt": (
        "Q Science\nQA Maths\nQA76 Computers\nR Medicine\n",
        ["Q", "Q/QA", "Q/QA/QA76", "R"],
    ),
    "subjects.txt": (
        "A General\nA1 More\nA10 Most\nB History\n",
        ["A", "A/A1", "A/A1/A10", "B"],
    ),
    "decimals.txt": (
        "500 Science\n510 Maths\n516 Geometry\n516.3 Curves\n",
        ["500", "500/510", "500/510/516", "500/510/516/516.3"],
    ),
    "products.csv": (
        "Code,Title\n10000000,Live\n10100000,Animals\n10101500,Livestock\n10101501,Cats\n",
        [
            "10000000",
            "10000000/10100000",
            "10000000/10100000/10101500",
            "10000000/10100000/10101500/10101501",
        ],
    ),
    "patents.txt": (
        "A Needs\nA01 Farming\nA01B Soil\nA01B 1/02 Spades\n",
        ["A", "A/A01", "A/A01/A01B", "A/A01/A01B/A01B 1\\/00", "A/A01/A01B/A01B 1\\/00/A01B 1\\/02"],
    ),
    "occupations.csv": (
        "ISCO 08 Code,Title EN\n1,Managers\n11,Chiefs\n0,Forces\n01,Officers\n",
        ["0", "0/01", "1", "1/11"],
    ),
    "drugs.csv": (
        "atc_code,atc_name,ddd\nA,Tract,NA\nA01,Mouth,NA\nA01A,Mouth,1\n",
        ["A", "A/A01", "A/A01/A01A"],
    ),
    "no header.csv": (
        "A00,Cholera\nA001,One\nB01,Pox\n",
        ["A00", "A00/A001", "B01"],
    ),
}


@pytest.mark.parametrize(("name", "case"), CODED.items(), ids=CODED)
def test_codes_of_many_schemes(tmp_path: Path, name: str, case: tuple[str, list[str]]) -> None:
    assert paths(read(tmp_path, name, case[0])) == case[1]


OTHERS = {
    "diagnoses.csv": (
        "dx,dx_name,group\nmel,melanoma,bad\nbcc,carcinoma,bad\nnv,nevus,good\ndf,dermatofibroma,good\nvasc,vessel,good\n",
        ["bad", "bad/carcinoma", "bad/melanoma", "good", "good/dermatofibroma", "good/nevus", "good/vessel"],
    ),
    "numbers names groups.csv": (
        '"0","dog","animal"\n"1","oak","plant"\n"2","cat","animal"\n"3","elm","plant"\n"4","cow","animal"\n',
        ["animal", "animal/cat", "animal/cow", "animal/dog", "plant", "plant/elm", "plant/oak"],
    ),
    "epithets.csv": (
        "genus,species\nParus,major\nParus,ater\n",
        ["Parus", "Parus/Parus ater", "Parus/Parus major"],
    ),
    "stars.txt": ("* tool\n** saw\n*** bow saw\n* toy\n** kite\n", PLACES),
    "dashes.txt": ("tool\n-saw\n--bow saw\ntoy\n-kite\n", PLACES),
    "arrows between two.txt": (
        '"tool" -> "saw"\n"saw" -> "bow saw"\n"tool" -> "axe"\n',
        ["axe", "saw", "saw/bow saw"],
    ),
    "pairs.csv": ("saw,tool\nbow saw,saw\naxe,tool\n", ["axe", "saw", "saw/bow saw"]),
    "pairs below a header.tsv": (
        "which\twhere\nsaw\ttool\nbow saw\tsaw\naxe\ttool\n",
        ["axe", "saw", "saw/bow saw"],
    ),
    "gaps.csv": (
        "top,low\ntool,saw\ntool,\ntoy,kite\ntoy,tool\n",
        ["tool", "tool/saw", "toy", "toy/kite", "toy/tool"],
    ),
    "parents.csv": ("ClassId,Name,ParentClassId\n1,tool,\n2,saw,1\n3,bow saw,2\n4,toy,\n5,kite,4\n", PLACES),
    "persons.csv": (
        "id,name,supercategory\n1,person,person\n2,car,vehicle\n3,bus,vehicle\n4,cat,animal\n5,dog,animal\n",
        [
            "person",
            "person/person",
            "vehicle",
            "vehicle/car",
            "vehicle/bus",
            "animal",
            "animal/cat",
            "animal/dog",
        ],
    ),
    "occupations.csv": (
        "SOC Code,SOC Title\n11-0000,Chiefs\n11-1000,Top\n11-1010,Heads\n11-1011,Chief\n13-0000,Clerks\n",
        [
            "11-0000",
            "11-0000/11-1000",
            "11-0000/11-1000/11-1010",
            "11-0000/11-1000/11-1010/11-1011",
            "13-0000",
        ],
    ),
    "branches.txt": (
        "01 Crops\n01.1 Annual\n01.11 Cereals\n02 Wood\n",
        ["01", "01/01.1", "01/01.1/01.11", "02"],
    ),
    "goods.csv": (
        "UNSPSC,Commodity\n10000000,Live\n10100000,Animals\n10101500,Stock\n",
        ["10000000", "10000000/10100000", "10000000/10100000/10101500"],
    ),
    "dictionary.txt": (
        "{0: 'tench, Tinca tinca',\n 1: \"mayor's\",\n 2: 'crane'}\n",
        ["crane", "mayor's", "tench, Tinca tinca"],
    ),
    "tilde.txt": ("tool~saw\ntool~saw~bow saw\ntoy~kite\ntool\ntoy\n", PLACES),
    "dots.txt": ("tool\ntool.saw\ntool.saw.bow saw\ntoy\ntoy.kite\n", PLACES),
    "dots.csv": ("id,value\ntool,\ntool.saw,\ntool.saw.bow saw,3\ntoy,\ntoy.kite,4\n", PLACES),
    "missing.csv": ("top,middle,low\ntool,saw,bow saw\ntool,saw,NA\ntoy,kite,NA\ntoy,NA,NA\n", PLACES),
    "records.jsonl": (
        "".join(
            f'{{"id": "{name}", "parent": {json.dumps(parent)}}}\n'
            for name, parent in (
                ("tool", None),
                ("saw", "tool"),
                ("bow saw", "saw"),
                ("toy", None),
                ("kite", "toy"),
            )
        ),
        PLACES,
    ),
    "mids.csv": ("LabelName,DisplayName\n/m/0a1,Saw\n/m/0b2,Axe\n/m/0c3,Kite\n", ["Axe", "Kite", "Saw"]),
    "mids without a header.csv": ("/m/0a1,Saw\n/m/0b2,Axe\n/m/0c3,Kite\n", ["Axe", "Kite", "Saw"]),
    "orders.csv": (
        "TAXON_ORDER,SPECIES_CODE,SCI_NAME,ORDER1,FAMILY\n1,a1,Parus major,Passeriformes,Paridae\n",
        ["Passeriformes", "Passeriformes/Paridae", "Passeriformes/Paridae/Parus major"],
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_files_of_many_makers(tmp_path: Path, name: str) -> None:
    text, expected = OTHERS[name]
    assert sorted(path.removeprefix("/") for path in paths(read(tmp_path, name, text))) == sorted(expected)


def test_a_bad_name_of_a_root_and_a_column_without_codes_are_told(tmp_path: Path) -> None:
    with pytest.raises(TaxonomyError, match="a root has the name"):
        read(tmp_path, "edges.tsv", "node\tparent\ncat\tan\x01imal\noak\tplant\n")
    assert read(tmp_path, "empty.csv", "code,title\n,saw\n,axe\n").num_nodes == 3


def test_several_parents_in_a_cell(tmp_path: Path) -> None:
    text = "id\tlabel\tparents\nG:1\ttool\t\nG:2\tsaw\tG:1\nG:3\ttoy\tG:1\nG:4\tboth\tG:2|G:3\n"
    dag = read(tmp_path, "terms.tsv", text)
    assert {dag.names[node] for node in dag.parents(dag.find("both"))} == {"saw", "toy"}


def test_json_under_another_suffix_is_told(tmp_path: Path) -> None:
    for text in ('{"tool": ["saw"]}', '[["tool", "saw"]]', '{"id": 1}\n{"id": 2}\n'):
        with pytest.raises(TaxonomyError, match=r"it holds JSON: name it \.json"):
            read(tmp_path, "names.txt", text)
    assert read(tmp_path, "names.txt", "[a]\n[b]\n").num_nodes == 3


def test_finest_names_of_two_letters_may_be_names(tmp_path: Path) -> None:
    codes = "country,code\nNamibia,NA\nItaly,IT\n"
    assert "Namibia/NA" in paths(read(tmp_path, "countries.csv", codes))


def test_epithets_follow_the_genus_and_synonyms_are_names(tmp_path: Path) -> None:
    text = (
        "AphiaID,ScientificName,AphiaID_accepted,Family,Genus,Species\n"
        "1,Parus major,1,Paridae,Parus,major\n2,Parus fringillago,1,Paridae,Parus,fringillago\n"
    )
    taxa = read(tmp_path, "taxa.csv", text)
    assert paths(taxa) == ["Paridae", "Paridae/Parus", "Paridae/Parus/Parus major"]
    assert taxa.decode(taxa.encode(["Parus fringillago", "2"])) == ["Paridae/Parus/Parus major"] * 2


def test_synonyms_of_categories_are_names(tmp_path: Path) -> None:
    text = '{"categories": [{"id": 1, "name": "can", "synonyms": ["can", "tin"]}, {"id": 2, "name": "pot"}]}'
    kitchen = read(tmp_path, "lvis.json", text)
    assert kitchen.decode(kitchen.encode(["tin"])) == ["can"]


def test_numbers_with_gaps_are_no_codes(tmp_path: Path) -> None:
    assert paths(read(tmp_path, "gaps.txt", "0 Birds\n1 Ducks\n10 Grebes\n12 Swans\n100 Geese\n")) == [
        "Birds",
        "Ducks",
        "Geese",
        "Grebes",
        "Swans",
    ]
    read(tmp_path, "scenes.txt", "/a/airfield 0\n/a/cabin 1\n/b/bakery/shop 31\n/b/barn 40\n")
    scenes = read_form(tmp_path / "scenes.txt", "class-index")
    assert "b/bakery/shop" in paths(scenes)
    assert scenes.decode(scenes.encode(["31"])) == ["b/bakery/shop"]
    assert paths(read(tmp_path, "only.yaml", "names:\n  0: crane\n  1: tench\n")) == ["crane", "tench"]


OUTLINES = {
    "boxes.txt": "- [x] tool\n  - [ ] saw\n    - [x] bow saw\n- [ ] toy\n  - [ ] kite\n",
    "headings.md": "# tool\n\n## **saw**\n\n- [bow saw](bow.md)\n\n# toy\n\n- kite\n",
    "dashes.txt": "things\n-- tool\n---- saw\n------ bow saw\n-- toy\n\n---- kite\n",
    "headings.txt": "# tool\n## saw\n### bow saw\n# toy\n## kite\n",
    "lists.json": '[["tool", "saw", "bow saw"], ["toy", "kite"]]',
    "texts.json": '["tool/saw/bow saw", "tool/saw", "toy/kite"]',
    "crumbs.yaml": "- tool > saw > bow saw\n- tool > saw\n- toy > kite\n",
}


@pytest.mark.parametrize(("name", "text"), OUTLINES.items(), ids=OUTLINES)
def test_outlines_and_lists_of_paths(
    tmp_path: Path, name: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert paths(read(tmp_path, name, text)) == PLACES
    assert "labeltree: " in caplog.text


def test_lists_of_names_stay_lists(tmp_path: Path) -> None:
    assert read(tmp_path, "names.json", '["AC/DC", "TCP/IP", "other"]').num_nodes == 4
    assert paths(read(tmp_path, "few.txt", "cat\ndog\nman/woman\ntable\n")) == [
        "cat",
        "dog",
        r"man\/woman",
        "table",
    ]


def test_taxa_as_sequencing_programs_write_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = "Feature ID\tTaxon\tConfidence\n"
    table += "a1\tk__Bacteria; p__Firmicutes; c__; s__\t0.9\na2\tk__Bacteria; p__Actino; c__A\t0.8\n"
    for name, text in (
        ("taxonomy.tsv", table),
        ("profile.txt", "k__Bacteria\nk__Bacteria|p__Firmicutes\nk__Bacteria|p__Actino|c__A\n"),
        ("taxonomy.csv", "id,Taxon\na1,k__Bacteria;p__Firmicutes\na2,k__Bacteria;p__Actino;c__A\n"),
    ):
        tree = read(tmp_path, name, text)
        assert paths(tree) == [
            "k__Bacteria",
            "k__Bacteria/p__Actino",
            "k__Bacteria/p__Actino/c__A",
            "k__Bacteria/p__Firmicutes",
        ], name
        assert tree.encode(["Firmicutes"]) == tree.encode(["p__Firmicutes"])
    silva = "Bacteria;\t3\tdomain\t\t\nBacteria;Proteobacteria;\t4\tphylum\t\t\n"
    tree = read(tmp_path, "silva.txt", silva)
    assert paths(tree) == ["Bacteria", "Bacteria/Proteobacteria"]
    assert tree.decode(tree.encode(["4"])) == ["Bacteria/Proteobacteria"]
    report = "  5.00\t5\t5\tU\t0\tunclassified\n 95.00\t95\t1\tR\t1\troot\n"
    report += " 90.00\t90\t5\tD\t2\t  Bacteria\n 10.00\t10\t5\tD\t2157\t  Archaea\n"
    tree = read(tmp_path, "sample.kreport", report)
    assert [tree.names[0], *paths(tree)] == ["root", "Archaea", "Bacteria"]
    assert tree.decode(tree.encode(["2157"])) == ["Archaea"]


def test_codes_in_workbooks(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["Code", "Name"], ["A", "One"], ["A1", "Two"], ["B", "Three"]):
        book.active.append(row)
    book.save(tmp_path / "codes.xlsx")
    tree = read_form(tmp_path / "codes.xlsx", "codes", levels="1,2", describe=True)
    assert paths(tree) == ["A One", "A One/A1 Two", "B Three"]


@pytest.mark.parametrize("name", ["isic.txt", "nace.csv"])
def test_divisions_are_below_the_letter_above_them(tmp_path: Path, name: str) -> None:
    rows = ["A Farming", "01 Crops", "011 Cereals", "02 Forestry", "B Mining", "05 Coal", "051 Hard coal"]
    table = ["Code,Description", *(row.replace(" ", ",", 1) for row in rows)]
    path = tmp_path / name
    path.write_text("\n".join(table if name.endswith("csv") else rows) + "\n", encoding="utf-8")
    tree = Taxonomy.from_file(path)
    assert {tree.path_name(leaf) for leaf in tree.leaves.tolist()} == {"A/01/011", "A/02", "B/05/051"}
    assert read_form(path, "codes") == tree
    path = tmp_path / "digits_first.txt"  # nothing tells
    path.write_text("\n".join(sorted(rows)) + "\n", encoding="utf-8")
    flat = Taxonomy.from_file(path)
    assert {flat.path_name(leaf) for leaf in flat.leaves.tolist()} == {"A", "B", "01/011", "02", "05/051"}
