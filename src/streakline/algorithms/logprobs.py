"""Log-probabilities of the trained tokens of a batch, without logits for the tokens that are not trained.

In tool calling most tokens are prompt and tool results. The decoder runs over all of them, but the output head, whose
[T, V] result is the largest tensor of the step, only where a token is trained, and in chunks that are recomputed in
the backward pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, cast
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from streakline.algorithms.prefix_tree import PrefixTree

_BARRED = -1e30  # Finite, since 0 * -inf in the entropy is nan.


class CausalLM(Protocol):
    """What is asked of a model: Hugging Face's causal models have it, PEFT's wrappers pass it on."""

    def get_decoder(self) -> nn.Module:
        """The part that turns token ids into hidden states."""

    def get_output_embeddings(self) -> nn.Module:
        """The head that turns hidden states into logits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprobs:
    """Per-token values, 0 where `loss_mask` is False. Column t is about the token in column t."""

    logprobs: torch.Tensor
    """[B, T] float32 natural log-probabilities; carries the gradient."""
    entropy: torch.Tensor
    """[B, T] float32 entropy in nats of the distribution that the token was drawn from; detached unless asked for."""
    is_argmax: torch.Tensor
    """[B, T] bool: whether the token is the likeliest one."""


def token_logprobs(
    model: nn.Module,
    *,
    input_ids: torch.Tensor,
    loss_mask: torch.Tensor,
    temperature: float = 1.0,
    barred: tuple[int, torch.Tensor] | None = None,
    tree: PrefixTree | None = None,
    entropy_gradient: bool = False,
    chunk: int = 2048,
) -> TokenLogprobs:
    """Score the tokens of right-padded [B, T] rows where `loss_mask` is True; nothing predicts the first column.

    Padding stands to the right of what is scored, where causal attention never looks. So no mask is given to the model:
    with one, torch's kernels compute all pairs of tokens in place of half of them.

    `model` is a `CausalLM`. `temperature` divides the logits, as it did when the tokens were sampled. `barred` is a
    token and the places, [B, T] bool, in which it could not be drawn. The logits of `chunk` tokens exist at once.

    `tree` holds the same rows, for a model whose attention follows it (`policy/tree_forward.py`): what rows share is
    then computed once, a trained token that several rows share too, and its gradient is the sum over them.

    A model whose logits are more than its head's output (a soft cap or a scale, as in Gemma 2 or Cohere) is scored
    through its own forward pass, which computes all logits.
    """
    is_barred = torch.zeros_like(loss_mask)[loss_mask] if barred is None else barred[1][loss_mask]  # [M]
    if tree is None:
        inputs: dict[str, object] = {"input_ids": input_ids}
        predictors, targets = loss_mask.flatten().nonzero()[:, 0] - 1, input_ids[loss_mask]
    else:
        # A mask of four dimensions is handed on as it is; the attention function looks at the tree instead.
        unused = torch.zeros(1, 1, 1, 1, device=input_ids.device)
        inputs = {"input_ids": tree.token_ids[None], "position_ids": tree.depths[None], "attention_mask": unused}
        inputs["tree"] = tree
        # A token that rows share is scored once, or twice if it was barred in one row and not in another.
        scored, rows_of_scored = torch.unique(tree.nodes[loss_mask] * 2 + is_barred, return_inverse=True)
        predictors, targets, is_barred = tree.parents[scored // 2], tree.token_ids[scored // 2], scored % 2 == 1
    if _head_is_last(model):
        states, head = _decoder(model)(use_cache=False, **inputs).last_hidden_state, _head(model)
    else:
        states, head = model(use_cache=False, **inputs).logits, nn.Identity()
    selected = states.flatten(0, 1).index_select(0, predictors)  # [N, H] or [N, V]
    barred_id = None if barred is None else barred[0]
    parts = zip(*(torch.split(part, chunk) for part in (selected, targets, is_barred)), strict=True)
    values = [
        _score(
            head,
            *part,
            barred_id=barred_id,
            temperature=temperature,
            entropy_gradient=entropy_gradient,
            recompute=len(targets) > chunk,
        )
        for part in parts
    ]
    logprobs, entropy, is_argmax = (torch.cat(parts) for parts in zip(*values, strict=True))
    if tree is not None:
        logprobs, entropy, is_argmax = (part[rows_of_scored] for part in (logprobs, entropy, is_argmax))
    blank = torch.zeros(input_ids.shape, dtype=torch.float32, device=input_ids.device)
    return TokenLogprobs(
        logprobs=blank.masked_scatter(loss_mask, logprobs),
        entropy=blank.masked_scatter(loss_mask, entropy),
        is_argmax=torch.zeros_like(loss_mask).masked_scatter(loss_mask, is_argmax),
    )


def _score(
    head: nn.Module,
    hidden: torch.Tensor,
    targets: torch.Tensor,
    places: torch.Tensor,
    *,
    barred_id: int | None,
    temperature: float,
    entropy_gradient: bool,
    recompute: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Values of one chunk: [N] log-probabilities, entropies and argmax flags; [N] `places` of the barred token."""

    def score(hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        # float32 whatever the head computes in: a bfloat16 log-softmax is off by up to 0.4%.
        logits = head(hidden).float()  # [N, V]
        if temperature != 1.0:
            logits = logits / temperature
        if barred_id is not None:
            logits[places, barred_id] = _BARRED
        logprobs = torch.log_softmax(logits, dim=-1)
        if entropy_gradient:
            entropy = -(logprobs.exp() * logprobs).sum(-1)
        else:  # in place: one [N, V] tensor less
            entropy = -logprobs.detach().exp().mul_(logprobs.detach()).sum(-1)
        is_argmax = logprobs.detach().argmax(-1) == targets
        return logprobs.gather(-1, targets.unsqueeze(-1)).squeeze(-1), entropy, is_argmax

    if recompute and torch.is_grad_enabled():
        values: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = checkpoint(score, hidden, use_reentrant=False)
        return values
    return score(hidden)


_HEAD_IS_LAST: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()


def _head_is_last(model: nn.Module) -> bool:
    """Whether logits = head(decoder(ids)) exactly, tried once a model.

    Tried on two tokens and compared bit by bit, because the names under which architectures keep a cap or a scale are
    endless.
    """
    if model not in _HEAD_IS_LAST:
        _HEAD_IS_LAST[model] = _probe(model)
    return _HEAD_IS_LAST[model]


def _probe(model: nn.Module) -> bool:
    seen: dict[str, torch.Tensor] = {}

    def keep(_module: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        seen["input"], seen["output"] = inputs[0], output

    def keep_states(_module: nn.Module, _inputs: object, output: object) -> None:
        seen["states"] = output.last_hidden_state  # type: ignore[attr-defined]

    device = next(model.parameters()).device
    handles = [_head(model).register_forward_hook(keep), _decoder(model).register_forward_hook(keep_states)]
    devices = [device] if device.type == "cuda" else []
    try:
        # Dropout may draw here: the generators are put back, so that a resumed run draws what an unbroken one does.
        with torch.no_grad(), torch.random.fork_rng(devices=devices):
            logits = model(input_ids=torch.tensor([[0, 1]], device=device), use_cache=False).logits
    finally:
        for handle in handles:
            handle.remove()
    if seen.keys() != {"input", "output", "states"}:
        return False
    return torch.equal(seen["input"], seen["states"]) and torch.equal(seen["output"].float(), logits.float())


def _decoder(model: nn.Module) -> nn.Module:
    return cast(CausalLM, model).get_decoder()


def _head(model: nn.Module) -> nn.Module:
    return cast(CausalLM, model).get_output_embeddings()
