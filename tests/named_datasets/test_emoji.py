"""The emoji from a miniature of their packages: fetched, drawn, opened."""

import io
import json
import os
import runpy
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from official_layouts import check, check_refuses_what_is_missing
from PIL import Image

from labeltree.data import data_home, fetch, list_datasets, make_splits, open_source
from labeltree.datasets.fetching.atomic_download import Expected, sha256
from labeltree.datasets.fetching.packages import tarball_name
from labeltree.errors import DataError
from labeltree.studies.named_data import emoji_drawings
from labeltree.studies.named_data.emoji_drawings import read_images
from labeltree.studies.named_data.emoji_icons import NAMES_PACKAGE, STYLES

pytestmark = pytest.mark.slow

# Label, code points, group, subgroup; the last two are left out.
EMOJI = [
    ("grinning face", "1F600", 0, 0),
    ("red heart", "2764-FE0F", 0, 1),
    ("person running", "1F3C3", 1, 2),
    ("woman running", "1F3C3-200D-2640-FE0F", 1, 2),
    ("woman’s hat", "1F452", 1, 3),
    ("red hair", "1F9B0", 2, 4),
    ("chequered flag", "1F3C1", 3, 5),
]
DRAWN = 5
GROUPS = {"0": "smileys-emotion", "1": "people-body", "2": "component", "3": "flags"}
SUBGROUPS = ["face-smiling", "heart", "person-sport", "clothing", "hair-style", "flag"]
COLOURS = {
    "1F600": "#fc0",
    "2764-FE0F": "red",
    "1F3C3": "#08f",
    "1F3C3-200D-2640-FE0F": "#0c4",
    "1F452": "#640",
}


def body(hexcode, style):
    return f'<rect x="{STYLES.index(style)}" y="4" width="8" height="10" fill="{COLOURS[hexcode]}"/>'


def names_members():
    data = [{"label": "regional indicator A", "hexcode": "1F1E6"}]
    data += [
        {"label": label, "hexcode": code, "order": n, "group": group, "subgroup": subgroup}
        for n, (label, code, group, subgroup) in enumerate(EMOJI)
    ]
    messages = {"groups": [{"key": key, "message": key.replace("-", " & ")} for key in GROUPS.values()]}
    return {
        "en/data.json": data,
        "meta/groups.json": {"groups": GROUPS, "subgroups": {str(i): s for i, s in enumerate(SUBGROUPS)}},
        "en/messages.json": messages,
        "meta/unicode-names.json": {"2764-FE0F": "heavy black heart"},
        "en/shortcodes/joypixels.json": {"1F600": ["grinning", "gleam"], "1F3C3": "runner"},
    }


def style_members(style):
    if style.raster:
        members = {}
        for _, code, *_ in EMOJI[:DRAWN]:
            file = io.BytesIO()
            Image.new("RGBA", (96, 128), (200, 0, 0, 255)).save(file, "WEBP", lossless=True)
            members[f"assets/{code.lower()}.webp"] = file.getvalue()
        return members
    icons, chars = {}, {}
    for label, code, *_ in EMOJI[:DRAWN]:
        name = label.replace("’", "").replace(" ", "-")
        if style.name == "fxemoji":
            name = {"1F600": "grineyes", "2764-FE0F": "heavyblackheart"}.get(code, name)
        icons[name] = {"body": body(code, style)}
        chars[code.lower()] = name
    if style.name in ("noto-v1", "fxemoji", "emojione"):
        chars = {}  # then names have to do
    return {"icons.json": {"icons": icons, "width": 20, "height": 20}, "chars.json": chars}


def write_tarball(path, members):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


class Miniature:
    """Packages in the folder where a download leaves them, and what they must be."""

    def __init__(self, monkeypatch):
        self.patch = monkeypatch
        self.work = data_home() / "emoji" / ".download"
        self.members = {NAMES_PACKAGE: names_members()}
        self.members |= {(style.package, style.version): style_members(style) for style in STYLES}

    def icons(self, style):
        return next(self.members[s.package, s.version] for s in STYLES if s.name == style)["icons.json"][
            "icons"
        ]

    def write(self):
        self.work.mkdir(parents=True, exist_ok=True)
        expected, paths = {}, {}
        for (package, version), members in self.members.items():
            path = paths[package] = self.work / tarball_name(package, version)
            write_tarball(path, members)
            expected[package, version] = Expected(path.stat().st_size, sha256(path))
        self.patch.setattr(emoji_drawings, "PACKAGES", expected)
        self.patch.setattr(emoji_drawings, "PLAN", emoji_drawings.make_plan(paths).digest)
        return self


@pytest.fixture
def miniature(monkeypatch):
    monkeypatch.setenv("PATH", "")  # nothing is downloaded in a test
    return Miniature(monkeypatch)


def test_from_packages_to_samples(miniature):
    miniature.write()
    folder = fetch("emoji")
    assert sorted(os.listdir(folder)) == ["images.bin", "index.json"]
    source = open_source("emoji")
    assert len(source) == DRAWN * len(STYLES)
    assert source.image_shape == (3, 64, 64)
    hat = source.taxonomy.encode(["people & body/clothing/woman’s hat"])
    assert int((source.nodes == hat).sum()) == len(STYLES)
    assert [source.taxonomy.names[n] for n in source.taxonomy.children(0)] == [
        "smileys & emotion",
        "people & body",
    ]
    assert "face smiling" in source.taxonomy.names
    assert source.paths([0, 1]) == ["noto/1f600 grinning face", "noto/2764 red heart"]
    # A white ground, the drawing where it belongs: at 20 units for 64 pixels.
    image = source.load([0])[0]
    assert image[:, 0, 0].tolist() == [255, 255, 255]
    assert image[:, 30, 15].tolist() == [0xFF, 0xCC, 0]
    raster = source.load([source.paths(range(len(source))).index("fluent-emoji-3d/1f600 grinning face")])[0]
    assert raster[:, 32, 2].tolist() == [255, 255, 255]  # beside a drawing that is higher than wide
    assert raster[0, 32, 32] == 200
    assert open_source("emoji", image_size=32, channels=1).load([3]).shape == (1, 1, 32, 32)


def test_check(miniature):
    miniature.write()
    folder = fetch("emoji")
    for name in list_datasets("emoji*"):
        samples, labels, problems = check(name, folder)
        assert (sum(samples.values()), len(labels), problems) == (len(open_source(name)), 3, [])
    check_refuses_what_is_missing("emoji", folder, "images.bin", "index.json")


def test_what_is_there_is_not_fetched_again_and_drawn_again_it_is_the_same(miniature):
    miniature.write()
    fetch("emoji")
    before = read_images(data_home() / "emoji").sha256
    fetch("emoji")  # there are no packages any more, and no npm
    miniature.write()
    fetch("emoji", force=True)
    assert read_images(data_home() / "emoji").sha256 == before


def test_a_drawing_that_fails_is_left_out_and_named(miniature, monkeypatch):
    monkeypatch.setattr("labeltree.studies.named_data.emoji_drawings._MOST_FAILED", 0.5)
    miniature.icons("noto")["grinning-face"]["body"] = "<path d='"
    miniature.icons("twemoji")["red-heart"]["body"] = '<path fill="red"/>'
    miniature.write()
    said = []
    fetch("emoji", progress=lambda *message: said.append(message[0]))
    told = next(line for line in said if "could not be drawn" in line)
    assert told.startswith("2 emoji could not be drawn and are left out: noto/1f600 grinning face (")
    assert "twemoji/2764 red heart (there is nothing on it)" in told
    source = open_source("emoji")
    names = source.paths(range(len(source)))
    assert "noto/1f600 grinning face" not in names
    assert len(source) == DRAWN * len(STYLES) - 2
    assert source.instances[0] == 1  # the others keep their numbers
    assert (source.load(range(len(source))) < 255).flatten(1).any(1).all()


def test_a_style_that_fails_is_no_style(miniature):
    for icon in miniature.icons("openmoji").values():
        icon["body"] = ""
    miniature.write()
    with pytest.raises(
        DataError, match="5 of 5 emoji of 'openmoji' could not be drawn, first 'grinning-face'"
    ):
        fetch("emoji")
    assert sorted(os.listdir(data_home() / "emoji")) == [".download"]


@pytest.mark.parametrize(
    ("package", "member", "content", "sentence"),
    [
        ("@iconify-json/noto", "icons.json", b"{", "the icons of 'noto' are not in the form"),
        ("@iconify-json/noto", "icons.json", {"prefix": "noto"}, "the icons of 'noto' are not in the form"),
        ("emojibase-data", "en/data.json", [{"group": 7}], "the list of emoji is not in the form"),
    ],
)
def test_packages_of_another_form(miniature, package, member, content, sentence):
    miniature.write()
    key = next(key for key in miniature.members if key[0] == package)
    miniature.members[key][member] = content
    with pytest.raises(DataError, match=sentence):
        miniature.write()


def test_other_emoji_than_expected(miniature, monkeypatch):
    miniature.write()
    monkeypatch.setattr(emoji_drawings, "PLAN", "0" * 64)
    with pytest.raises(DataError, match="the packages hold other emoji than expected"):
        fetch("emoji")


def test_damaged_and_missing_packages(miniature):
    miniature.write()
    (miniature.work / tarball_name("@iconify-json/noto", "1.2.9")).write_bytes(b"half")
    with pytest.raises(DataError, match=r"npm is not installed.*; run the command again to continue"):
        fetch("emoji")


def test_without_a_renderer(miniature, monkeypatch):
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(DataError, match=r"resvg-py: pip install 'labeltree\[emoji\]'"):
        fetch("emoji")


def test_without_the_images(miniature):
    with pytest.raises(DataError, match="'labeltree data get emoji-near' fetches"):
        open_source("emoji-near")


def test_damaged_images(miniature):
    miniature.write()
    folder = fetch("emoji")
    with (folder / "images.bin").open("r+b") as file:
        file.write(b"\0")
    with pytest.raises(DataError, match="is damaged: its digest"):
        read_images(folder, digest=True)
    with (folder / "images.bin").open("r+b") as file:
        file.truncate(100)
    with pytest.raises(DataError, match="has 100 bytes where"):
        open_source("emoji")
    (folder / "index.json").write_text('{"format": 1}')
    with pytest.raises(DataError, match=r"index\.json' is damaged"):
        open_source("emoji")


def test_pictures_and_figures(miniature):
    miniature.write()
    source = make_splits(open_source("emoji", image_size=16)) if fetch("emoji") else None
    scripts = Path(__file__).parents[2] / "studies" / "emoji"
    contact_sheet = runpy.run_path(str(scripts / "style_sheet.py"))["contact_sheet"]
    compare_styles = runpy.run_path(str(scripts / "style_likeness.py"))["compare_styles"]
    assert contact_sheet(source, [[0, 1, None]], columns=["a", "b", "c"]).size[0] == 3 * 20 + 4
    with pytest.raises(DataError, match="1 rows cannot have 2 names"):
        contact_sheet(source, [[0]], rows=["a", "b"])
    table = compare_styles(read_images(data_home() / "emoji"))
    assert table["noto", "noto"] == (pytest.approx(1.0), 1.0)
    assert table["noto", "noto-v1"][0] > 0.7  # the same, a little to the right
    assert np.isfinite([value for pair in table.values() for value in pair]).all()
    assert torch.equal(source.instances, torch.arange(len(source)))
