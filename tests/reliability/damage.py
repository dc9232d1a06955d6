"""Damage to files by a seeded generator: cut off, flipped, swapped in kind, huge, nested, with code."""

from __future__ import annotations

import io
import json
import random
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import yaml

RAN = Path("ran-by-a-file")  # in the working folder: it comes to be if code in a file is ever run


class Code:
    """What a pickle would run when it is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (RAN.touch, ())


def damaged(content: bytes, suffix: str, rng: random.Random) -> bytes:
    """The content of a file of this kind, damaged in one of many ways; perhaps still valid by chance."""
    ways = [*_BY_SUFFIX.get(suffix, ()), *_OF_TEXT] if _is_text(content) else [*_BY_SUFFIX.get(suffix, ())]
    # What knows the format reaches further than what does not: it is chosen two times in three.
    chosen = rng.choice(ways) if ways and rng.random() < 0.67 else rng.choice(_OF_BYTES)
    try:
        return chosen(content, rng)
    except _CANNOT:
        return rng.choice(_OF_BYTES)(content, rng)


_CANNOT = (
    OverflowError,
    ValueError,
    KeyError,
    TypeError,
    IndexError,
    yaml.YAMLError,
    RecursionError,
    OSError,
    RuntimeError,
)


def _is_text(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in content


# ---------------------------------------------------------------- of any bytes


def _truncated(content: bytes, rng: random.Random) -> bytes:
    return content[
        : rng.choice([0, 1, len(content) // 2, max(0, len(content) - 1), rng.randrange(len(content) + 1)])
    ]


def _flipped(content: bytes, rng: random.Random) -> bytes:
    data = bytearray(content or b"\0")
    for _ in range(rng.choice([1, 1, 4, 64])):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def _overwritten(content: bytes, rng: random.Random) -> bytes:
    data = bytearray(content or b"\0")
    start = rng.randrange(len(data))
    junk = rng.choice([b"\xff" * 8, b"\0" * 8, b"\x7f" + b"\xff" * 7, rng.randbytes(16)])
    data[start : start + len(junk)] = junk
    return bytes(data)


def _without_a_part(content: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(content) + 1)
    return content[:start] + content[start + rng.randrange(1, 200) :]


def _grown(content: bytes, rng: random.Random) -> bytes:
    return rng.choice([content + rng.randbytes(100), content + content, rng.randbytes(50) + content])


def _of_another_kind(content: bytes, rng: random.Random) -> bytes:
    return rng.choice(_OTHERS)


_OTHERS = (
    b"",
    b"\0" * 1000,
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\xff\xff\0\0\xff\xff\x08\x02\0\0\0" + b"\0" * 40,
    b"PK\x05\x06" + b"\0" * 18,
    b"PAR1" + b"\xff" * 20 + b"PAR1",
    b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (4000000000,), }".ljust(127)
    + b"\n",
    struct.pack("<Q", 1 << 60) + b"{}",
    struct.pack("<Q", 2) + b"{}",
    b"\x80\x04cposix\nsystem\n\x8c\x12touch ran-by-a-file\x85R.",
    b"\x1f\x8b\x08\0\0\0\0\0",
    b"null",
    b"[]",
    b"{}",
    b"0",
    b"\n\n\n",
    b"\xef\xbb\xbf",
    b"\xff\xfea\0b\0",
)
_OF_BYTES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _truncated,
    _flipped,
    _overwritten,
    _without_a_part,
    _grown,
    _of_another_kind,
)

# ---------------------------------------------------------------- of text

_LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{there}: &{there} [{', '.join(['*' + here] * 9)}]\n"
    for here, there in zip("abcdefgh", "bcdefghi", strict=True)
)
_WORDS = (
    "null",
    "~",
    "[]",
    "{}",
    "-1",
    "0",
    "1e30",
    "-1e308",
    ".nan",
    "nan",
    ".inf",
    "inf",
    "NaN",
    "true",
    '""',
    "''",
    "9" * 30,
    "9" * 5000,
    "x" * 20_000,
    "\x1b[31mred",
    "a/b/c",
    "../../x",
    "//",
    "ä\u202e",
    "1.5",
    "[1, 2]",
    "{a: 1}",
    "*a",
    "&a [*a]",
    "!!python/object/apply:os.system ['touch ran-by-a-file']",
    "=1+1",
    "0x7fffffff",
)


def _with_a_word(content: bytes, rng: random.Random) -> bytes:
    """One word of the text is another."""
    import re

    text = content.decode("utf-8")
    places = [match.span() for match in re.finditer(r"[\w.+-]+", text)] or [(0, 0)]
    start, end = rng.choice(places)
    return (text[:start] + rng.choice(_WORDS) + text[end:]).encode("utf-8", "replace")


def _with_other_lines(content: bytes, rng: random.Random) -> bytes:
    lines = content.split(b"\n")
    place = rng.randrange(len(lines))
    what = rng.choice(["drop", "double", "swap", "many", "empty", "indent", "separators"])
    if what == "drop":
        del lines[place]
    elif what == "double":
        lines.insert(place, lines[place])
    elif what == "swap":
        other = rng.randrange(len(lines))
        lines[place], lines[other] = lines[other], lines[place]
    elif what == "many":
        lines[place:place] = [lines[place]] * 3000
    elif what == "empty":
        lines[place] = b""
    elif what == "indent":
        lines[place] = b"    " + lines[place]
    else:
        lines[place] = lines[place] + rng.choice(
            [b",,,", b"\t", b'"', b"\0", b"\r", b";", b"  # x", b":", b","]
        )
    return b"\n".join(lines)


def _hostile_text(content: bytes, rng: random.Random) -> bytes:
    deep = rng.choice([50, 150, 2000, 100_000])
    return rng.choice(
        [
            _LAUGHS.encode(),
            _LAUGHS.encode() + content,
            b"[" * deep,
            b"[" * deep + b"]" * deep,
            b'{"a": ' * deep + b"1" + b"}" * deep,
            b"(" * deep + b")" * deep + b";",
            b"(a," * deep + b"b" + b")" * deep + b";",
            "\n".join("  " * level + "a:" for level in range(min(deep, 2000))).encode(),
            b"/".join([b"a"] * deep),
            b"a," * deep + b"\n" + content,
            b'"' + content,
        ]
    )


_OF_TEXT: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _with_a_word,
    _with_other_lines,
    _hostile_text,
)

# ---------------------------------------------------------------- of documents

_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    3,
    10**30,
    -(10**30),
    2**63,
    1e30,
    float("nan"),
    float("inf"),
    "",
    "x",
    "../x",
    "\x1b[2J",
    "x" * 3000,
    [],
    {},
    [[]],
    [None],
    [1, 2, 3],
    {"a": 1},
    {"a": {"b": []}},
    ["a", 1, None],
)


def _places(node: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        found.append((node, key))
        _places(value, found)
    return found


def _changed(document: Any, rng: random.Random) -> Any:
    """A document with one to three of its values dropped, renamed or of another kind."""
    for _ in range(rng.choice([1, 1, 2, 3])):
        places = _places(document, [])
        if not places:
            return rng.choice(_VALUES)
        shallow = places[: max(8, len(places) // 20)]  # of long lists of numbers, not always another number
        parent, key = rng.choice(rng.choice([places, shallow]))
        what = rng.random()
        if what < 0.2:
            del parent[key]
        elif what < 0.3 and isinstance(parent, dict):
            parent[rng.choice(["x", "", 3])] = parent.pop(key)
        elif what < 0.4:
            parent[key] = [parent[key]]
        else:
            parent[key] = rng.choice(_VALUES)
    return document


def _json(content: bytes, rng: random.Random) -> bytes:
    return json.dumps(_changed(json.loads(content), rng)).encode()


def _yaml(content: bytes, rng: random.Random) -> bytes:
    loaded = _changed(json.loads(json.dumps(yaml.safe_load(content), default=str)), rng)
    return yaml.safe_dump(loaded, sort_keys=False).encode()


# ---------------------------------------------------------------- of arrays and tensors


def _other_array(array: np.ndarray[Any, Any], rng: random.Random) -> np.ndarray[Any, Any]:
    n = len(array) if array.ndim else 1
    changed = array.copy()
    kind = rng.choice(["value", "value", "dtype", "shape", "shape", "objects", "text"])
    if kind == "value" and array.size and array.dtype.kind in "fiu":
        values = [np.nan, np.inf, -np.inf, 1e38] if array.dtype.kind == "f" else [-1, -5, 10**6, 2**31 - 1]
        changed.reshape(-1)[rng.randrange(array.size)] = rng.choice(values)
        return changed
    if kind == "dtype":
        try:
            return array.astype(rng.choice(["f2", "f8", "i1", "i8", "u1", "?", "U5", "c8", ">f4", "S3"]))
        except ValueError:
            return np.zeros(array.shape, "i8")
    if kind == "objects":
        return np.array([Code()] * max(n, 1), dtype=object)
    if kind == "text":
        return np.array(["x\0y", "\udcff"[:0], "z" * 100] * max(n // 3, 1))
    shapes = [
        lambda: array[:0],
        lambda: array[: n // 2] if array.ndim else array,
        lambda: np.concatenate([array, array]) if array.ndim else np.stack([array]),
        lambda: array[None],
        lambda: array.reshape(-1),
        lambda: array.T,
        lambda: np.array(array.reshape(-1)[0]) if array.size else np.array(0),
        lambda: array[..., :0] if array.ndim else array,
        lambda: np.zeros((0, 3)),
    ]
    return np.asarray(rng.choice(shapes)())


def _npz(content: bytes, rng: random.Random) -> bytes:
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    name = rng.choice(list(arrays))
    what = rng.random()
    if what < 0.15:
        del arrays[name]
    elif what < 0.25:
        arrays[rng.choice(["x", "nodes", "labels", "features", ""])] = arrays.pop(name)
    elif what < 0.3 and arrays[name].ndim == 0 and arrays[name].dtype.kind == "U":
        arrays[name] = np.array(_json(str(arrays[name]).encode(), rng).decode())
    else:
        arrays[name] = _other_array(arrays[name], rng)
    out = io.BytesIO()
    np.savez(out, allow_pickle=True, **{key or "empty": value for key, value in arrays.items()})
    return out.getvalue()


def _npz_members(content: bytes, rng: random.Random) -> bytes:
    """The archive with a member that is no array, claims to be huge, or stands there twice."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    place = rng.randrange(len(members))
    name, data = members[place]
    junk = rng.choice(
        [
            b"",
            b"no array",
            _OTHERS[5],
            data[:90],
            data.replace(b"(", b"(9", 1),
            data.replace(b"'shape': (", b"'shape': (-", 1),
            data.replace(b"<f4", b"|O8").replace(b"<i8", b"|O8"),
            b"\x93NUMPY\x09\x00" + data[8:],
        ]
    )
    members[place] = (name, junk)
    if rng.random() < 0.2:
        members.append((name, data))
    if rng.random() < 0.2:
        members.append(("../../evil.npy", data))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as packed:
        for member, held in members:
            packed.writestr(zipfile.ZipInfo(member), held)
    return out.getvalue()


def _tensors(content: bytes, rng: random.Random) -> bytes:
    from safetensors.torch import load, save

    state = load(content)
    return save(_other_tensors(state, rng))


def _other_tensors(state: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    import torch

    name = rng.choice(list(state))
    what = rng.random()
    if what < 0.2:
        del state[name]
    elif what < 0.35:
        state[rng.choice(["x", "encoder.x", "objective.x"])] = state.pop(name)
    else:
        array = state[name].detach().numpy()
        changed = _other_array(array, rng)
        if changed.dtype.kind not in "fiu" or changed.dtype.byteorder == ">" or changed.dtype.str == "<f2":
            changed = changed.astype("f4") if changed.dtype.kind == "?" else np.zeros(3, "f4")
        state[name] = torch.from_numpy(np.ascontiguousarray(changed))
    return state


def _safetensors_header(content: bytes, rng: random.Random) -> bytes:
    (length,) = struct.unpack("<Q", content[:8])
    header = json.dumps(_changed(json.loads(content[8 : 8 + length]), rng)).encode()
    return struct.pack("<Q", rng.choice([len(header), len(header), 1 << 40])) + header + content[8 + length :]


def _torch(content: bytes, rng: random.Random) -> bytes:
    import torch

    state = torch.load(io.BytesIO(content), weights_only=True)
    if rng.random() < 0.6 and isinstance(state.get("state_dict", state), dict):
        _other_tensors(state.get("state_dict", state), rng)
    elif rng.random() < 0.3:
        state[rng.choice(list(state))] = Code()
    else:
        state[rng.choice(list(state))] = rng.choice(_VALUES)
    out = io.BytesIO()
    torch.save(state, out)
    return out.getvalue()


def _parquet(content: bytes, rng: random.Random) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(content))
    place = rng.randrange(table.num_columns)
    n, name = table.num_rows, table.column_names[place]
    columns = [
        pa.array([None] * n),
        pa.array(range(n)),
        pa.array([float("nan")] * n),
        pa.array([["a"], []] * (n // 2) + [[]] * (n % 2)),
        pa.array([[1.0], [2.0]] * (n // 2) + [[]] * (n % 2)),
        pa.array([b"\xff"] * n),
        pa.array([{"a": 1}] * n),
        pa.array(["x"] * n).dictionary_encode(),
        pa.array([2**62] * n),
        pa.array([""] * n),
    ]
    what = rng.random()
    if what < 0.15:
        table = table.drop_columns([name])
    elif what < 0.25:
        table = table.rename_columns([rng.choice(["x", ""]) if c == name else c for c in table.column_names])
    elif what < 0.35:
        table = table.slice(0, rng.choice([0, 1]))
    elif what < 0.45:
        table = table.replace_schema_metadata(
            {b"geometry": b"\xff", b"curvature": b"x", b"aspect_taxonomies": b"[{}]"}
        )
    else:
        table = table.set_column(place, name, rng.choice(columns))
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def _image_header(content: bytes, rng: random.Random) -> bytes:
    """A PNG that claims other sides, depth or colours than it has."""
    if content[:4] != b"\x89PNG":
        raise ValueError
    data = bytearray(content)
    if rng.random() < 0.5:
        data[16:24] = struct.pack(
            ">II", rng.choice([0, 1, 70_000, 2**31 - 1]), rng.choice([0, 1, 70_000, 2**31 - 1])
        )
    else:
        data[24:29] = rng.randbytes(5)
    if rng.random() < 0.5:  # with the sum that belongs to it
        import zlib

        data[29:33] = struct.pack(">I", zlib.crc32(bytes(data[12:29])))
    return bytes(data)


def _pickle(content: bytes, rng: random.Random) -> bytes:
    import pickle

    try:
        found = pickle.loads(content, encoding="bytes")  # our own file
    except pickle.UnpicklingError as error:
        raise ValueError from error
    key = rng.choice(list(found))
    found[key] = rng.choice([Code(), None, [], 3, np.zeros(3), np.array([Code()], dtype=object), b"x"])
    return pickle.dumps(found, rng.choice([0, 2, 4]))


_BY_SUFFIX: dict[str, tuple[Callable[[bytes, random.Random], bytes], ...]] = {
    ".json": (_json, _json),
    ".yaml": (_yaml, _yaml),
    ".npz": (_npz, _npz, _npz_members),
    ".safetensors": (_tensors, _tensors, _safetensors_header),
    ".ckpt": (_torch,),
    ".pt": (_torch,),
    ".parquet": (_parquet,),
    ".png": (_image_header,),
    "": (_pickle,),
}
