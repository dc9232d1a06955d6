"""Small shards: tar files as WebDataset writes them, Parquet files as Hugging Face's `datasets` does."""

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image

LABELS = ["animal/dog", "animal/cat", "plant/oak"]


def png(number: int, size: int = 8) -> bytes:
    """An image that differs from all others."""
    pixels = np.random.default_rng(number).integers(0, 255, (size, size, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def pixels_of(number: int, size: int = 8) -> torch.Tensor:
    """The pixels of `png`."""
    return torch.from_numpy(np.asarray(Image.open(io.BytesIO(png(number, size)))).transpose(2, 0, 1).copy())


def write_tar(path: Path, members: dict[str, bytes | str]) -> Path:
    """Write a tar file with these members."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            data = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def write_shard(path: Path, numbers: range) -> Path:
    """Write a tar shard of images and ``json``."""
    members: dict[str, bytes | str] = {}
    for i in numbers:
        members[f"{i:06d}.png"] = png(i)
        members[f"{i:06d}.json"] = json.dumps(
            {"label": LABELS[i % 3], "patient": i // 2, "size": {"w": 8}, "tags": ["x"]}
        )
    return write_tar(path, members)


def parquet(path: Path, numbers: range, **more) -> Path:
    """Write a Parquet file as `datasets` does."""
    rows = [{"bytes": png(i), "path": f"{i}.png"} for i in numbers]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table({"image": pa.array(rows, kind), "label": [i % 3 for i in numbers], **more})
    names = {"label": {"names": LABELS, "_type": "ClassLabel"}, "image": {"_type": "Image"}}
    info = {b"huggingface": json.dumps({"info": {"features": names}}).encode()}
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.replace_schema_metadata(info), path, row_group_size=2)
    return path


def cut(path: Path, size: int) -> None:
    """Cut a file off."""
    path.write_bytes(path.read_bytes()[:size])
