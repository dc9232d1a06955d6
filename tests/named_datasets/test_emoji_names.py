"""Which icon is which emoji: code points, names, and names that mislead."""

import json

import pytest

from labeltree.errors import DataError
from labeltree.studies.named_data.emoji_drawings import pixels_of_raster, pixels_of_svg
from labeltree.studies.named_data.emoji_icons import (
    STYLES,
    Emoji,
    IconSet,
    code_of,
    find_icons,
    known_names,
    letters,
    own_names,
)

LAUGH, FOX, CAT, HEART = (Emoji(c, label, "", "") for c, label in zip(
    ("1f600", "1f98a", "1f63a", "2764"), ("grinning face", "fox", "grinning cat", "red heart"), strict=True
))  # fmt: skip


def icon_set(names, chars=None, aliases=None, **more):
    document = {"icons": {name: {"body": "<g/>"} | more for name in names}, "aliases": aliases or {}}
    members = {"icons.json": json.dumps(document).encode()}
    if chars is not None:
        members["chars.json"] = json.dumps(chars).encode()
    return IconSet("style", members)


def known(sets=(), formal=None, short=None):
    members = {"meta/unicode-names.json": json.dumps(formal or {}).encode()}
    members["en/shortcodes/some.json"] = json.dumps(short or {}).encode()
    return known_names([LAUGH, FOX, CAT, HEART], members, sets)


def test_code_points_decide_where_there_are_any():
    icons = icon_set(["fox", "heavy"], {"2764-fe0f": "heavy", "1f600": "fox"})
    assert find_icons(icons, known()) == {"2764": "heavy", "1f600": "fox"}
    assert code_of("1F3C3-200D-2640-FE0F") == "1f3c3-200d-2640"


@pytest.mark.parametrize("chars", [None, {}])
def test_names_have_to_do_where_there_are_none(chars):
    other = icon_set(["smile"], {"1f600": "smile"}, {"grin-old": {"parent": "smile"}})
    names = known([other], {"2764-FE0F": "HEAVY BLACK HEART"}, {"1F98A": ["vixen"]})
    icons = icon_set(["grin-old", "Heavy_Black_Heart", "vixen", "unknown"], chars)
    assert find_icons(icons, names) == {"1f600": "grin-old", "2764": "Heavy_Black_Heart", "1f98a": "vixen"}


def test_a_better_claim_wins_and_equal_ones_cancel_out():
    short = {"1F600": ["fox", "grin", "same"], "1F63A": ["grin", "grin"], "1F98A": "same"}
    names = known(short=short)
    assert "fox" in names["1f98a"]  # its label, not another's short code
    assert not any("grin" in listed or "same" in listed for listed in names.values())
    everything = [name for listed in names.values() for name in listed]
    assert len(everything) == len(set(everything))


def test_names_that_mislead():
    icons = icon_set(["fox", "foxgrin"])
    own = {"1f63a": "foxgrin", "1f98a": None, "2764": "is not there"}
    assert find_icons(icons, known(), own) == {"1f63a": "foxgrin"}
    # An icon that is given away is not found again by its name.
    assert find_icons(icons, known(), {"1f63a": "fox"}) == {"1f63a": "fox"}


def test_the_table_of_names_that_mislead():
    tables = {style.name: own_names(style.name) for style in STYLES}
    assert {name: len(table) for name, table in tables.items() if table} == {"fxemoji": 238, "emojione-v1": 1}
    for table in tables.values():
        icons = [icon for icon in table.values() if icon]
        assert len(icons) == len(set(icons))
        assert all(letters(label) != icon for label, icon in table.items())


def test_mirrored_icons():
    half = '<rect width="5" height="10" fill="red"/>'
    document = {
        "icons": {"left": {"body": half, "width": 10, "height": 10}},
        "aliases": {"right": {"parent": "left", "hFlip": True}, "same": {"parent": "right"}},
    }
    icons = IconSet("style", {"icons.json": json.dumps(document).encode()})
    left, right, same = (pixels_of_svg(icons.svg(name)) for name in ("left", "right", "same"))
    assert left[:, 30, 10].tolist() == [255, 0, 0]
    assert left[:, 30, 50].tolist() == [255, 255, 255]
    assert (right == left[:, :, ::-1]).all()
    assert (same == right).all()
    assert icons.aliases_of("left") == []  # another drawing is no other name
    with pytest.raises(DataError, match="there is no icon 'up'"):
        icons.svg("up")


def test_aliases_in_a_circle():
    icons = icon_set(["a"], aliases={"b": {"parent": "c"}, "c": {"parent": "b"}})
    with pytest.raises(DataError, match="the alias 'b' leads to itself"):
        icons.svg("b")


def test_one_colour_is_black_and_proportions_stay():
    bar = '<rect width="20" height="10" fill="currentColor"/>'
    image = pixels_of_svg(icon_set(["bar"], width=20, height=10).svg("bar").replace("<g/>", bar))
    assert image[:, 32, 32].tolist() == [0, 0, 0]
    assert image[:, 5, 32].tolist() == [255, 255, 255]
    assert image[:, 32, 1].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "svg", ["", "<svg", "no drawing", "<svg xmlns='http://www.w3.org/2000/svg' width='0'/>"]
)
def test_what_is_no_drawing(svg):
    with pytest.raises(DataError):
        pixels_of_svg(svg)


def test_what_is_no_picture():
    with pytest.raises(DataError):
        pixels_of_raster(b"RIFF no webp")
