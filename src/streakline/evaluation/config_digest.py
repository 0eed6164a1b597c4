"""What tells whether two runs compute the same."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

_NOT_HASHED: Final = frozenset({"config", "ckpt_path", "verbose", "return_predictions"})
"""What does not change what is computed."""


def config_digest(config: dict[str, Any]) -> str:
    """Hash what decides what a run computes: everything but its name, its place and what it is resumed from.

    The sha256 in hex is equal for configurations that differ in order or spelling only.
    """
    hashed = {key: value for key, value in config.items() if key not in _NOT_HASHED | {"run"}}
    hashed["seed"] = config.get("run", {}).get("seed")
    return hashlib.sha256(json.dumps(hashed, sort_keys=True, default=str).encode()).hexdigest()
