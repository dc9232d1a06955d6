"""The script of an exported folder, as a module."""

from pathlib import Path
from types import ModuleType


def load_exported_script(folder: Path) -> ModuleType:
    """Load ``predict.py``, and leave no bytecode beside it, which would hold the path of the folder."""
    path = folder / "predict.py"
    script = ModuleType("predict")
    script.__file__ = str(path)
    exec(compile(path.read_text("utf-8"), str(path), "exec"), vars(script))
    return script
