"""Weights on disk, read without running anything that the file contains."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from labeltree.atomic import atomic_write
from labeltree.safe_files import Reader, read_tensors, read_torch

__all__ = ["add_weights", "load_weights", "misfits", "read_weights", "save_weights"]

_WRAPPERS = ("state_dict", "model_state_dict", "model")
_CLASSIFIERS = ("fc.", "head.", "heads.", "classifier.")
_WEIGHTS = Reader(
    "weights of an encoder", "name a .safetensors file, or a PyTorch file that holds tensors by name alone"
)


def save_weights(module: nn.Module, path: str | Path) -> None:
    """Write the state dict of `module` to `path` as safetensors; the file appears complete or not at all."""
    from safetensors.torch import save

    state = {key: value.detach().clone().contiguous() for key, value in module.state_dict().items()}
    with atomic_write(path) as temporary:
        temporary.write_bytes(save(state))


def add_weights(digest: Any, module: nn.Module) -> None:
    """Add names and values of all tensors of a module to a digest of `hashlib`."""
    for name, value in sorted(module.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """The tensors in a file of safetensors (`.safetensors`) or of PyTorch (any other suffix).

    Raises:
        DataError: The file is missing, unreadable, or holds more than tensors. Nothing in it is executed.
    """
    path = Path(path)
    if path.suffix == ".safetensors":
        return read_tensors(path, _WEIGHTS)
    content = read_torch(path, _WEIGHTS)
    for wrapper in _WRAPPERS:
        if isinstance(content, Mapping) and isinstance(content.get(wrapper), Mapping):
            content = content[wrapper]
    named = isinstance(content, Mapping) and all(isinstance(key, str) for key in content)
    if not named or not all(isinstance(value, Tensor) for value in content.values()):
        raise _WEIGHTS.failure(path, "it holds no state dict, that is, tensors by name")
    return dict(content)


def load_weights(module: nn.Module, path: str | Path) -> None:
    """Load the weights in `path` into `module`; the file must have every tensor of `module`.

    The prefixes "module." and "encoder." are removed; a classifier that `module` lacks is ignored. Of a file
    with tensors under "encoder." and others, such as a run's, only those under "encoder." are loaded; of an
    encoder with an adapter, only the encoder below it.

    Raises:
        ValueError: Tensors are missing, left over or of another shape; the message names them.
    """
    state = read_weights(path)
    expected = module.state_dict()
    if state and all(key.startswith("module.") for key in state):
        state = _below(state, "module.")
    if not any(key.startswith("encoder.") for key in expected):
        state = _below(state, "encoder.") or state
    if not any(key.startswith("base.") for key in expected):
        state = _below(state, "base.") or state
    if not any(key.startswith("net.") for key in state) and all(key.startswith("net.") for key in expected):
        state = {f"net.{key}": value for key, value in state.items()}  # the wrapped library's own file
    state = {
        k: v for k, v in state.items() if k in expected or not k.removeprefix("net.").startswith(_CLASSIFIERS)
    }
    if problems := misfits(expected, state):
        raise ValueError(f"weights: {path} does not fit the encoder: {problems}")
    module.load_state_dict(state)


def misfits(expected: Mapping[str, Tensor], state: Mapping[str, Any]) -> str:
    """The weights in a file that do not match a module, by name, as text; empty if all match."""
    problems = [
        f"{title} {', '.join(sorted(names)[:3])}" + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        for title, names in (
            ("missing", expected.keys() - state.keys()),
            ("not part of it", state.keys() - expected.keys()),
            (
                "of another shape",
                {
                    key
                    for key in state.keys() & expected.keys()
                    if getattr(state[key], "shape", None) != expected[key].shape
                },
            ),
        )
        if names
    ]
    return "; ".join(problems)


def _below(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin with the prefix, without it."""
    return {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
