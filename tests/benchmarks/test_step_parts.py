"""A step that is cut into parts learns what the whole step does."""

import copy
import importlib
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("objective", ["hwc+lam", "mlcl", "maskcon", "ce"])
def test_the_same_weights(objective: str, tmp_path: Path) -> None:
    parts, script = importlib.import_module("step_parts"), importlib.import_module("training_step")
    setting = script.Setting("small-conv", 16, "cpu", "32", samples=200, rounds=1, batch=24)
    experiment = script.trainee_of(objective, setting, script.source_of(setting))
    (batch, *_) = script.batches_of(experiment, setting)
    whole = experiment.module.train()
    whole.log = lambda *_, **__: None
    cut = copy.deepcopy(whole)
    start = {name: value.clone() for name, value in whole.named_parameters()}
    optimizer, theirs = (torch.optim.SGD(module.parameters(), lr=0.1) for module in (whole, cut))
    torch.manual_seed(0)
    whole.training_step(batch, 0).backward()
    optimizer.step()
    torch.manual_seed(0)
    seconds = parts.PartedStep(cut, theirs)(batch)
    assert tuple(seconds) == parts.PARTS
    assert all(value > 0 for name, value in seconds.items() if name != "keys")
    assert (seconds["keys"] > 0) == (objective == "maskcon")
    expected = whole.state_dict()
    for name, value in cut.state_dict().items():
        torch.testing.assert_close(value, expected[name], msg=name)
    learn = [name for name, value in whole.named_parameters() if value.requires_grad]
    assert all(not torch.equal(start[name], expected[name]) for name in learn if name.endswith("weight"))
    hooks = [[len(each._forward_pre_hooks) for each in module.modules()] for module in (whole, cut)]
    assert hooks[0] == hooks[1]  # its own are taken off
