"""What trying a model out needs: its own modes put back, the rounding it may show, the options that alter attention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from transformers import PreTrainedModel


@contextmanager
def eval_mode(network: PreTrainedModel) -> Iterator[None]:
    """Switch dropout and its kind off; afterwards each module is in the mode it was in."""
    training = [module for module in network.modules() if module.training]
    network.train(False)
    try:
        yield
    finally:
        for module in training:
            module.training = True


def rounding_tolerance(network: PreTrainedModel) -> float:
    """Largest difference of log-probabilities that rounding explains."""
    if network.dtype != torch.float32:
        return 0.2
    # On a GPU the products may be in TensorFloat-32, with 10 bits of mantissa.
    return 1e-3 if network.device.type == "cpu" else 0.05


def altering_options(options: Mapping[str, object], *others: str) -> list[str]:
    """Names of the options given to an attention function, of some and `others`, that make it no plain softmax."""
    return [name for name in ("softcap", "s_aux", "position_bias", *others) if options.get(name) is not None]
