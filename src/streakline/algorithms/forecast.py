"""What streak filter, down-sampling and prefix tree are worth, from where the time of some steps went."""

from __future__ import annotations


def speed_ups(
    *,
    rollout_s: float,
    update_s: float,
    spared: float,
    row_tokens: float,
    computed_share: float,
    kept: float,
    sampled: float,
    head_tokens: float = 0.0,
) -> dict[str, float]:
    """How many times as long the same steps would take with all tasks, all trajectories and padded rows.

    Updates cost what they compute, attention apart. The filter spares no update: what it skips has no contrast, and is
    left out anyway (unless `drop_zero_variance_groups` is off: it then spares more).

    Args:
        rollout_s: Seconds for all rollouts, those that the filter spares included.
        update_s: Seconds for the passes over what is trained on.
        spared: Share of the rollouts that the filter spares.
        row_tokens: Tokens in padded rows for each trained token.
        computed_share: Tokens computed / tokens in padded rows; 1 = no tree.
        kept: Trajectories of a group that are trained on: m.
        sampled: Trajectories of a group: n.
        head_tokens: What a trained token costs in the output head, in tokens.

    Example:
        Rollouts take 2 s, an update 1 s: for 4 of 8 trajectories, with half of the tokens of padded rows::

            >>> found = speed_ups(rollout_s=2, update_s=1, spared=0.5, row_tokens=9, computed_share=0.5, kept=4,
            ...                   sampled=8)
            >>> {name: round(value, 2) for name, value in found.items()}
            {'streak filter': 1.2, 'down-sampling': 1.5, 'prefix tree': 1.64, 'together': 3.0}
    """
    # Of one group, for each trained token of a row: a shared part, computed once, and an own one of each row.
    padded = kept * row_tokens
    computed = padded * computed_share
    shared = (padded - computed) / (kept - 1) if kept > 1 else 0.0
    computed_all = shared + (computed - shared) * sampled / kept
    second = update_s / (computed + head_tokens * kept)
    full = second * (padded + head_tokens * kept) * sampled / kept
    seconds = {
        "streak filter": rollout_s * (1 - spared) + full,
        "down-sampling": rollout_s + full * kept / sampled,
        "prefix tree": rollout_s + second * (computed_all + head_tokens * sampled),
        "together": rollout_s * (1 - spared) + update_s,
    }
    return {name: (rollout_s + full) / value for name, value in seconds.items()}


def share_spared(*, all_correct: float, k: int | None, rest: int | None, probe_fraction: float, epochs: int) -> float:
    """Share of the rollouts of all epochs that a filter spares, if the tasks that are all right now stay so.

    Each of them is attempted in `k` epochs (None = in all), then skipped in `rest` (None = in all that follow), and so
    on.

    Example:
        Half of the tasks are skipped in the second and in the last of four epochs:

        >>> share_spared(all_correct=0.5, k=1, rest=1, probe_fraction=0.0, epochs=4)
        0.25
    """
    if k is None:
        return 0.0
    period = k + (epochs if rest is None else rest)
    return all_correct * (1 - probe_fraction) * sum(epoch % period >= k for epoch in range(epochs)) / epochs
