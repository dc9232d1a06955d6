"""The hooks for contributors run what `make` runs, from the same environment, and fetch nothing."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / ".pre-commit-config.yaml").read_text("utf-8")
HOOKS = [hook for repo in yaml.safe_load(TEXT)["repos"] for hook in repo["hooks"]]


def test_hooks_are_the_project_s_own() -> None:
    assert {repo["repo"] for repo in yaml.safe_load(TEXT)["repos"]} == {"local"}
    assert "http" not in TEXT
    assert {"ruff", "ruff-format", "imports", "house", "types"} == {hook["id"] for hook in HOOKS}


def test_hooks_run_what_make_runs() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for hook in HOOKS:
        program, *words = hook["entry"].split()
        assert hook["language"] == "system"
        assert program.startswith(".venv/bin/")
        assert program.replace(".venv/", "$(VENV)/").replace("$(VENV)/bin", "$(BIN)") in makefile
        re.compile(hook.get("files", ""))
        for word in words:
            if word.endswith(".py"):
                assert (ROOT / word).is_file(), f"{hook['id']}: {word}"


def test_contributors_are_told() -> None:
    assert "pre-commit install" in (ROOT / "CONTRIBUTING.md").read_text("utf-8")
