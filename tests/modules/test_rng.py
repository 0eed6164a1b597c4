import torch

from streakline.modules.rng import capture_rng, restore_rng


def test_a_restored_generator_draws_the_same_again(tmp_path):
    torch.manual_seed(3)
    torch.rand(5)
    torch.save(capture_rng(), tmp_path / "state.pt")
    expected = torch.rand(5)
    torch.manual_seed(4)

    restore_rng(torch.load(tmp_path / "state.pt", weights_only=True))

    assert torch.equal(torch.rand(5), expected)


def test_states_of_absent_gpus_are_left_alone():
    state = capture_rng()
    restore_rng({"cpu": state["cpu"], "cuda": [torch.zeros(16, dtype=torch.uint8)] * 99})

    assert torch.equal(torch.get_rng_state(), state["cpu"])
