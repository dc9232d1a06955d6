"""Low-rank adaptation (LoRA) of an encoder's linear layers, by the library peft."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from labeltree.models.encoder import LORA, Encoder
from labeltree.models.local_folders import need_library

__all__ = ["add_lora", "merged_state", "need_lora"]

_ADAPTER = "default"  # peft's name of an adapter that has none


def need_lora() -> None:
    """Raise an ImportError unless peft is installed; it is not loaded."""
    need_library("trainable 'lora'", "peft", "peft", "encoders")


def add_lora(
    encoder: Encoder,
    *,
    rank: int = 8,
    alpha: int = 16,
    dropout: float = 0.0,
    targets: Sequence[str] | None = None,
) -> None:
    """Freeze an encoder and train a low-rank update of its linear layers instead (Hu et al. 2022):

        W x  →  W x + (alpha / rank) · B A x,   A (rank, in) random, B (out, rank) zero at the start

    Batch statistics are frozen with the weights. `merged_state` adds the update to the weights, so that the
    trained encoder loads without peft.

    Args:
        encoder: Changed in place, before it is copied or compiled.
        rank: Rank of the update.
        alpha: Factor of the update, times 1 / rank.
        dropout: Dropout probability of the input of the update.
        targets: The layers, by the end of their names ("q_proj", "attn.qkv"); None = all linear layers but
            those of `torch.nn.MultiheadAttention` (open_clip's), which reads their weights and does not call
            them.

    Raises:
        ImportError: Peft is not installed.
        ValueError: There are no such layers, or some cannot be adapted.
    """
    need_lora()
    from peft import LoraConfig, inject_adapter_in_model

    chosen = _targets(encoder, targets)
    config = LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=dropout, target_modules=chosen)
    try:
        inject_adapter_in_model(config, encoder)
    except ValueError as error:
        raise ValueError(f"lora.targets: encoder {encoder.name!r} cannot be adapted: {error}") from error
    for name, parameter in encoder.named_parameters():
        parameter.requires_grad_(_is_update(name))
    encoder._policy = LORA
    encoder.train(encoder.training)


def merged_state(module: nn.Module) -> dict[str, Tensor]:
    """The state dict of a module as it was before `add_lora`, with the updates added to the weights.

    Of a module without LoRA it is its own state dict.
    """
    state = dict(module.state_dict())
    for name, layer in module.named_modules():
        if hasattr(layer, "lora_A") and hasattr(layer, "get_delta_weight"):
            with torch.no_grad():
                merged = layer.base_layer.weight + layer.get_delta_weight(_ADAPTER)
            state[f"{name}.base_layer.weight"] = merged
    return {key.replace(".base_layer.", "."): value for key, value in state.items() if not _is_update(key)}


def _is_update(name: str) -> bool:
    return ".lora_" in name


def _targets(encoder: Encoder, targets: Sequence[str] | None) -> list[str]:
    """The full names of the layers to adapt."""
    known = dict(encoder.named_modules())
    if targets is None:
        layers = _linear_layers(encoder)
        if not layers:
            raise ValueError(
                f"trainable is 'lora', but encoder {encoder.name!r} has no linear layers; name its "
                "convolutions in lora.targets, or take 'last:K' or 'all'"
            )
        return layers
    for target in targets:
        if not any(_ends(name, target) for name in known):
            some = _linear_layers(encoder)[:4]
            raise ValueError(
                f"lora.targets has {target!r}, but no layer of encoder {encoder.name!r} ends in it"
                + (f"; its linear layers are {', '.join(some)} …" if some else "")
            )
    layers = [name for name in known if any(_ends(name, target) for target in targets)]
    for name in layers:
        if _reads_weights(known[name]) or name.startswith(_not_called(known)):
            raise ValueError(
                f"lora.targets: '{name}' of encoder {encoder.name!r} is of torch.nn.MultiheadAttention or "
                "the like, which cannot be adapted; name other linear layers, or leave lora.targets out"
            )
    return layers


def _linear_layers(encoder: Encoder) -> list[str]:
    known = dict(encoder.named_modules())
    not_called = _not_called(known)
    return [
        name
        for name, module in known.items()
        if isinstance(module, nn.Linear) and not name.startswith(not_called)
    ]


def _not_called(known: Mapping[str, nn.Module]) -> tuple[str, ...]:
    """The beginnings of the names of layers whose weights are read by the module that they belong to."""
    return tuple(f"{name}." for name, module in known.items() if _reads_weights(module))


def _reads_weights(module: nn.Module) -> bool:
    # The pooling of CLIP's ResNets is the other one.
    return isinstance(module, nn.MultiheadAttention) or type(module).__name__ == "AttentionPool2d"


def _ends(name: str, target: str) -> bool:
    return name == target or name.endswith(f".{target}")
