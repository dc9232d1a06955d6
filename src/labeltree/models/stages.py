"""The stages of networks of other libraries, from input to output: what the policy "last:K" counts."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

__all__ = ["block_stages", "layer_stages"]


def layer_stages(net: nn.Module, after: Sequence[nn.Module] = ()) -> list[nn.Module]:
    """The part before the layers of a transformer, then every layer; the parts after them belong to the last.

    The layers are the outermost list of modules in `net`, the longest if there are several. Its other parts
    are in the order of its children. Its output goes through the modules `after`.
    """
    lists = [(name, len(m)) for name, m in net.named_modules() if isinstance(m, nn.ModuleList) and len(m) > 1]
    if not lists:
        return [nn.ModuleList([net, *after])]
    path = min(lists, key=lambda entry: (entry[0].count("."), -entry[1]))[0].split(".")
    first: list[nn.Module] = []
    last: list[nn.Module] = []
    here = net
    for step in path:
        children = list(here.named_children())
        position = [name for name, _ in children].index(step)
        behind = children[position + 1 :]
        first += [child for _, child in children[:position]]
        # MPNet lists a table of positions after its layers, but every layer uses it.
        first += [child for name, child in behind if "position" in name or "bias" in name]
        last = [child for name, child in behind if not ("position" in name or "bias" in name)] + last
        here = children[position][1]
    layers = list(here.children())
    layers[-1] = nn.ModuleList([layers[-1], *last, *after])
    return [nn.ModuleList(first), *layers] if first else layers


def block_stages(net: nn.Module) -> list[nn.Module]:
    """The parts of an image network that hold blocks, in order.

    A single list of blocks or stages is expanded. Layers before the first part form the stem; later layers
    belong to the part after them, the last layers to the last part.
    """
    parts = _children(net)
    while len(lists := [part for part in parts if _is_list(part) and _holds_blocks(part)]) == 1:
        position = parts.index(lists[0])
        parts[position : position + 1] = _children(lists[0])
    stages: list[list[nn.Module]] = []
    pending: list[nn.Module] = []
    for part in parts:
        if not _holds_blocks(part):
            pending.append(part)
        elif pending and not stages:
            stages += [pending, [part]]
            pending = []
        else:
            stages.append([*pending, part])
            pending = []
    if not stages:  # a plain network: every layer with the parameter-free modules after it
        stages, pending = [], parts
        for part in pending:
            if stages and not _children(part):
                stages[-1].append(part)
            else:
                stages.append([part])
    else:
        stages[-1] += pending
    return [stage[0] if len(stage) == 1 else nn.ModuleList(stage) for stage in stages]


def _children(module: nn.Module) -> list[nn.Module]:
    """The direct children that have parameters."""
    return [child for child in module.children() if next(child.parameters(), None) is not None]


def _is_list(module: nn.Module) -> bool:
    return isinstance(module, nn.Sequential | nn.ModuleList) and len(_children(module)) > 1


def _holds_blocks(module: nn.Module) -> bool:
    """Whether the children of `module` contain layers, unlike the children of a convolution with its norm."""
    return any(_children(child) for child in _children(module))
