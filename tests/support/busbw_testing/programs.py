"""Programs of the repository that are no part of the package, as modules: a test and they have one source."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[3]


def program(path: str) -> ModuleType:
    """The program at a path below the repository's root, loaded afresh."""
    spec = importlib.util.spec_from_file_location(f"busbw_program_{Path(path).stem}", ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module
