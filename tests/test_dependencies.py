"""What is imported is declared, and what is declared is imported."""

import ast
import re
import sys
import tomllib
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
# Packages whose import has another name.
IMPORTED_AS = {
    "scikit-learn": "sklearn",
    "pillow": "PIL",
    "pillow-heif": "pillow_heif",
    "pyyaml": "yaml",
    "resvg-py": "resvg_py",
    "huggingface-hub": "huggingface_hub",
    "markdown-it-py": "markdown_it",
    "sentence-transformers": "sentence_transformers",
    "open-clip-torch": "open_clip",
    "fastapi-offline": "fastapi_offline",
    "python-multipart": "python_multipart",
    "qdrant-client": "qdrant_client",
    "umap-learn": "umap",
}
# Comes with torch where there are GPUs; the kernels are left out where it is not there.
WITH_TORCH = {"triton"}
# Imported by Lightning's loggers, which `labeltree.training.fit` opens.
BY_LIGHTNING = {"mlflow-skinny", "tensorboard"}
# Imported by torch.onnx, which `labeltree.inference.export.graph_files` calls.
BY_TORCH = {"onnxscript"}
# Opened by fsspec, by the scheme of an address.
BY_FSSPEC = {"s3fs"}
# Extras for people who work on labeltree, not for those who use it.
NOT_FOR_USERS = ("dev", "docs", "bench")
MAY_BE_IMPORTED = re.compile(r"^\s*(?:import|from)\s+(\w+)", re.MULTILINE)


@cache
def imported() -> dict[str, str]:
    """Every library that the package imports, and one file that does."""
    own = {"labeltree", *sys.stdlib_module_names}
    found: dict[str, str] = {}
    for file in sorted((ROOT / "src").rglob("*.py")):
        text = file.read_text("utf-8")
        if own.union(found).issuperset(MAY_BE_IMPORTED.findall(text)):  # others need no parsing
            continue
        for node in ast.walk(ast.parse(text)):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            for name in names:
                found.setdefault(name.split(".")[0], str(file.relative_to(ROOT)))
    return {name: file for name, file in found.items() if name not in own}


def libraries(requirements: list[str]) -> set[str]:
    names = [re.split(r"[^\w-]", requirement)[0].lower() for requirement in requirements]
    return {IMPORTED_AS.get(name, name) for name in names}


def test_imports_and_dependencies_are_the_same() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    always = libraries(project["dependencies"])
    declared = always.union(*(libraries(extras[name]) for name in extras if name not in NOT_FOR_USERS))
    undeclared = {name: file for name, file in imported().items() if name not in declared | WITH_TORCH}
    assert undeclared == {}
    assert declared - set(imported()) == BY_LIGHTNING | BY_TORCH | BY_FSSPEC
    # A package is needed always or for an extra, not both.
    assert all(not always & libraries(extras[name]) for name in extras if name != "dev")


def test_versions_of_all_dependencies_are_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    names = {re.split(r"[^\w-]", requirement)[0].lower().replace("_", "-") for requirement in wanted}
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in lines if "==" in line}
    assert names - pinned == set()
