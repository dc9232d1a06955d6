"""The stages of a transformer of the library transformers: embeddings, then layer after layer."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

__all__ = ["transformer_stages"]


def transformer_stages(transformer: nn.Module, after: Sequence[nn.Module] = ()) -> list[nn.Module]:
    """What lies before the layers, then every layer; what lies behind them belongs to the last one.

    The layers are the longest list of modules in `transformer`. Which modules lie before it and which
    behind is told from the order in which `transformer` names its parts, as its authors wrote them.

    Args:
        transformer: the model.
        after: modules that its output goes through.
    """
    lists = [(len(m), name) for name, m in transformer.named_modules() if isinstance(m, nn.ModuleList)]
    if not lists:
        return [nn.ModuleList([transformer, *after])]
    path = max(lists, key=lambda found: found[0])[1].split(".")
    first: list[nn.Module] = []
    last: list[nn.Module] = []
    here = transformer
    for step in path:
        children = list(here.named_children())
        position = [name for name, _ in children].index(step)
        behind = children[position + 1 :]
        first += [child for _, child in children[:position]]
        # MPNet names a table of positions after its layers, but every layer reads it.
        first += [child for name, child in behind if "position" in name or "bias" in name]
        last = [child for name, child in behind if not ("position" in name or "bias" in name)] + last
        here = children[position][1]
    layers = list(here.children())
    layers[-1] = nn.ModuleList([layers[-1], *last, *after])
    return [nn.ModuleList(first), *layers] if first else layers
