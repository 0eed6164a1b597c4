"""Updates on the trajectories whose rewards differ most (arXiv 2504.13818, and arXiv 2606.00135)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
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

    Logged under `down_sample/`: of everything that was sampled, the number of trajectories (`sampled`), their mean
    `reward` and the mean `variance` of their groups; of what is trained on, the numbers of `groups` and of trajectories
    (`kept`), `reward_kept` and `variance_kept`; and the number of groups with `no_contrast`.

    Args:
        rule: What is kept; `none` = everything.
        keep: Trajectories of each group.
        seed: Of the draws of rule `random`, which follow from (seed, rollout, task).

    Raises:
        ConfigError: If `keep` is less than 1, more than a group has, or 1 with advantages relative to the kept ones.
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
        if self._rule == "none" or not isinstance(pl_module, GRPOModule):
            return
        if self._keep > (size := pl_module.grpo.group_size):
            raise ConfigError(
                f"Expected `down_sample.keep` to be at most `grpo.group_size` {size}, but got {self._keep}"
            )
        if self._keep == 1 and pl_module.grpo.advantage_statistics == "kept":
            raise ConfigError(
                "Expected `down_sample.keep` to be at least 2 with `grpo.advantage_statistics: kept`, but got 1, which "
                "has no contrast"
            )

    def observe_groups(self, module: LightningModule, groups: Sequence[Group]) -> None:
        """Log what was sampled."""
        sampled = [group.all_rewards for group in groups]
        totals = sum_over_ranks(sum(map(len, sampled)), *_sums(sampled), device=module.device)
        _log(module, {"sampled": totals[0], **_means(totals[1:])})

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
        self._log_kept(module, kept)
        return kept

    def _log_kept(self, module: GRPOModule, groups: Sequence[Group]) -> None:
        with_contrast = [group for group in groups if not lacks_contrast(group, config=module.grpo)]
        left = with_contrast if module.grpo.drop_zero_variance_groups else groups
        trained = [group.rewards for group in left]
        counts = (len(groups) - len(with_contrast), len(trained), sum(map(len, trained)))
        totals = sum_over_ranks(*counts, *_sums(trained), device=module.device)
        values = dict(zip(("no_contrast", "groups", "kept"), totals, strict=False))
        _log(module, values | {f"{name}_kept": value for name, value in _means(totals[3:]).items()})


def _log(module: LightningModule, values: Mapping[str, float]) -> None:
    module.log_dict({f"down_sample/{name}": value for name, value in values.items()}, batch_size=1)


def _means(sums: Sequence[float]) -> dict[str, float]:
    reward, scored, variance, num_groups = sums
    return {
        "reward": reward / scored if scored else math.nan,
        "variance": variance / num_groups if num_groups else math.nan,
    }


def _sums(rewards: Sequence[Sequence[float | None]]) -> tuple[float, float, float, float]:
    """Sum and number of scored rewards; sum of the variances of groups, and number of groups that have any."""
    scored = [[reward for reward in group if reward is not None] for group in rewards]
    variances = [statistics.pvariance(group) for group in scored if group]
    return sum(map(sum, scored)), sum(map(len, scored)), sum(variances), len(variances)
