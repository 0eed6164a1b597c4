import pytest
import torch

from streakline.errors import DataError
from streakline.modules.checkpoint import require_same_weights

OWN = {"a": torch.zeros(2, 3), "b": torch.zeros(1)}


def test_equal_names_and_shapes_pass():
    require_same_weights(OWN, {name: weight + 1 for name, weight in OWN.items()})


@pytest.mark.parametrize(
    ("loaded", "complaint"),
    [
        ({"a": torch.zeros(2, 3)}, "1 weights missing and 0 unknown, such as b"),
        (OWN | {"c": torch.zeros(1)}, "0 weights missing and 1 unknown, such as c"),
        (OWN | {"a": torch.zeros(2, 4)}, r"a of shape \(2, 3\), but got \(2, 4\)"),
    ],
)
def test_another_architecture_is_one_clear_line(loaded, complaint):
    with pytest.raises(DataError, match=complaint) as error:
        require_same_weights(OWN, loaded)
    assert "\n" not in str(error.value)
