"""Seeds derived from identity, so that a draw never depends on what else is in the batch."""

from __future__ import annotations

import hashlib
import json


def derive_seed(*, run_seed: int, epoch: int, task_id: str, group_member: int, turn: int) -> int:
    """Hash what identifies one assistant turn to the seed of its draws: the first 63 bits of a SHA-256.

    Example:
        >>> first = derive_seed(run_seed=0, epoch=0, task_id="a", group_member=0, turn=0)
        >>> first == derive_seed(run_seed=0, epoch=0, task_id="a", group_member=1, turn=0)
        False
    """
    # JSON keeps the fields apart: ("a", 11) and ("a1", 1) must not collide.
    identity = json.dumps([run_seed, epoch, task_id, group_member, turn])
    return int.from_bytes(hashlib.sha256(identity.encode()).digest()[:8], "big") >> 1
