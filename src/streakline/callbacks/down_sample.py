"""Updates on the trajectories whose rewards differ most (arXiv 2504.13818, and arXiv 2606.00135)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import cast, final

from lightning.pytorch import Callback, LightningModule, Trainer
from typing_extensions import override

from streakline.algorithms.down_sampling import Rule, down_sample
from streakline.errors import ConfigError
from streakline.modules.buffer import lacks_contrast
from streakline.modules.distributed import sum_over_ranks
from streakline.modules.grpo import GRPOModule
from streakline.types import Group


@final
class DownSampleRollouts(Callback):
    """Keeps `keep` of the trajectories of each group, before any pass of policy or reference over them.

    Three options that runs without it have too belong to it: `grpo.advantage_statistics`, over the kept ones or over
    all; `grpo.drop_zero_variance_groups` and `grpo.zero_variance_tol`, which leave groups without contrast out whole.

    Logged under `down_sample/`: `sampled` and `kept` trajectories; `no_contrast`, the number of groups without it; mean
    reward of trajectories and mean variance of groups, of all (`reward`, `variance`) and of what is kept (`_kept`).

    Args:
        rule: What is kept; `none` = everything.
        keep: Trajectories of each group.
        seed: Of the draws of rule `random`, which follow from (seed, rollout, task).

    Raises:
        ConfigError: If `keep` is less than 1, or more than a group has.
    """

    def __init__(self, rule: Rule = "none", keep: int = 4, seed: int = 0) -> None:
        if keep < 1:
            raise ConfigError(f"Expected `down_sample.keep` to be at least 1, but got {keep}")
        self._rule: Rule = rule
        self._keep = keep
        self._seed = seed

    @override
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Check that a group has as many before the first is sampled."""
        size = pl_module.grpo.group_size if isinstance(pl_module, GRPOModule) else self._keep
        if self._rule != "none" and self._keep > size:
            raise ConfigError(
                f"Expected `down_sample.keep` to be at most `grpo.group_size` {size}, but got {self._keep}"
            )

    def select_groups(self, module: LightningModule, groups: Sequence[Group]) -> Sequence[Group]:
        """Leave the other trajectories out; `Group.all_rewards` stays as it is."""
        module = cast(GRPOModule, module)
        indices = down_sample(
            [group.rewards for group in groups],
            keep=self._keep,
            rule=self._rule,
            identities=[f"{self._seed}/{module.rollout_step}/{group.task.id}" for group in groups],
        )
        pairs = zip(groups, indices, strict=True)
        kept = [replace(group, trajectories=tuple(group.trajectories[i] for i in chosen)) for group, chosen in pairs]
        self._log(module, kept)
        return kept

    def _log(self, module: GRPOModule, groups: Sequence[Group]) -> None:
        all_rewards, kept = [group.all_rewards for group in groups], [group.rewards for group in groups]
        no_contrast = sum(lacks_contrast(group, config=module.grpo) for group in groups)
        totals = sum_over_ranks(
            no_contrast, sum(map(len, all_rewards)), sum(map(len, kept)), *_sums(all_rewards), *_sums(kept),
            device=module.device,
        )  # fmt: skip
        values = dict(zip(("no_contrast", "sampled", "kept"), totals, strict=False))
        for suffix, (reward, scored, variance, num_groups) in (("", totals[3:7]), ("_kept", totals[7:])):
            values[f"reward{suffix}"] = reward / scored if scored else math.nan
            values[f"variance{suffix}"] = variance / num_groups if num_groups else math.nan
        module.log_dict({f"down_sample/{name}": value for name, value in values.items()}, batch_size=1)


def _sums(rewards: Sequence[Sequence[float | None]]) -> tuple[float, float, float, float]:
    """Sum and number of scored rewards; sum of the variances of groups, and number of groups that have any."""
    scored = [[reward for reward in group if reward is not None] for group in rewards]
    variances = [statistics.pvariance(group) for group in scored if group]
    return sum(map(sum, scored)), sum(map(len, scored)), sum(variances), len(variances)
