import pytest

from streakline.errors import RecordError
from streakline.rollout.engine import GenerationRequest


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt_ids": (), "max_new_tokens": 1},
        {"prompt_ids": (1,), "max_new_tokens": 0},
        {"prompt_ids": (1,), "max_new_tokens": 2, "min_new_tokens": 3},
    ],
)
def test_a_request_that_cannot_be_met_is_refused(fields):
    with pytest.raises(RecordError, match="Expected"):
        GenerationRequest(seed=0, **fields)
