"""Loads the scripts of tools/ as modules."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
# As when a script of these folders is run, for what stands beside it.
sys.path[:0] = [str(TOOLS), str(TOOLS / "bench")]


@pytest.fixture
def load_tool(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Name of a script -> its module."""

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"tools_{name}", TOOLS / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)  # dataclasses look their module up
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def run_bench(tmp_path: Path) -> Callable[..., tuple[dict[str, float | None], str]]:
    """Name of a benchmark and its options -> the figures that it wrote, and what it printed."""

    def run(name: str, *options: object) -> tuple[dict[str, float | None], str]:
        command = [sys.executable, TOOLS / "bench" / f"{name}.py", "--json", tmp_path / "figures.json", *options]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [*map(str, command)], cwd=TOOLS.parent, capture_output=True, text=True, check=False, env=environment
        )
        assert done.returncode == 0, done.stderr
        return json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))["figures"], done.stdout

    return run
