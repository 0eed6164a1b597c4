import os
import subprocess
import sys

import pytest

PROGRAM = """
import hashlib, sys
from streakline.tasks.toolworld import ToolWorldTaskSet, demonstrate
digest = hashlib.sha256()
for task in ToolWorldTaskSet(150, split=sys.argv[1], seed=3, user_turns=(1, 2, 3)):
    digest.update(repr((task, demonstrate(task, habits={}).messages)).encode())
print(digest.hexdigest())
"""


@pytest.mark.parametrize("split", ["train", "test"])
def test_tasks_are_the_same_whatever_the_order_of_sets_in_a_process(split):
    digests = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM, split],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
        ).stdout
        for seed in (1, 2, 3)
    }
    assert len(digests) == 1
