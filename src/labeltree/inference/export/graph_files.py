"""The files that hold the graph of a run: ONNX, and a program of `torch.export`."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from labeltree.errors import RunError
from labeltree.inference.decider import Decider
from labeltree.inference.export.model_graph import LEAST_TOKENS, OUTPUTS, ModelGraph, example_inputs

__all__ = ["need_onnx", "write_onnx", "write_program"]

_OPSET = 20
_LARGEST = 1_900_000_000  # bytes of an ONNX file; its weights must lie beside it above 2 GiB
_CLOSE = 1e-4


def need_onnx() -> None:
    """Raise an ImportError that names the extra unless the ONNX libraries are installed."""
    missing = [name for name in ("onnx", "onnxscript", "onnxruntime") if find_spec(name) is None]
    if missing:
        raise ImportError(
            f"the format onnx needs {' and '.join(missing)}; install what it needs with: "
            "pip install 'labeltree[export]', or leave that format out"
        )


def write_onnx(decider: Decider, path: Path) -> None:
    """Write the graph of a run as ONNX, and check that onnxruntime computes the same from it.

    The batch is dynamic, and so is the number of tokens. Names and traces of source files, which PyTorch
    writes into it, are removed.

    Args:
        decider: The run with its classifier and decision rule.
        path: The file; above 2 GB the weights are written beside it, as `.data`.

    Raises:
        ImportError: If the libraries of the extra `export` are missing.
        RunError: If the encoder or the classifier cannot be exported, or if the results differ.
    """
    need_onnx()
    import onnx

    graph, example = ModelGraph(decider).eval(), example_inputs(decider)
    with _quiet(), _exporting(decider, "ONNX"), torch.no_grad():
        program: Any = torch.onnx.export(
            graph,
            (example,),
            dynamo=True,
            dynamic_shapes=(_shapes(graph),),
            input_names=["inputs"],
            output_names=list(OUTPUTS),
            opset_version=_OPSET,
            verbose=False,
        )
        model = program.model_proto
    _strip(model)
    large = sum(len(tensor.raw_data) for tensor in model.graph.initializer) > _LARGEST
    onnx.save(model, str(path), save_as_external_data=large, location=f"{path.name}.data")
    _check(decider, graph, path, example)


def write_program(decider: Decider, path: Path) -> None:
    """Write the graph of a run as a program that `torch.export.load` reads, without traces of source files.

    Raises:
        RunError: If the encoder or the classifier cannot be exported.
    """
    graph, example = ModelGraph(decider).eval(), example_inputs(decider)
    with _quiet(), _exporting(decider, "torch"), torch.no_grad():
        program = torch.export.export(graph, (example,), dynamic_shapes=(_shapes(graph),))
        for module in program.graph_module.modules():
            for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
                for name in ("stack_trace", "nn_module_stack", "source_fn_stack", "from_node"):
                    node.meta.pop(name, None)
        program._example_inputs = None
        buffer = io.BytesIO()
        torch.export.save(program, buffer)
    path.write_bytes(buffer.getvalue())


def _shapes(graph: ModelGraph) -> dict[int, Any]:
    samples = torch.export.Dim("samples", min=1)
    if not graph.reads_tokens:
        return {0: samples}
    return {0: samples, 1: torch.export.Dim("tokens", min=LEAST_TOKENS, max=graph.most_tokens)}


@contextlib.contextmanager
def _exporting(decider: Decider, form: str) -> Iterator[None]:
    """Turn what the exporter raises, pages about its inner graph, into a sentence."""
    try:
        yield
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        recipe, reason = decider.run.recipe, "".join(lines[:1])[:200] or "no reason given"
        raise RunError(
            f"encoder '{recipe.encoder}' with objective '{recipe.objective}' and classifier "
            f"'{decider.chosen.name}' cannot be written as {form} ({type(error).__name__}: {reason}); "
            "leave that format out"
        ) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the notes of the exporter for themselves."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir", "torch.export")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def _strip(model: Any) -> None:
    """Remove all that describes where a graph came from."""
    model.doc_string = ""
    del model.metadata_props[:]
    for function in model.functions:
        _strip_graph(function)
    _strip_graph(model.graph)


def _strip_graph(graph: Any) -> None:
    graph.doc_string = ""
    parts = [graph, *graph.node, *graph.value_info]
    for name in ("initializer", "input", "output"):
        entries = getattr(graph, name)
        parts += [part for part in entries if not isinstance(part, str)]  # a function's are names
    for part in parts:
        part.doc_string = ""
        if hasattr(part, "metadata_props"):
            del part.metadata_props[:]
    for node in graph.node:
        for attribute in node.attribute:
            for inner in [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]:
                _strip_graph(inner)


def _check(decider: Decider, graph: ModelGraph, path: Path, example: Tensor) -> None:
    """Compare what onnxruntime computes with what PyTorch does, for a batch of another size."""
    import onnxruntime

    inputs = torch.cat([example, example.flip(1) if graph.reads_pixels else example, example[:1]])
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    outputs = session.run(list(OUTPUTS), {"inputs": inputs.numpy()})
    with torch.no_grad():
        expected = graph(inputs)
    for name, mine, theirs in zip(OUTPUTS, expected, outputs, strict=True):
        mine, other = mine.double(), torch.from_numpy(theirs).double()
        if name == "log_probabilities":
            mine, other = mine.exp(), other.exp()
        difference = float((mine - other).abs().max() / mine.abs().max().clamp(min=1.0))
        if not difference <= _CLOSE:
            raise RunError(
                f"onnxruntime computes other {name.replace('_', ' ')} than PyTorch from the exported encoder "
                f"'{decider.run.recipe.encoder}' (difference {difference:.1e}); leave the format onnx out"
            )
