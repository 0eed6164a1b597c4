"""Draw tokens from logits: inverse CDF on uniforms that belong to the row, so the batch doesn't matter."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import numpy as np
import torch

from streakline.rollout.sampling import SamplingPolicy


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


def uniforms(seed: int, count: int) -> list[float]:
    """Draw the [count] numbers in [0, 1) of one assistant turn, from a Philox stream keyed by its seed.

    More tokens of the same turn would continue the same stream.
    """
    drawn: list[float] = np.random.Generator(np.random.Philox(key=seed)).random(count).tolist()
    return drawn


def draw_tokens(
    logits: torch.Tensor,
    numbers: Sequence[float],
    *,
    sampling: SamplingPolicy,
    terminator_ids: Sequence[int],
    may_stop: Sequence[bool],
) -> tuple[list[int], list[float]]:
    """Draw one token for each row of logits [B, V], by [B] numbers in [0, 1), which are unused when greedy.

    `may_stop` [B] is False where no terminator may be drawn yet. Gives [B] token ids, and [B] natural log-probabilities
    under the distribution that was drawn from (temperature 1 when greedy). A row without a finite distribution has
    log-probability nan.
    """
    scores = logits.float()
    if not all(may_stop):
        barred = torch.tensor([not flag for flag in may_stop], device=scores.device)
        columns = torch.tensor(list(terminator_ids), device=scores.device)
        scores = scores.index_fill(1, columns, -torch.inf).where(barred[:, None], scores)
    if not sampling.greedy:
        scores = scores / sampling.temperature if sampling.temperature != 1 else scores
        scores = _truncated(scores, top_k=sampling.top_k, top_p=sampling.top_p)
    logprobs = torch.log_softmax(scores, dim=-1)
    if sampling.greedy:
        tokens = logprobs.argmax(dim=-1, keepdim=True)
    else:
        tokens = _inverse_cdf(logprobs, torch.tensor(numbers, dtype=torch.float64, device=scores.device))
    # One transfer for both: on a GPU each costs a synchronisation.
    packed = torch.cat((tokens.double(), logprobs.gather(1, tokens).double()), dim=1).tolist()
    return [int(token) for token, _ in packed], [logprob for _, logprob in packed]


def _inverse_cdf(logprobs: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """[B, V] log-probabilities and [B] numbers -> [B, 1] tokens."""
    # float64: in float32 the running sum over 150 thousand tokens drifts by more than a rare token's probability.
    cumulative = logprobs.exp().cumsum(dim=-1, dtype=torch.float64)
    total = cumulative[:, -1:]
    # Strictly below the total, so that the first larger entry exists and has probability above 0.
    target = torch.minimum(numbers[:, None] * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(cumulative, target, right=True).clamp_(max=logprobs.shape[1] - 1)


def _truncated(scores: torch.Tensor, *, top_k: int, top_p: float) -> torch.Tensor:
    """Bar all but the likeliest tokens: first by number, then by mass."""
    if 0 < top_k < scores.shape[1]:
        kth = scores.topk(top_k, dim=-1).values[:, -1:]
        scores = scores.masked_fill(scores < kth, -torch.inf)
    if top_p < 1:
        ordered, order = scores.sort(dim=-1, descending=True)
        probabilities = ordered.softmax(dim=-1)
        # A token stays if the mass before it is below top_p, so the likeliest always stays.
        dropped = probabilities.cumsum(dim=-1) - probabilities >= top_p
        scores = scores.masked_fill(dropped.gather(1, order.argsort(dim=-1)), -torch.inf)
    return scores
