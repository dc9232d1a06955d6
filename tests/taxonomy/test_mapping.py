"""Mappings between versions of a taxonomy: what they say, and that either version follows from them."""

import itertools
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import labeltree as lt
from labeltree.errors import TaxonomyError
from labeltree.taxonomy import Taxonomy, TaxonomyDAG, TaxonomyMapping
from labeltree.taxonomy.versions.change_entries import Guess

NAMES = [
    "a",
    "b",
    "no",
    "1.0",
    "x/y",
    "back\\slash",
    "Ärger",
    "漢字",
    "~",
    "- b",
    "{c}",
    "d: e #f",
    "'q'",
    '"',
]


@st.composite
def trees(draw: st.DrawFn, most: int = 9) -> Taxonomy:
    count = draw(st.integers(1, most))
    names, parents, taken = ["root"], [-1], set()
    for node in range(1, count + 1):
        parent = draw(st.integers(0, node - 1))
        name = draw(st.sampled_from(NAMES))
        if (parent, name) not in taken:
            taken.add((parent, name))
            names.append(name)
            parents.append(min(parent, len(names) - 2))
            taken.add((parents[-1], name))
    unique = dict.fromkeys(zip(parents[1:], names[1:], strict=True))
    if len(unique) < len(names) - 1:  # a parent was moved onto a sibling of that name
        return Taxonomy.from_paths([names[1:2]])
    return Taxonomy(names, parents)


@st.composite
def mappings(draw: st.DrawFn, old: Taxonomy | None = None) -> TaxonomyMapping:
    old = draw(trees()) if old is None else old
    new = draw(trees())
    targets = [
        draw(st.lists(st.integers(1, new.num_nodes - 1), max_size=3, unique=True)) if node else [0]
        for node in range(old.num_nodes)
    ]
    return TaxonomyMapping(old, new, targets)


def paths(tree: Taxonomy) -> set[tuple[str, ...]]:
    return {tree.path(node) for node in range(tree.num_nodes)}


def said(mapping: TaxonomyMapping) -> list[str]:
    return [str(change) for change in mapping.changes()]


_FOLDER = tempfile.TemporaryDirectory()  # of all examples of this file
_numbers = itertools.count()


def saved(mapping: TaxonomyMapping) -> Path:
    path = Path(_FOLDER.name) / f"changes{next(_numbers)}.yaml"
    mapping.save(path)
    return path


def by_path(mapping: TaxonomyMapping) -> dict[tuple[str, ...], tuple[set[tuple[str, ...]], bool]]:
    return {
        mapping.old.path(node): (
            {mapping.new.path(target) for target in targets},
            bool(mapping.removed[node]),
        )
        for node, targets in enumerate(mapping.targets)
    }


@settings(max_examples=100)
@given(mappings())
def test_either_version_follows_from_the_changes(mapping: TaxonomyMapping) -> None:
    path = saved(mapping)
    assert TaxonomyMapping.load(path, old=mapping.old, new=mapping.new) == mapping
    applied = TaxonomyMapping.load(path, old=mapping.old)
    assert paths(applied.new) == paths(mapping.new)
    assert by_path(applied) == by_path(mapping)
    undone = TaxonomyMapping.load(path, new=mapping.new)
    assert paths(undone.old) == paths(mapping.old)
    assert by_path(undone) == by_path(mapping)


@settings(max_examples=100)
@given(trees(), trees())
def test_what_is_left_after_applying_the_difference_is_nothing(old: Taxonomy, new: Taxonomy) -> None:
    mapping, _ = TaxonomyMapping.between(old, new)
    applied = TaxonomyMapping.load(saved(mapping), old=old).new
    rest, guesses = TaxonomyMapping.between(applied, new)
    assert rest.changes() == []
    assert guesses == []
    assert paths(applied) == paths(new)


@settings(max_examples=40)
@given(st.data())
def test_composition(data: st.DataObject) -> None:
    first = data.draw(mappings())
    second = data.draw(mappings(first.new))
    third = data.draw(mappings(second.new))
    left, right = first.then(second).then(third), first.then(second.then(third))
    assert left.targets == right.targets
    assert torch.equal(left.nodes, right.nodes)
    for node, targets in enumerate(first.targets):
        expected = {target for middle in targets for target in second.targets[middle]}
        assert set(first.then(second).targets[node]) == expected


@settings(max_examples=100)
@given(mappings())
def test_no_old_node_is_lost(mapping: TaxonomyMapping) -> None:
    named = {change.old for change in mapping.changes()}
    split = {change.old for change in mapping.changes() if change.kind == "split"}
    for node in range(1, mapping.old.num_nodes):
        path, place = mapping.old.path(node), int(mapping.nodes[node])
        stays = bool(mapping.exact[node]) and mapping.new.path(place)[-1:] == path[-1:]
        told = bool(mapping.removed[node]) and any(path[:depth] in split for depth in range(1, len(path)))
        assert stays or path in named or told
        for target in mapping.targets[node]:  # a label goes where each of its targets is
            assert place in mapping.new.ancestors_of(target) or place == target


@given(trees())
def test_the_identity(tree: Taxonomy) -> None:
    mapping, guesses = TaxonomyMapping.between(tree, tree)
    assert mapping.changes() == []
    assert guesses == []
    assert mapping.nodes.tolist() == list(range(tree.num_nodes))
    assert bool(mapping.exact.all())
    assert mapping.then(mapping) == mapping


OLD = Taxonomy.from_paths(
    [
        "bird/tit/blue",
        "bird/tit/great",
        "bird/owl/barn",
        "bird/owl/barn 2",
        "fish/trout",
        "fish/colour",
        "fish/pike",
    ]
)


def test_a_revision() -> None:
    new = Taxonomy.from_paths(
        [
            "bird/cyanistes/blue",
            "bird/parus/great",
            "bird/owl/barn",
            "fish/salmon/trout",
            "fish/color",
            "fish/eel",
        ]
    )
    mapping, guesses = TaxonomyMapping.between(OLD, new, {"barn 2": "barn"})
    assert said(mapping) == [
        "split: bird/tit -> bird/cyanistes, bird/parus",
        "move: bird/tit/blue -> bird/cyanistes/blue",
        "move: bird/tit/great -> bird/parus/great",
        "merge: bird/owl/barn 2 -> bird/owl/barn",
        "move: fish/trout -> fish/salmon/trout",
        "remove: fish/colour",
        "remove: fish/pike",
        "add: fish/salmon",
        "add: fish/color",
        "add: fish/eel",
    ]
    assert [(str(guess.change), guess.by_place) for guess in guesses] == [
        ("rename: fish/colour -> fish/color", False),
        ("rename: fish/pike -> fish/eel", True),
    ]
    find = OLD.find
    place = {
        name: new.path_name(int(mapping.nodes[find(name)])) for name in ("tit", "barn 2", "colour", "fish")
    }
    assert place == {"tit": "bird", "barn 2": "bird/owl/barn", "colour": "fish", "fish": "fish"}
    accepted = mapping.with_guesses(guesses)
    assert "rename: fish/colour -> fish/color" in said(accepted)
    assert "add: fish/color" not in said(accepted)


def test_of_several_guesses_for_one_node_the_first_is_taken() -> None:
    old = Taxonomy.from_paths(["a/x", "b/y"])
    new = Taxonomy.from_paths(["a/p", "a/q", "b/y"])
    mapping, _ = TaxonomyMapping.between(old, new)
    x, p, q = old.find("x"), new.find("p"), new.find("q")
    change = mapping.changes()[0]
    several = [Guess(x, (target,), change, "alike", (), False) for target in (p, q)]
    assert mapping.with_guesses(several).targets[x] == (p,)
    assert mapping.with_guesses(several[::-1]).targets[x] == (q,)


def test_a_guess_is_accepted_by_hand(tmp_path: Path) -> None:
    new = Taxonomy.from_paths(
        ["bird/tit/blue", "bird/tit/great", "bird/owl/barn", "bird/owl/barn 2", "fish/color"]
    )
    old = Taxonomy.from_paths(
        ["bird/tit/blue", "bird/tit/great", "bird/owl/barn", "bird/owl/barn 2", "fish/colour"]
    )
    mapping, guesses = TaxonomyMapping.between(old, new)
    path = tmp_path / "changes.yaml"
    mapping.save(path, guesses)
    assert TaxonomyMapping.load(path, old=old) == mapping
    path.write_text(path.read_text().replace("# - {", "- {"))
    for given_taxonomies in ({"old": old}, {"new": new}, {"old": old, "new": new}):
        loaded = TaxonomyMapping.load(path, **given_taxonomies)
        assert said(loaded) == ["rename: fish/colour -> fish/color"]


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (["a/x y", "a/x z", "b"], "split: a/x -> a/x y, a/x z"),
        (["a/X", "b"], "rename: a/x -> a/X"),
    ],
)
def test_guesses_of_leaves(new: list[str], expected: str) -> None:
    _, guesses = TaxonomyMapping.between(Taxonomy.from_paths(["a/x", "b"]), Taxonomy.from_paths(new))
    assert [str(guess.change) for guess in guesses] == [expected]


def test_a_rank_that_is_left_out_and_one_that_is_put_in() -> None:
    deep = Taxonomy.from_paths(["a/rank/x", "a/rank/y", "b"])
    flat = Taxonomy.from_paths(["a/x", "a/y", "b"])
    assert said(TaxonomyMapping.between(deep, flat)[0]) == ["remove: a/rank"]
    assert said(TaxonomyMapping.between(flat, deep)[0]) == [
        "move: a/x -> a/rank/x",
        "move: a/y -> a/rank/y",
        "add: a/rank",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "its first line is not"),
        ("changes: []", "its first line is not"),
        ("labeltree mapping: 2\nchanges: []", "version '2'"),
        ("labeltree mapping: 1\nchange: []", "unknown entry 'change'"),
        ("labeltree mapping: 1\nchanges:\n- {rename: a}", "line 3: rename needs the path 'to'"),
        ("labeltree mapping: 1\nchanges:\n- {rename: a, to: [b, c]}", "line 3: rename needs the path 'to'"),
        ("labeltree mapping: 1\nchanges:\n- {turn: a, to: b}", "line 3: expected one of"),
        ("labeltree mapping: 1\nchanges:\n- a", "line 3: expected one of"),
        ("labeltree mapping: 1\nchanges:\n- {rename: a, to: /}", "line 3: a node cannot become the root"),
        ("labeltree mapping: 1\nchanges:\n- {rename: q, to: b}", "the old taxonomy has no 'q"),
        ("labeltree mapping: 1\nchanges:\n- {rename: bird, to: b}\n- {move: bird, to: c}", "lines 3 and 4"),
        ("labeltree mapping: 1\nchanges:\n- {rename: bird, rename: fish}", "given twice"),
        ("labeltree mapping: 1\nchanges: [", "not readable as YAML"),
        ("labeltree mapping: 1\nchanges: " + "[" * 5000, "not readable as YAML|nested too deeply"),
        ("labeltree mapping: 1\n", "has no entry 'changes'"),
        ("labeltree mapping: 1\nchanges: text", "line 2: changes is a list"),
        ("labeltree mapping: 1\nchanges: {rename: a, to: c}", "line 2: changes is a list"),
        ("labeltree mapping: 1\nold: [a, b]\nchanges: []", "line 2: old says which version"),
        ("labeltree mapping: 1\nchanges:\n- {[a]: b}", "line 3: a key is not text"),
        ("labeltree mapping: 1\nchanges: &a [*a]", "expected one of|not readable"),
    ],
)
def test_damaged_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "changes.yaml"
    path.write_text(text)
    with pytest.raises(TaxonomyError, match=message) as error:
        TaxonomyMapping.load(path, old=OLD)
    assert str(path) in str(error.value)


def test_files_of_another_version(tmp_path: Path) -> None:
    path = tmp_path / "changes.yaml"
    path.write_text("labeltree mapping: 1\nchanges:\n- {rename: fish/pike, to: fish/esox}\n")
    assert TaxonomyMapping.load(path, old=OLD).new.find("esox")
    places = [OLD.path(node) for node in range(1, OLD.num_nodes)]
    new = Taxonomy.from_paths([*places, ("fish", "esox")])
    grown = Taxonomy.from_paths([*places, ("fish", "carp")])  # as 'labeltree extend' leaves it
    with pytest.raises(TaxonomyError, match=r"no line about 'fish/carp', .* '- \{remove: fish/carp\}'"):
        TaxonomyMapping.load(path, old=grown, new=new)
    TaxonomyMapping.load(path, old=OLD, new=new)
    with pytest.raises(TaxonomyError, match=r"the new taxonomy has no 'fish/esox \(line 3\)'"):
        TaxonomyMapping.load(path, old=OLD, new=OLD)
    with pytest.raises(TaxonomyError, match=r"the new taxonomy has no 'fish/esox \(line 3\)'"):
        TaxonomyMapping.load(path, new=OLD)
    path.write_text("labeltree mapping: 1\nchanges:\n- {remove: a}\n- {remove: b}\n")
    with pytest.raises(TaxonomyError, match="no class is left"):
        TaxonomyMapping.load(path, old=Taxonomy.from_paths(["a", "b"]))
    with pytest.raises(TaxonomyError, match="there is no such file"):
        TaxonomyMapping.load(tmp_path / "none.yaml", old=OLD)
    with pytest.raises(TaxonomyError, match="give the old or the new"):
        TaxonomyMapping.load(path)
    with pytest.raises(TaxonomyError, match="does not exist"):
        TaxonomyMapping.between(OLD, OLD)[0].save(tmp_path / "none" / "changes.yaml")


def test_arguments() -> None:
    dag = TaxonomyDAG.from_edges([("dog", "pet"), ("dog", "mammal"), ("pet", "life"), ("mammal", "life")])
    with pytest.raises(TaxonomyError, match="the new one is a DAG"):
        TaxonomyMapping(OLD, dag, [[0]] * OLD.num_nodes)  # type: ignore[arg-type]
    with pytest.raises(TaxonomyError, match="2 targets"):
        TaxonomyMapping(OLD, OLD, [[0], [1]])
    with pytest.raises(TaxonomyError, match="nodes 0 to"):
        TaxonomyMapping(OLD, OLD, [[0]] + [[99]] * (OLD.num_nodes - 1))
    with pytest.raises(TaxonomyError, match="cannot become another node"):
        TaxonomyMapping(OLD, OLD, [[1]] * OLD.num_nodes)
    other = Taxonomy.from_paths(["bird", "cow"])
    with pytest.raises(TaxonomyError, match="does not begin with"):
        TaxonomyMapping.between(OLD, OLD)[0].then(TaxonomyMapping.between(other, OLD)[0])
    twice = Taxonomy.from_paths(["bird/x", "fish/x"])
    with pytest.raises(TaxonomyError, match="is ambiguous"):
        TaxonomyMapping.between(OLD, twice, {"pike": "x"})


def test_ten_thousand_leaves() -> None:
    names = [f"family {i // 100}/genus {i // 10}/species number {i}" for i in range(10_000)]
    old = Taxonomy.from_paths(names)
    new = Taxonomy.from_paths([name.replace("species number 7", "species numbr 7") for name in names])
    mapping, guesses = TaxonomyMapping.between(old, new)
    assert len(guesses) == 1111
    renamed = mapping.with_guesses(guesses)
    assert len(renamed.changes()) == 1111
    assert torch.equal(renamed.nodes, torch.arange(old.num_nodes))


def test_names_that_repeat_follow_their_parent() -> None:
    old = Taxonomy.from_paths(["tit/blue", "tit/great", "tit/young", "owl/barn", "owl/young"])
    new = Taxonomy.from_paths(["parus/blue", "parus/great", "parus/young", "owl/barn", "owl/young"])
    mapping, guesses = TaxonomyMapping.between(old, new)
    assert said(mapping) == ["rename: tit -> parus"]
    assert guesses == []
    one = Taxonomy.from_paths(["owl/blue", "owl/great", "owl/barn", "owl/young"])
    mapping, guesses = TaxonomyMapping.between(old, one)
    assert "merge: tit -> owl" in said(mapping)
    assert "remove: tit/young" in said(mapping)
    assert [str(guess.change) for guess in guesses] == ["merge: tit/young -> owl/young"]


def test_remainders_elsewhere_are_other_classes() -> None:
    old, new = Taxonomy.from_paths(["a/other", "a/x", "b/y"]), Taxonomy.from_paths(["a/x", "b/other", "b/y"])
    assert said(TaxonomyMapping.between(old, new)[0]) == ["remove: a/other", "add: b/other"]


def test_an_inner_node_most_of_whose_children_are_gone_is_a_guess() -> None:
    old = Taxonomy.from_paths(["tit/blue", "tit/great", "tit/coal", "owl/barn"])
    new = Taxonomy.from_paths(["owl/barn", "owl/blue"])
    mapping, guesses = TaxonomyMapping.between(old, new)
    assert said(mapping)[:2] == ["remove: tit", "move: tit/blue -> owl/blue"]
    assert [str(guess.change) for guess in guesses] == ["merge: tit -> owl"]
    assert guesses[0].reason == "1 of its 3 children went there, the others are gone"
    accepted = mapping.with_guesses(guesses)
    assert int(accepted.nodes[old.find("coal")]) == new.find("owl")


@st.composite
def revisions(draw: st.DrawFn) -> tuple[Taxonomy, Taxonomy]:
    """A tree, and the same after a few nodes were moved, renamed, added or left out with what is below."""
    old = draw(trees(14))
    names, parents = list(old.names), old.parent.tolist()
    for _ in range(draw(st.integers(0, 4))):
        node, name = draw(st.integers(0, len(names) - 1)), draw(st.sampled_from(NAMES))
        kind = draw(st.sampled_from(["add", "rename", "move", "remove"]))
        if kind == "add":
            names.append(name)
            parents.append(node)
        elif node and kind == "rename":
            names[node] = name
        elif node and kind == "move":
            parents[node] = draw(st.integers(0, node - 1))
        elif node:
            parents[node] = -2
    paths_below: list[tuple[str, ...] | None] = [()]
    for node in range(1, len(names)):
        above = None if parents[node] < 0 else paths_below[parents[node]]
        paths_below.append(None if above is None else (*above, names[node]))
    return old, Taxonomy.from_paths([path for path in paths_below if path] or [("a",)])


@settings(max_examples=200)
@given(revisions(), st.booleans())
def test_revisions_go_both_ways(versions: tuple[Taxonomy, Taxonomy], accept: bool) -> None:
    old, new = versions
    mapping, guesses = TaxonomyMapping.between(old, new)
    for node in range(1, old.num_nodes):
        if new.follow(old.path(node)) is not None:
            assert mapping.new.path(mapping.targets[node][0]) == old.path(node)
    mapping = mapping.with_guesses(guesses) if accept else mapping
    path = saved(mapping)
    assert paths(TaxonomyMapping.load(path, old=old).new) == paths(new)
    undone = TaxonomyMapping.load(path, new=new)
    assert paths(undone.old) == paths(old)
    assert by_path(undone) == by_path(mapping)
    assert TaxonomyMapping.between(TaxonomyMapping.load(path, old=old).new, new)[0].changes() == []


def test_the_parts_of_a_split_are_new(tmp_path: Path) -> None:
    path = tmp_path / "changes.yaml"
    path.write_text("labeltree mapping: 1\nchanges:\n- {split: a/z, to: [a/z1, a/z2]}\n")
    old, new = Taxonomy.from_paths(["a/z", "b"]), Taxonomy.from_paths(["a/z1", "a/z2", "b"])
    for versions in ({"old": old}, {"new": new}, {"old": old, "new": new}):
        mapping = TaxonomyMapping.load(path, **versions)
        assert (paths(mapping.old), paths(mapping.new)) == (paths(old), paths(new))
        assert said(mapping) == ["split: a/z -> a/z1, a/z2"]
    partly = TaxonomyMapping(Taxonomy.from_paths(["a/z", "a/z1"]), new, [[0], [1], [2, 3], [2]])
    assert said(partly) == ["split: a/z -> a/z1, a/z2", "add: b"]
    assert paths(TaxonomyMapping.load(saved(partly), new=new).old) == paths(partly.old)


def test_what_is_gone_is_not_taken_for_what_is_new() -> None:
    """Below one parent one class is gone and another is new: that does not make them one."""
    _, guesses = TaxonomyMapping.between(
        Taxonomy.from_paths(["a/x", "b"]), Taxonomy.from_paths(["a/other", "b"])
    )
    assert guesses == []


@pytest.mark.parametrize(
    ("before", "after", "guessed", "by_place"),
    [
        (["tabby", "calico"], ["tabby cat", "calico"], ["rename: a/tabby -> a/tabby cat"], False),
        (
            ["shell", "x"],
            ["sea shell", "land shell", "x"],
            ["split: a/shell -> a/sea shell, a/land shell"],
            False,
        ),
        (
            ["shell (sea)", "land-shell", "x"],
            ["shell", "x"],
            ["merge: a/land-shell -> a/shell", "merge: a/shell (sea) -> a/shell"],
            False,
        ),
        (["costume"], ["garment"], ["rename: a/costume -> a/garment"], True),
        (["bean", "grey"], ["goose"], ["merge: a/bean -> a/goose", "merge: a/grey -> a/goose"], True),
        (["bean"], ["goose", "duck"], [], True),  # which of them, or neither?
        (["c1", "c2", "c3", "c4", "c5", "c6"], ["goose"], [], True),  # too many to be one
        (["bean", "unknown"], ["goose"], ["rename: a/bean -> a/goose"], True),
    ],
)
def test_guesses(
    before: list[str], after: list[str], guessed: list[str], by_place: bool, tmp_path: Path
) -> None:
    old, new = (Taxonomy.from_paths(["b", *(f"a/{name}" for name in names)]) for names in (before, after))
    mapping, guesses = TaxonomyMapping.between(old, new)
    assert sorted(str(guess.change) for guess in guesses) == guessed
    assert {guess.by_place for guess in guesses} == ({by_place} if guessed else set())
    assert not {str(change) for change in mapping.changes()} & set(guessed)  # none is used
    path = tmp_path / "changes.yaml"
    mapping.save(path, guesses)
    path.write_text(path.read_text().replace("# - {", "- {"))  # the lines of what is gone and new stay
    assert set(guessed) <= set(said(TaxonomyMapping.load(path, old=old, new=new)))


def test_a_file_that_lacks_lines_does_not_lead_back(tmp_path: Path) -> None:
    old, new = Taxonomy.from_paths(["a/x", "a/y", "b"]), Taxonomy.from_paths(["a/x", "b"])
    path = saved(TaxonomyMapping.between(old, new)[0])
    path.write_text(path.read_text().replace("- {remove: a/y}\n", ""))
    with pytest.raises(TaxonomyError, match="lead back to 4 nodes, and the old version has 5"):
        TaxonomyMapping.load(path, new=new)
    path.write_text(path.read_text() + "- {remove: a/y}\n- {remove: a/q}\n")
    with pytest.raises(TaxonomyError, match="about 6 nodes of the old version, which had 5: correct"):
        TaxonomyMapping.load(path, new=new)
    path.write_text(path.read_text().replace("- {remove: a/y}\n- {remove: a/q}\n", ""))
    extended = Taxonomy.from_paths(["a/x", "b", "c"])  # another version: nobody knows how many it had
    assert TaxonomyMapping.load(path, new=extended).old.num_nodes == 5


def test_what_lies_below_follows_an_accepted_guess(tmp_path: Path) -> None:
    """The names S and M occur twice, so that nothing but their parent says where they went."""
    old = Taxonomy.from_paths(["shirt/S", "shirt/M", "trousers/S", "trousers/M"])
    new = Taxonomy.from_paths(["Shirt/S", "Shirt/M", "trousers/S", "trousers/M"])
    mapping, guesses = TaxonomyMapping.between(old, new)
    assert said(mapping.with_guesses(guesses)) == ["rename: shirt -> Shirt"]
    path = tmp_path / "changes.yaml"
    mapping.save(path, guesses)
    path.write_text(path.read_text().replace("# - {", "- {"))
    by_hand = TaxonomyMapping.load(path, old=old, new=new)
    assert said(by_hand) == ["rename: shirt -> Shirt"]
    assert by_path(TaxonomyMapping.load(path, new=new)) == by_path(TaxonomyMapping.load(path, old=old))


def test_signs_that_change_the_meaning_are_no_spelling() -> None:
    for one, other in (("HIV-", "HIV+"), ("C++", "C#"), (">10 mm", "<10 mm"), ("typical", "atypical")):
        old, new = (Taxonomy.from_paths([f"a/{name}", "a/x", "b"]) for name in (one, other))
        assert TaxonomyMapping.between(old, new)[1] == [], one


def test_a_split_of_which_a_part_was_removed_is_still_a_split() -> None:
    first = Taxonomy.from_paths(["g/s", "h"])
    second = Taxonomy.from_paths(["g/s1", "g/s2", "h"])
    third = Taxonomy.from_paths(["g/s1", "h"])
    split = TaxonomyMapping(first, second, [[0], [1], [2, 3], [4]])
    both = split.then(TaxonomyMapping(second, third, [[0], [1], [2], [], [3]]))
    assert said(both) == ["split: g/s -> g, g/s1"]
    assert both.new.path_name(int(both.nodes[2])) == "g"


def test_a_node_that_became_the_root_is_removed(tmp_path: Path) -> None:
    old, new = Taxonomy.from_paths(["a/x", "a/y"]), Taxonomy.from_paths(["x", "y"])
    mapping = TaxonomyMapping(old, new, [[0], [0], [1], [2]])
    assert said(mapping)[0] == "remove: a"
    mapping.save(tmp_path / "changes.yaml")
    assert TaxonomyMapping.load(tmp_path / "changes.yaml", old=old, new=new) == mapping


def test_children_that_a_split_explains_are_not_listed() -> None:
    """They were "2 removed, 1 split"; where a child is left, one that is gone is still removed."""
    old = Taxonomy.from_paths(["birds/mallard/drake/old", "birds/mallard/hen", "birds/owls/barn"])
    new = Taxonomy.from_paths(["birds/mallard north", "birds/mallard south", "birds/owls/barn"])
    mapping, guesses = TaxonomyMapping.between(old, new)
    split = mapping.with_guesses(guesses)
    said = ["split: birds/mallard -> birds/mallard north, birds/mallard south"]
    assert [str(change) for change in split.changes()] == said
    old = Taxonomy.from_paths(["tits/a", "tits/b", "tits/c", "owl"])
    new = Taxonomy.from_paths(["blue tits/a", "great tits/b", "owl"])
    assert "remove: tits/c" in map(str, TaxonomyMapping.between(old, new)[0].changes())


def test_a_file_of_such_a_split_is_read_again(tmp_path: Path) -> None:
    old = Taxonomy.from_paths(["birds/mallard/drake", "birds/mallard/hen", "birds/owls/barn"])
    new = Taxonomy.from_paths(["birds/mallard north", "birds/mallard south", "birds/owls/barn"])
    mapping, guesses = TaxonomyMapping.between(old, new)
    split = mapping.with_guesses(guesses)
    split.save(tmp_path / "changes.yaml")
    assert TaxonomyMapping.load(tmp_path / "changes.yaml", old=old) == split
    assert paths(TaxonomyMapping.load(tmp_path / "changes.yaml", new=new).old) == paths(old)


def test_ids_of_the_new_version_name_nodes_of_the_old_one_that_its_changes_tell(tmp_path: Path) -> None:
    """A file has no ids that the new version knows."""
    new = Taxonomy.from_paths(["lung/COPD", "skin/rubeola", "skin/acne", "eye"])
    new = new.with_aliases([[], ["X:3"], ["X:31", "X:302"], ["X:4"], ["X:402"], ["X:403"], ["X:7"]])
    file = tmp_path / "changes.yaml"
    lines = [
        "{rename: skin/measles, to: skin/rubeola}",
        "{merge: lung/bronchitis, to: lung/COPD}",
        "{merge: lung/emphysema, to: lung/COPD}",
        "{remove: skin/wart, also: ['X:404']}",
        "{add: lung/COPD}",
        "{add: eye}",
    ]
    file.write_text("labeltree mapping: 1\nchanges:\n" + "".join(f"- {line}\n" for line in lines))
    mapping = TaxonomyMapping.load(file, new=new)
    labels = mapping.old.encode(["X:402", "X:302", "X:403", "X:404", "X:4", "measles"])
    told = new.decode(mapping.nodes[labels])
    assert told == ["skin/rubeola", "lung/COPD", "skin/acne", "skin", "skin", "skin/rubeola"]
    assert mapping.old.candidates("X:7") == []


def test_names_that_classes_lose_are_in_the_file(tmp_path: Path) -> None:
    """Also those of classes that stay: data may have them as labels, and the new version does not."""
    old = Taxonomy.from_paths(["woven/twill", "woven/plain", "knitted/tricot"])
    further = {"twill": ["X:12", "X:90"], "plain": ["X:11", "tabby"], "tricot": ["X:23", "X:24"]}
    old = old.with_aliases([further.get(name, []) for name in old.names])
    new = Taxonomy.from_paths(["woven/twill", "woven/plain", "knitted/warp knit"])
    names = {"twill": ["X:12"], "plain": ["X:11", "tabby"], "warp knit": ["X:23", "tricot"]}
    new = new.with_aliases([names.get(name, []) for name in new.names])
    file = tmp_path / "changes.yaml"
    mapping, _ = TaxonomyMapping.between(old, new)
    mapping.save(file)
    text = file.read_text()
    assert '- {keep: woven/twill, also: ["X:90"]}' in text
    assert '{rename: knitted/tricot, to: knitted/warp knit, also: ["X:24"]}' in text
    assert "plain" not in text
    read = TaxonomyMapping.load(file, new=new)
    assert read.changes() == mapping.changes()
    labels = read.old.encode(["X:90", "X:12", "tabby", "X:24", "X:23"])
    told = new.decode(read.nodes[labels])
    assert told == ["woven/twill", "woven/twill", "woven/plain", "knitted/warp knit", "knitted/warp knit"]
    made = TaxonomyMapping.load(file, old=old).new
    assert [made.candidates(name) != [] for name in ("X:90", "X:24", "X:12", "tabby")] == [0, 0, 1, 1]
    again = tmp_path / "again.yaml"
    TaxonomyMapping.load(file, old=old).save(again)
    assert [line for line in again.read_text().splitlines() if line.startswith("- ")] == [
        line for line in text.splitlines() if line.startswith("- ")
    ]


@pytest.mark.parametrize("line", ["{keep: woven/twill}", "{keep: woven/twill, to: woven/serge, also: [X]}"])
def test_a_class_that_stays_has_nothing_but_further_names(line: str, tmp_path: Path) -> None:
    old = Taxonomy.from_paths(["woven/twill", "woven/plain"])
    (tmp_path / "changes.yaml").write_text(f"labeltree mapping: 1\nchanges:\n- {line}\n")
    with pytest.raises(TaxonomyError, match="line 3: keep has ids and synonyms of a class that stays"):
        TaxonomyMapping.load(tmp_path / "changes.yaml", old=old)


def test_a_table_is_written_without_names_that_the_new_version_lost(tmp_path: Path) -> None:
    old = Taxonomy.from_paths(["woven/twill", "woven/plain"])
    old = old.with_aliases([["X:12", "X:90"] if name == "twill" else [] for name in old.names])
    old.save(tmp_path / "old.json")
    file = tmp_path / "changes.yaml"
    file.write_text("labeltree mapping: 1\nchanges:\n- {keep: woven/twill, also: ['X:90']}\n")
    (tmp_path / "samples.csv").write_text("sample,label\na,X:90\nb,X:12\nc,plain\n")
    out = tmp_path / "out.csv"
    lt.apply_changes(file, tmp_path / "old.json", out, data=tmp_path / "samples.csv")
    assert out.read_text().splitlines() == ["sample,label", "a,twill", "b,X:12", "c,plain"]
