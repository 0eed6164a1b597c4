import torch
from tests.rollout.tiny_models import tiny_model

from streakline.policy.probe import altering_options, eval_mode, rounding_tolerance


def test_each_module_gets_its_own_mode_back_also_after_an_error():
    model = tiny_model()
    model.lm_head.eval()
    before = [module.training for module in model.modules()]

    try:
        with eval_mode(model):
            assert not any(module.training for module in model.modules())
            raise RuntimeError
    except RuntimeError:
        pass

    assert [module.training for module in model.modules()] == before


def test_only_options_that_are_set_alter_attention():
    options = {"softcap": None, "s_aux": 1.0, "window": 3, "dropout": None}

    assert altering_options(options) == ["s_aux"]
    assert altering_options(options, "dropout", "window") == ["s_aux", "window"]


def test_lower_precision_may_round_more():
    model = tiny_model()

    assert rounding_tolerance(model) < rounding_tolerance(model.to(torch.bfloat16))
