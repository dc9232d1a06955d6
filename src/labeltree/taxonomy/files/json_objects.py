"""Taxonomies of objects in JSON, YAML or protobuf: within each other, categories, class indices, codes."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.files.codes_of_classes import (
    are_described_codes,
    are_numbers,
    entries_of_described_codes,
)
from labeltree.taxonomy.files.entries import Entries, entries_from_paths
from labeltree.taxonomy.files.json_records import (
    IDS,
    NAMES,
    Record,
    are_objects,
    is_list,
    is_scalar,
    make_record,
    text_of,
    texts_of,
)
from labeltree.taxonomy.files.nested import Pairs
from labeltree.taxonomy.files.opened_file import OpenedFile
from labeltree.taxonomy.naming import name_siblings_apart, some
from labeltree.taxonomy.ranks import RANKS, Ranks, rank_of

__all__ = [
    "entries_from_categories",
    "entries_from_class_index",
    "entries_from_code_names",
    "entries_from_label_map",
    "entries_from_objects",
    "entries_of_numbered",
    "has_items",
]

_CHILDREN = ("children", "subcategories", "subcategory", "subclasses", "items", "nodes", "_children", "child")
_LISTED = {"terms", "values", "members", "classes", "species", "entries", "leaves", "concepts", "types"}
_BESIDE = {
    *("names", "labels", "translations", "synonyms", "aliases", "images", "links", "references", "sources"),
    *("examples", "authors", "attributes", "properties", "metadata", "meta", "identifiers", "tags"),
}
_OF_DETECTORS = {"nc", "train", "val", "test", "path"}
_CATEGORY_IDS = ("id", "synset", "common_name", "image_dir_name", "freebase_id")


# Objects {name, children: [objects]}


class _Objects(NamedTuple):
    """Objects within objects: the outermost ones, where they stand, and the fields of names and children."""

    top: list[Any]
    below: str | None
    name: str
    children: list[str]


def entries_from_objects(file: OpenedFile) -> Entries | None:
    """Read objects within objects, such as d3's `{name, children}`; other fields are left out.

    Children may be a list, or a mapping of ids to objects. None if there is no name and children of the same
    kind.
    """
    objects = _find_objects(file.data)
    if objects is None:
        return None
    names: list[str] = []
    parents: list[int] = []
    aliases: list[tuple[str, ...]] = []
    several = len(objects.top) > 1
    if several and file.root_name is not None:
        names, parents, aliases = [file.root_name], [-1], [()]
    left_out: dict[str, None] = {}
    stack: list[tuple[Any, int]] = [(item, 0 if several else -1) for item in reversed(objects.top)]
    while stack:
        item, above = stack.pop()
        if not isinstance(item, Pairs):
            if not is_scalar(item):
                raise TaxonomyError(f"a child of {names[above]!r} is neither an object nor a name")
            names.append(text_of(item))
            parents.append(above)
            aliases.append(())
            continue
        values = dict(item)
        called = _texts_of_name(values.get(objects.name))
        if not called:
            raise TaxonomyError(
                f"an object{f' below {names[above]!r}' if above >= 0 else ''} has no {objects.name!r}"
            )
        node = len(names)
        names.append(called[0])
        parents.append(above)
        ids = [text_of(value) for key, value in item if str(key).casefold() in IDS and is_scalar(value)]
        aliases.append(tuple(text for text in dict.fromkeys([*ids, *called]) if text != names[node]))
        left_out.update((str(key), None) for key in values if key not in (objects.name, *objects.children))
        for field in reversed(objects.children):
            stack += [(child, node) for child in reversed(_items_below(values.get(field)))]
    left = [key for key in left_out if key.casefold() not in IDS]
    note = f"objects with {some([objects.name, *objects.children], len(objects.children) + 1)}"
    note += f", in {objects.below!r}" if objects.below else ""
    note += f"; other fields are left out: {some(left)}" if left else ""
    below = [node for node, above in enumerate(parents) if above >= 0]
    over = [parents[node] for node in below]
    apart, repeated = name_siblings_apart(names, below, over, [next(iter(texts), "") for texts in aliases])
    return Entries(apart, below, over, aliases=aliases, notes=(note, *[repeated] * bool(repeated)))


def _find_objects(data: Any) -> _Objects | None:
    """The objects of a list, of a mapping of ids to them, or of the only field that holds such ones.

    None if the data are no objects with names and children.
    """
    if not isinstance(data, Pairs):
        return _objects_with_fields(data) if is_list(data) and data and are_objects(data) else None
    for top in ([data], _items_below(data)):
        if top and are_objects(top) and (objects := _objects_with_fields(top)) is not None:
            return objects
    inner = [
        (str(key), items) for key, value in data if (items := _items_below(value)) and are_objects(items)
    ]
    read = [(key, objects) for key, items in inner if (objects := _objects_with_fields(items)) is not None]
    return read[0][1]._replace(below=read[0][0]) if len(read) == 1 else None


def _objects_with_fields(top: list[Any]) -> _Objects | None:
    """Objects with the fields of their names and of their children, as they are written; None without.

    Children are in fields with the usual names, or in those that hold objects with the same field of names.
    """
    usual: dict[str, None] = {}
    others: dict[str, None] = {}
    name: str | None = None
    walked = list(top)
    for item in walked:  # grows while it is walked through
        if not isinstance(item, Pairs):
            continue
        name = name if name is not None else _name_field(item)
        for key, value in item:
            items = _items_below(value) if key != name else []
            field = str(key).casefold()
            nested = all(isinstance(one, Pairs) and name in dict(one) for one in items)
            alone = field in _LISTED and all(map(is_scalar, items))
            if name is None or not items:
                continue
            if field in _CHILDREN and (nested or is_list(value)):
                usual[str(key)] = None
            elif field not in _BESIDE and name.casefold() not in IDS and (nested or alone):
                others[str(key)] = None
            else:
                continue
            walked += items
    children = list(usual or others)
    return None if name is None or not children else _Objects(top, None, name, children)


def _items_below(value: Any) -> list[Any]:
    """The items of a list, or the objects of a mapping of ids to objects; none of something else."""
    if isinstance(value, Pairs):
        inner = [one for _, one in value]
        return inner if are_objects(inner) else []
    return value if is_list(value) else []


def _name_field(item: Pairs) -> str | None:
    for usual in (*NAMES, *IDS):
        for key, value in item:
            if str(key).casefold() == usual and _texts_of_name(value):
                return str(key)
    return None


def _texts_of_name(value: Any) -> list[str]:
    """A name, or, of names by language, the English one before the others."""
    if is_scalar(value):
        return [text_of(value)]
    if not isinstance(value, Pairs) or not all(is_scalar(one) for _, one in value):
        return []
    languages = sorted(value, key=lambda pair: str(pair[0]).casefold() != "en")
    return list(dict.fromkeys(text_of(one) for _, one in languages))


# Categories of COCO, LVIS and iNaturalist


def entries_from_categories(file: OpenedFile) -> Entries | None:
    """Read COCO's `categories`, or such a list: ranks if they have them, else the supercategory.

    Ids are aliases. None if there are no such categories.
    """
    records = _categories(file.data)
    if records is None:
        return None
    ranks = _rank_fields(records)
    fields = ranks or ["supercategory"]
    reading = Ranks(fields, fields)
    paths = []
    for record in records:
        cells = [text_of(value) if is_scalar(value := record.fields.get(field)) else None for field in fields]
        above = [name for name in reading.label(cells, None) if name is not None]
        name = str(record.name or record.id)
        paths.append(above if above and above[-1].casefold() == name.casefold() else [*above, name])
    aliases = [
        [text for key in (*_CATEGORY_IDS, "synonyms") for text in texts_of(record.fields.get(key))]
        for record in records
    ]
    entries = entries_from_paths(paths, file.root_name, lambda row: f"category {row + 1}", aliases)
    told = any(len(path) > 1 for path in paths)
    levels = " > ".join(ranks or [*fields, "name"]) if told else "no level above their names"
    return entries._replace(notes=(f"{len(records)} categories: {levels}; ids are further names",))


def _categories(data: Any) -> list[Record] | None:
    listed = dict(data).get("categories") if isinstance(data, Pairs) else data
    if not is_list(listed) or not listed or not are_objects(listed):
        return None
    records = [make_record(item) for item in listed]
    if not all(record.name or record.id for record in records):
        return None
    told = any(is_scalar(record.fields.get("supercategory")) for record in records)
    return records if told or len(_rank_fields(records)) > 1 or isinstance(data, Pairs) else None


def _rank_fields(records: Sequence[Record]) -> list[str]:
    """The fields that are ranks, coarse to fine."""
    fields = [field for field in records[0].fields if rank_of(field) is not None]
    fields = fields if len(fields) > 1 else []
    return sorted(fields, key=lambda field: RANKS.index(str(rank_of(field))))


# Class indices: {"0": "tench"}, {"0": ["n01440764", "tench"]}, {"tench": 0}


def entries_from_class_index(file: OpenedFile) -> Entries | None:
    """Read names by numbers, or numbers by names; numbers and ids are aliases. None if there are none."""
    classes = _class_index(file.data)
    return None if classes is None else entries_of_numbered(classes, file)


def entries_of_numbered(classes: Sequence[tuple[str, Sequence[str]]], file: OpenedFile) -> Entries:
    """Classes without a level above, by their names and what else each is called, such as its number.

    A name of several classes is followed by what else each is called.
    """
    count = Counter(name for name, _ in classes)
    names = [name if count[name] == 1 else f"{name} ({further[0]})" for name, further in classes]
    entries = entries_from_paths(
        [(name,) for name in names],
        file.root_name,
        lambda row: f"entry {row + 1}",
        [[*further, called] for called, further in classes],
    )
    repeated = [name for name, number in count.items() if number > 1]
    note = f"{len(classes)} classes without a level above; numbers and ids are further names"
    note += f"; {some(repeated)} {'are names' if len(repeated) > 1 else 'is the name'} of several" * bool(
        repeated
    )
    return entries._replace(notes=(note,))


def _class_index(data: Any) -> list[tuple[str, list[str]]] | None:
    if is_list(data):
        return _numbered_lists(data)
    if not isinstance(data, Pairs) or not data:
        return None
    fields = {str(key).casefold(): value for key, value in data}
    if "names" in fields and fields.keys() & _OF_DETECTORS:  # what YOLO's data sets say of themselves
        names = fields["names"]
        if isinstance(names, Pairs):
            return _class_index(names) or [(text_of(name), [str(key)]) for key, name in names]
        if is_list(names) and all(map(is_scalar, names)):
            return [(text_of(name), [str(number)]) for number, name in enumerate(names)]
    if [*fields] == ["names"] and isinstance(fields["names"], Pairs):
        return _class_index(fields["names"])
    if len(data) < 2:
        return None
    if are_numbers([str(key) for key, _ in data]):
        if all(isinstance(value, str) and value.strip() for _, value in data):
            return [(value, [str(key)]) for key, value in data]
        if all(is_list(v) and len(v) == 2 and all(isinstance(text, str) for text in v) for _, v in data):
            return [(value[1], [value[0], str(key)]) for key, value in data]
    distinct = len({str(key) for key, _ in data}) == len(data)
    whole = all(is_scalar(value) and str(value).strip().isdecimal() for _, value in data)
    if distinct and whole and are_numbers([str(value) for _, value in data]):
        return [(str(key), [str(value)]) for key, value in data]
    return None


def _numbered_lists(data: list[Any]) -> list[tuple[str, list[str]]] | None:
    """Lists of a number from 0 or 1 on, perhaps an id, and a name: `[[0, "n01440764", "tench"], …]`."""
    if len(data) < 2 or not all(
        is_list(one) and 1 < len(one) < 4 and all(map(is_scalar, one)) for one in data
    ):
        return None
    numbers = [text_of(one[0]) for one in data]
    ascend = any(numbers == [str(number) for number in range(at, at + len(data))] for at in (0, 1))
    ids = {text_of(one[-2]) for one in data}
    if not ascend or len({len(one) for one in data}) > 1 or len(ids) < len(data):
        return None
    return [(text_of(one[-1]), list(map(text_of, one[-2::-1]))) for one in data]


# Label maps of TensorFlow's object detection: item { id: 1 name: "/m/01g317" display_name: "person" }

_TOKEN = re.compile(
    r'#[^\n]*|"((?:[^"\\\n]|\\.)*)"|\'((?:[^\'\\\n]|\\.)*)\'|([{}<>])|([^\s{}<>:;,"\'#]+)|[\s:;,]+'
)
_ESCAPED = re.compile(r"\\(.)")
_ITEM = re.compile(r"\s*(?:#[^\n]*\s+)*(?:item|label)\s*\{")
_DISPLAYED = ("display_name", "name")


def has_items(file: OpenedFile) -> bool:
    """Whether a file begins with an item of a label map."""
    return file.suffix == ".pbtxt" or _ITEM.match(file.start) is not None


def entries_from_label_map(file: OpenedFile) -> Entries:
    """Read the items of a label map: named by `display_name`, else by `name`; ids are aliases.

    Raises:
        TaxonomyError: If it is not text as protobuf writes it, or an item has no name or no id.
    """
    classes = []
    for number, item in enumerate(_items(file.text), start=1):
        names = [item[field] for field in _DISPLAYED if item.get(field, "").strip()]
        if not names:
            raise TaxonomyError(f"item {number} has neither a display_name nor a name")
        id = item.get("id", item.get("label_id"))  # AVA's
        if id is None:
            raise TaxonomyError(f"item {number}, {names[0]!r}, has no id")
        classes.append((names[0], [*names[1:], id]))
    return entries_of_numbered(classes, file)


def _items(text: str) -> list[dict[str, str]]:
    """The fields of each item; what messages within it say is left out."""
    items: list[dict[str, str]] = []
    depth, at, field = 0, 0, ""
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            line = text.count("\n", 0, at) + 1
            raise TaxonomyError(
                f"line {line}: {text[at : at + 40].split(chr(10))[0]!r} is not text of a label map"
            )
        at = match.end()
        double, single, mark, word = match.groups()
        if mark is not None:
            depth += 1 if mark in "{<" else -1
            if depth == 1 and mark in "{<":
                items.append({})
            field = ""
        elif depth != 1:
            continue
        elif word is not None and not field:
            field = word
        elif (value := next((one for one in (double, single, word) if one is not None), None)) is not None:
            items[-1].setdefault(field, _ESCAPED.sub(r"\1", value))
            field = ""
    if depth or not items:
        raise TaxonomyError(
            "there is no item { … } in it" if not items else "an item does not end: is it whole?"
        )
    return items


# Codes with what they mean


def entries_from_code_names(file: OpenedFile) -> Entries | None:
    """Read codes with what they mean; see `entries_of_described_codes`. None for other objects."""
    data = file.data
    if (
        not isinstance(data, Pairs)
        or not all(isinstance(value, str) and value.strip() for _, value in data)
        or not are_described_codes(data)
    ):
        return None
    return entries_of_described_codes([(str(key), value) for key, value in data], file.root_name)
