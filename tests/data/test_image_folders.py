"""Nested folders: labels at any depth, splits, broken files, odd names, links."""

import logging
import os
import unicodedata

import numpy as np
import pytest
import torch
from PIL import Image

from labeltree.data import open_source
from labeltree.data.streaming import stream_samples
from labeltree.errors import DataError, TaxonomyError
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow


@pytest.fixture
def photos(tmp_path, write_image):
    """Six images: three in leaves of depth 2, one of depth 1, one at an inner node, one without a label."""
    root = tmp_path / "photos"
    for seed, name in enumerate(
        ["animal/dog/b.png", "animal/dog/a.PNG", "animal/cat/c.png", "animal/d.png", "plant/e.png", "f.png"]
    ):
        write_image(root / name, seed)
    (root / "animal" / "notes.txt").write_text("no image")
    write_image(root / ".trash" / "g.png")
    write_image(root / "plant" / "._e.png")
    return root


def labels(source):
    return dict(
        zip(map(os.path.basename, source.paths(range(len(source)))), source.nodes.tolist(), strict=True)
    )


def test_folders_are_the_taxonomy(photos):
    source = open_source(str(photos))
    assert source.taxonomy == Taxonomy.from_folders(photos)
    named = {name: source.taxonomy.decode([node])[0] for name, node in labels(source).items()}
    assert named == {
        "f.png": None,
        "d.png": "animal",
        "a.PNG": "animal/dog",
        "b.png": "animal/dog",
        "c.png": "animal/cat",
        "e.png": "plant",
    }
    assert source.instances.tolist() == list(range(6))
    assert source.split is None
    assert source.image_shape == (3, 8, 8)


def test_accents_composed_and_decomposed_meet(tmp_path, write_image):
    composed, decomposed = (unicodedata.normalize(form, "Bär") for form in ("NFC", "NFD"))
    for seed, name in enumerate([f"train/{decomposed}/a.png", "train/tit/b.png", f"test/{composed}/c.png"]):
        write_image(tmp_path / name, seed)
    write_image(tmp_path / "test" / "tit" / "d.png")
    source = open_source(tmp_path)
    assert sorted(source.taxonomy.names[1:]) == sorted([composed, "tit"])
    assert any("written in two ways that look the same" in note for note in source.notes)
    given = open_source(tmp_path / "train", taxonomy=Taxonomy.from_paths([composed, "tit"]))
    assert labels(given) == {"a.png": 1, "b.png": 2}
    assert any("composed otherwise than in the taxonomy" in note for note in given.notes)


def test_files_left_out_are_counted_by_extension(photos, caplog):
    with caplog.at_level(logging.WARNING, "labeltree.data"):
        assert open_source(photos).notes == ("1 file was left out because of the extension: .txt (1)",)
        assert not caplog.records, "nobody misses a text"
        for name in ("x.TGA", "README", "notes.txt"):
            (photos / "plant" / name).touch()
        (note,) = open_source(photos).notes
        assert note == "4 files were left out because of the extension: .tga (1), .txt (2), none (1)"
        assert [note in record.getMessage() for record in caplog.records] == [True]
        caplog.clear()
        assert len([*stream_samples(photos)]) == 6
        assert note in caplog.text


def test_pixels_are_those_of_the_files(photos):
    source = open_source(photos)
    order = torch.tensor([4, 0, 4])
    expected = [np.asarray(Image.open(path)).transpose(2, 0, 1) for path in source.paths(order)]
    for cache in (True, False):
        found = open_source(photos, cache=cache).load(order)
        assert found.dtype == torch.uint8
        assert np.array_equal(found.numpy(), np.stack(expected))


def test_size_and_channels_are_found_or_chosen(photos, write_image):
    assert open_source(photos, image_size=5, channels=1).image_shape == (1, 5, 5)
    write_image(photos / "plant" / "wide.png", size=(20, 8))
    assert open_source(photos).image_shape == (3, 32, 32)
    for path in photos.rglob("*.png"):
        write_image(path, mode="L", size=(9, 9))
    write_image(photos / "animal/dog/a.PNG", mode="L", size=(9, 9))
    assert open_source(photos).image_shape == (1, 9, 9)


def break_images(photos):
    (photos / "animal/dog/empty.png").touch()
    (photos / "plant/text.jpg").write_text("this is not an image")
    whole = (photos / "plant/e.png").read_bytes()
    (photos / "plant/half.png").write_bytes(whole[: len(whole) // 2])


@pytest.mark.parametrize("cache", [True, False])
def test_broken_images_are_named_once_or_skipped(photos, cache, caplog):
    whole = open_source(photos, cache=cache)
    break_images(photos)
    with pytest.raises(DataError, match="3 of 9 images cannot be read") as caught:
        open_source(photos, cache=cache)
    for part in ("empty.png' (the file is empty)", "text.jpg' (it is not an image", "half.png' (", "skip"):
        assert part in str(caught.value)
    with caplog.at_level(logging.WARNING, "labeltree.data"):
        source = open_source(photos, on_error="skip", cache=cache)
    assert len(caplog.records) == 1
    assert "empty.png" in caplog.text
    assert any(note.startswith("3 of 9 images cannot be read: 'animal/") for note in source.notes)
    assert labels(source) == labels(whole)
    assert torch.equal(source.load(range(6)), whole.load(range(6)))
    # Ids are places in the whole folder: what is skipped leaves a gap and moves nobody.
    assert source.instances.tolist() == [0, 1, 2, 3, 4, 6]


def test_skipping_is_decided_when_opening(photos):
    break_images(photos)
    first = open_source(photos, on_error="skip", cache=False)
    victim = first.paths([3])[0]
    with open(victim, "wb"):
        pass
    with pytest.raises(DataError, match=r"cannot be read any more: the file is empty") as caught:
        first.load([2, 3])
    assert victim in str(caught.value)


def test_nothing_readable_is_an_error_even_when_skipping(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.png").touch()
    with pytest.raises(DataError, match="1 of 1 images cannot be read"):
        open_source(tmp_path, on_error="skip")


def test_decoded_images_are_kept_until_a_file_changes(photos, cache_folder, write_image):
    open_source(photos, cache=True)
    (kept,) = (cache_folder / "images").iterdir()
    before = (kept / "images.bin").stat()
    assert before.st_size == 6 * 3 * 8 * 8
    source = open_source(photos, cache=True)
    assert (kept / "images.bin").stat().st_mtime_ns == before.st_mtime_ns
    assert [kept] == list((cache_folder / "images").iterdir())
    changed = photos / "plant/e.png"
    write_image(changed, seed=99)
    os.utime(changed, ns=(1, 1))
    again = open_source(photos, cache=True)
    assert len(list((cache_folder / "images").iterdir())) == 2
    differs = (again.load(range(6)) != source.load(range(6))).flatten(1).any(1)
    assert [again.paths([i])[0] for i in differs.nonzero()[:, 0]] == [str(changed)]


def test_a_cut_cache_is_made_again(photos, cache_folder):
    images = open_source(photos, cache=True).load(range(6))
    (kept,) = (cache_folder / "images").iterdir()
    os.truncate(kept / "images.bin", 100)
    assert torch.equal(open_source(photos, cache=True).load(range(6)), images)


def test_an_interrupted_decoding_leaves_nothing(photos, cache_folder):
    def interrupt(message, done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_source(photos, progress=interrupt)
    assert list((cache_folder / "images").iterdir()) == []
    assert len(open_source(photos)) == 6


def test_folders_called_train_and_test_are_the_split(photos, tmp_path):
    os.mkdir(tmp_path / "set")
    os.remove(photos / "f.png")
    os.rename(photos, tmp_path / "set" / "train")
    source_path = tmp_path / "set"
    (source_path / "Validation" / "plant").mkdir(parents=True)
    os.rename(source_path / "train/plant/e.png", source_path / "Validation/plant/e.png")
    source = open_source(source_path)
    assert source.taxonomy.names[1:] == ["animal", "cat", "dog", "plant"]
    assert source.split.tolist() == ["val", "train", "train", "train", "train"]
    assert source.taxonomy.decode(source.nodes)[0] == "plant"


def test_a_given_taxonomy_is_looked_up_by_path_or_by_name(tmp_path, write_image):
    taxonomy = Taxonomy.from_paths(["animal/dog", "animal/cat", "plant/cat", "plant/rose"])
    write_image(tmp_path / "flat" / "dog" / "a.png")
    write_image(tmp_path / "flat" / "rose" / "a.png")
    flat = open_source(tmp_path / "flat", taxonomy=taxonomy)
    assert flat.taxonomy.decode(flat.nodes) == ["animal/dog", "plant/rose"]
    write_image(tmp_path / "nested" / "plant" / "cat" / "a.png")
    nested = open_source(tmp_path / "nested", taxonomy=taxonomy)
    assert nested.taxonomy.decode(nested.nodes) == ["plant/cat"]
    write_image(tmp_path / "flat" / "cat" / "a.png")
    with pytest.raises(TaxonomyError, match=r"flat/cat.*ambiguous"):
        open_source(tmp_path / "flat", taxonomy=taxonomy)
    write_image(tmp_path / "other" / "tulip" / "a.png")
    with pytest.raises(TaxonomyError, match=r"other/tulip.*not in the taxonomy"):
        open_source(tmp_path / "other", taxonomy=taxonomy)


def test_names_that_are_not_utf8(tmp_path, write_image):
    folder = os.path.join(os.fsencode(tmp_path), b"caf\xe9")
    try:
        os.mkdir(folder)
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    image = write_image(tmp_path / "x.png")
    os.rename(image, os.path.join(folder, b"\xff.png"))
    (tmp_path / "tea").mkdir()
    write_image(tmp_path / "tea" / "y.png")
    source = open_source(tmp_path)
    source.taxonomy.save(tmp_path / "taxonomy.json")
    assert [source.taxonomy.names[node] for node in source.nodes] == ["caf\\xe9", "tea"]
    "".join(source.paths([0, 1])).encode("utf-8")  # printable
    assert source.load([0]).shape == (1, 3, 8, 8)
    with open(os.path.join(folder, b"\xff.png"), "wb"):
        pass
    with pytest.raises(DataError, match=r"xff.png' \(the file is empty\)") as caught:
        open_source(tmp_path)
    str(caught.value).encode("utf-8")


def test_links_to_folders_are_followed_and_loops_are_not(photos, tmp_path, write_image):
    write_image(tmp_path / "elsewhere" / "x.png")
    os.symlink(tmp_path / "elsewhere", photos / "linked")
    assert "linked" in open_source(photos).taxonomy.names
    os.symlink(photos / "animal", photos / "animal" / "dog" / "again")
    with pytest.raises(DataError, match=r"again' leads back to a folder above it"):
        open_source(photos)


def test_a_cache_folder_that_cannot_be(photos, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("LABELTREE_DATA", str(tmp_path / "file"))
    with pytest.raises(DataError, match="choose another cache folder with LABELTREE_DATA"):
        open_source(photos)


@pytest.mark.parametrize(("make", "sentence"), [("", "has no images"), ("x.png", "folders are the labels")])
def test_folders_without_images_or_labels(tmp_path, write_image, make, sentence):
    root = tmp_path / "set"
    root.mkdir()
    if make:
        write_image(root / make)
    with pytest.raises(DataError, match=sentence):
        open_source(root)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("fashion-minst", "did you mean 'fashion-mnist'"),
        (f"{__file__[:-3]}.pyx", "nor a data set; did you mean '.*test_image_folders.py'"),
        ("no/such/folder", "neither a folder, nor a table, nor shards, nor a data set"),
        (__file__, "is neither a folder nor a table .*; name a folder or a table"),
    ],
)
def test_what_is_not_there(spec, sentence):
    with pytest.raises(DataError, match=sentence):
        open_source(spec)


@pytest.mark.parametrize("wrong", [{"on_error": "ignore"}, {"channels": 2}, {"image_size": 0}])
def test_arguments_are_checked(photos, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        open_source(photos, **wrong)


def test_how_far_large_images_are_reduced_is_said(tmp_path):
    """Nobody who trains on photographs would guess that they become thumbnails."""
    for number, size in enumerate([(60, 50), (640, 480), (640, 480), (700, 500), (20, 20)]):
        place = tmp_path / "photos" / "ab"[number % 2] / f"{number}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", size).save(place)
    (note,) = open_source(tmp_path / "photos").notes
    assert note.startswith("images of 640 × 480 pixels (the median) are reduced to 64 × 64; --image-size")
    assert not open_source(tmp_path / "photos", image_size=32).notes
    for number in (1, 2, 3):
        next((tmp_path / "photos").glob(f"*/{number}.png")).unlink()
    (note,) = open_source(tmp_path / "photos").notes  # 40 × 35 is not much larger
    assert note == "1 folder holds no image and is not a class: 'b'"
