"""Let a transformers model run over a prefix tree: one more attention function, and a check that the model is fit.

The function stays in place for good, and is transformers' own `sdpa` where no tree is given: under activation
checkpointing a layer is computed again in the backward pass, long after the forward call has returned.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from peft import PeftModel
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.flex_attention import flex_attention_forward
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from streakline.algorithms.logprobs import token_logprobs
from streakline.algorithms.prefix_tree import PrefixTree, TreeCost, build_tree
from streakline.algorithms.tree_attention import tree_attention
from streakline.errors import ConfigError
from streakline.policy.probe import altering_options, eval_mode, rounding_tolerance

ATTENTION_NAME = "streakline_tree"
"""Name under which transformers finds the attention function."""

# Two prompts, one row that another begins with, and a branch within a branch.
_PROBE = ((3, 1, 4, 1, 5), (3, 1, 4, 1, 5, 9, 2), (3, 1, 4, 6), (3, 1, 5, 3, 5, 8), (2, 7))


def enable_trees(model: PreTrainedModel | PeftModel) -> TreeCost | None:
    """Make a policy ready for `token_logprobs` with a tree, and give what tokens and attention cost it.

    None, with one warning and the model as it was, where trees can't be followed: attention that is no plain softmax
    over all earlier tokens, dropout in it, state that is not keys and values, or an `attn_implementation` other than
    `sdpa`, which was chosen for a reason.
    """
    network = model.get_base_model() if isinstance(model, PeftModel) else model
    if not isinstance(network, PreTrainedModel):
        raise ConfigError(f"Expected a transformers model, but got {type(network).__name__}")
    implementation = network.config._attn_implementation
    problem = _problem_of_config(network)
    if problem is None:
        network.set_attn_implementation(ATTENTION_NAME)
        problem = _problem_of_forward(model, network)
    if problem is None:
        return _cost(network)
    network.set_attn_implementation(implementation)
    warnings.warn(f"Rows are padded instead of packed as a tree: {type(network).__name__} has {problem}", stacklevel=2)
    return None


def _problem_of_config(network: PreTrainedModel) -> str | None:
    if network.config._attn_implementation not in {"sdpa", ATTENTION_NAME}:
        return f"the attention implementation {network.config._attn_implementation!r}"
    # A window or a chunk may be longer than the rows that are tried.
    others = set(network.config.to_dict().get("layer_types") or ()) - {"full_attention"}
    return f"layers of {', '.join(sorted(others))}" if others else None


def _problem_of_forward(model: torch.nn.Module, network: PreTrainedModel) -> str | None:
    """Try a small tree: names and options of architectures are endless, so what counts is the result."""
    table = network.get_input_embeddings()
    if network.config._attn_implementation != ATTENTION_NAME or not isinstance(table, torch.nn.Embedding):
        return "attention or embeddings that can't be replaced"
    device = network.device
    rows = [[token % table.num_embeddings for token in row] for row in _PROBE]
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(row, device=device) for row in rows], batch_first=True)
    columns = torch.arange(ids.shape[1], device=device)
    real = columns < torch.tensor([[len(row)] for row in rows], device=device)

    def score(tree: PrefixTree | None) -> torch.Tensor:
        return token_logprobs(model, input_ids=ids, loss_mask=real & (columns > 0), tree=tree).logprobs

    tree = build_tree(rows).to(device)
    devices = [device] if device.type == "cuda" else []
    # Mixed precision rounds the two computations apart, which would hide or feign a difference.
    with torch.no_grad(), torch.random.fork_rng(devices), torch.autocast(device.type, enabled=False):
        try:
            score(tree)  # in train mode, where there may be dropout
            with eval_mode(network):
                gap = float((score(tree) - score(None)).abs().max())
        except (RuntimeError, TypeError, ValueError) as error:
            return f"attention that can't follow one ({str(error).splitlines()[0]})"
    return None if gap <= rounding_tolerance(network) else f"other log-probabilities on one, by {gap:.2g}"


def _cost(network: PreTrainedModel) -> TreeCost:
    config = network.config  # by attribute: old architectures keep these under other names
    layers, heads = config.num_hidden_layers, config.num_attention_heads
    head_dim = config.to_dict().get("head_dim") or config.hidden_size // heads
    # Embeddings are looked up, and the head runs over trained tokens only, of which both ways have as many.
    table = network.get_input_embeddings()
    weights = sum(p.numel() for p in network.base_model.parameters()) - sum(p.numel() for p in table.parameters())
    return TreeCost(token=weights, pair=2 * layers * heads * head_dim, layers=layers)


def _attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    tree: PrefixTree | None = None,
    **options: Any,  # noqa: ANN401 - what else transformers passes on to an attention function
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Attention function in the form that transformers calls: [B, heads, T, d] in, [B, T, heads, d] out."""
    if tree is None:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **options
        )
    if altering := altering_options(options | {"dropout": dropout or None}, "dropout", "sliding_window"):
        raise ValueError(f"{', '.join(altering)}")
    if query.device.type != "cpu":
        return flex_attention_forward(module, query, key, value, tree.block_mask(), scaling=scaling)
    # Rotary embeddings may leave queries and keys in another type than values under autocast.
    packed = (x[0].transpose(0, 1).to(value.dtype) for x in (query, key, value))
    scale = scaling if scaling is not None else query.shape[-1] ** -0.5
    return tree_attention(*packed, tree=tree, scale=scale).unsqueeze(0), None


AttentionInterface.register(ATTENTION_NAME, _attention)
AttentionMaskInterface.register(ATTENTION_NAME, sdpa_mask)
