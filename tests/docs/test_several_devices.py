"""The page on several devices: its program ends with equal weights in five ways, on two ranks as in one."""

import re
from pathlib import Path

import pytest

from forked import run_two_ranks

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "several-devices.md"


@pytest.mark.long
def test_five_ways_learn_the_same_on_two_ranks(tmp_path: Path) -> None:
    """In one process the page is run as all pages are."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    program = "\n".join([*blocks, "assert world == distributed.get_world_size() == 2"])
    run_two_ranks(program, [], tmp_path)
