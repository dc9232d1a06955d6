"""Tables as they are downloaded: their columns are read, or an error gives the setting that reads them."""

import pytest
from PIL import Image

from labeltree.cli.main import main
from labeltree.data import open_source
from labeltree.errors import DataError
from labeltree.training.read_recipes import RecipeParser


def write(path, head, rows):
    path.write_text("\n".join([head, *(",".join(map(str, row)) for row in rows), ""]))
    return path


def images(folder, names):
    folder.mkdir(exist_ok=True)
    for name in names:
        Image.new("RGB", (8, 8)).save(folder / name)


def labels(source):
    names = source.taxonomy
    return [names.path_name(node) if node > 0 else None for node in source.nodes.tolist()]


def test_a_label_called_class_beside_cls(tmp_path):
    head = "kingdom,cls,order,family,genus,species,common_name,filepath,class"
    rows = [
        (
            "Animalia",
            "Aves",
            "Passeriformes",
            "Paridae",
            "Parus",
            "major",
            "great tit",
            "1.jpg",
            "Parus major",
        ),
        (
            "Animalia",
            "Aves",
            "Passeriformes",
            "Paridae",
            "Parus",
            "minor",
            "grey tit",
            "2.jpg",
            "Parus minor",
        ),
        ("Animalia", "Aves", "Strigiformes", "Strigidae", "Bubo", "bubo", "eagle-owl", "3.jpg", "Bubo bubo"),
        (
            "Animalia",
            "Bivalvia",
            "Unionida",
            "Unionidae",
            "Unio",
            "crassus",
            "mussel",
            "4.jpg",
            "Unio crassus",
        ),
    ]
    images(tmp_path, [row[-2] for row in rows])
    for times in (1, 5):
        source = open_source(write(tmp_path / "t.csv", head, rows * times))
        assert labels(source)[0] == "Aves/Passeriformes/Paridae/Parus/Parus major"
        assert "'common_name' holds everyday names, and no level" in source.notes
        assert any("'class' the finest label, in place of 'species'" in note for note in source.notes)
    numbers = [(*row[:-1], number % 2) for number, row in enumerate(rows)]
    source = open_source(
        write(tmp_path / "t.csv", head.replace("class", "x").replace("cls", "class"), numbers)
    )
    assert labels(source)[0].startswith("Aves/Passeriformes/Paridae/Parus/")


def test_numbers_called_cls_are_no_rank(tmp_path):
    rows = [("t", number % 2, "Paridae", f"G{number % 2}", f"s{number % 4}") for number in range(8)]
    source = open_source(write(tmp_path / "t.csv", "text,cls,family,genus,species", rows))
    assert "0" in source.taxonomy.names


def test_names_of_files_without_an_ending(tmp_path):
    rows = [
        (f"HAM_{number // 2}", f"ISIC_{number}", ["nv", "mel"][number % 2], 40, "back") for number in range(4)
    ]
    path = write(tmp_path / "t.csv", "lesion_id,image_id,dx,age,localization", rows)
    with pytest.raises(DataError, match=r"--table\.image_name '\{image_id\}\.jpg'"):
        open_source(path)
    images(tmp_path / "im", [f"ISIC_{number}.jpg" for number in range(4)])
    place = {"image_folder": tmp_path / "im", "image_name": "{image_id}.jpg"}
    with pytest.raises(DataError, match=r"if 'dx' is the label, set --table.label_columns '\[\"dx\"\]'"):
        open_source(path, **place)
    source = open_source(path, **place, label_columns=["dx"], group_column="lesion_id")
    assert labels(source) == ["nv", "mel"] * 2
    path = write(tmp_path / "im" / "u.csv", "image,label", [(f"ISIC_{number}", "x") for number in range(4)])
    with pytest.raises(DataError, match=r"have no ending; .* --table\.image_name '\{image\}\.jpg'"):
        open_source(path)


def test_a_class_in_each_column(tmp_path):
    rows = [(f"{number}.jpg", *(float(number % 3 == place) for place in range(3))) for number in range(6)]
    images(tmp_path, [row[0] for row in rows])
    path = write(tmp_path / "t.csv", "image,MEL,NV,UNK", rows)
    with pytest.raises(DataError, match=r"are 0 or 1: if each is a class, .*'\[\"MEL\", \"NV\", \"UNK\"\]'"):
        open_source(path)
    source = open_source(path, label_columns=["MEL", "NV", "UNK"])
    assert labels(source) == ["MEL", "NV", "UNK"] * 2
    rows = [("0.jpg", "1.jpg", 1, 0), ("2.jpg", "3.jpg", 1, 1), ("4.jpg", "5.jpg", 0, 0)]
    path = write(tmp_path / "t.csv", "Left-Fundus,Right-Fundus,N,D", rows)
    with pytest.raises(DataError, match=r"--table\.image_column '\[\"Left-Fundus\", \"Right-Fundus\"\]'"):
        open_source(path)
    source = open_source(path, image_column=["Left-Fundus", "Right-Fundus"], label_columns=["N", "D"])
    assert labels(source) == ["N", "N", None, None, None, None]
    assert (source.label_sets >= 0).sum(1).tolist() == [1, 1, 2, 2, 0, 0]


def test_paths_that_hold_the_labels(tmp_path):
    rows = [(f"benign/adenosis/{number}.png", 1) for number in range(4)]
    path = write(tmp_path / "t.csv", "filename,fold", rows)
    with pytest.raises(
        DataError, match="if the folders in 'filename' are the labels, give that folder itself"
    ):
        open_source(path)


def test_a_constant_category_beside_names_of_species(tmp_path):
    rows = [(number, "species", ["Parus major", "Turdus merula"][number % 2], "seen") for number in range(4)]
    path = write(tmp_path / "t.csv", "id,CATEGORY,SCIENTIFIC NAME,text", rows)
    assert labels(open_source(path)) == ["Parus major", "Turdus merula"] * 2
    path = write(
        tmp_path / "t.csv", "ML Catalog Number,Scientific Name", [(1, "Parus major"), (2, "Parus minor")]
    )
    with pytest.raises(DataError, match=r"--table\.image_name '\{ML Catalog Number\}\.jpg'"):
        open_source(path)


def test_a_column_needs_no_brackets_on_the_command_line(tmp_path):
    parser = RecipeParser("supcon")
    for arguments in (
        ["--table.label_columns", "dx"],
        ["--table.label_columns=dx"],
        ["--table.label_columns", "[dx]"],
    ):
        assert parser.recipe(["--data", "x", *arguments]).table.label_columns == ["dx"]
    assert parser.recipe(["--data", "x", "--table.keep_columns", "null"]).table.keep_columns is None


def test_show_takes_levels_and_check_says_how_the_table_was_read(tmp_path, capsys):
    rows = [("t", "bird", "owl"), ("u", "bird", "duck"), ("v", "fish", "eel")]
    path = write(tmp_path / "t.csv", "text,a,b", rows)
    main(["taxonomy", "show", str(path), "--column", "a", "--column", "b"])
    assert "owl" in capsys.readouterr().out
    path.write_bytes("text,label\na,Käfer\nb,Vogel\n".encode("cp1252"))
    main(["taxonomy", "check", str(path)])
    assert "--table.encoding" in capsys.readouterr().err
