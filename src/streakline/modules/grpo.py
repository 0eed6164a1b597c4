"""Group-relative policy optimisation on rollouts of tool-calling episodes."""

import math
import warnings
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, cast, final

import torch
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from lightning.pytorch.core.optimizer import LightningOptimizer
from peft import PeftModel
from torch.optim.lr_scheduler import LRScheduler
from transformers import PreTrainedModel

from streakline.algorithms.logprobs import TokenLogprobs, token_logprobs
from streakline.algorithms.normaliser import StepTotals, token_weights
from streakline.algorithms.policy_loss import policy_loss
from streakline.algorithms.prefix_tree import PrefixTree, TreeCost
from streakline.data.packing import micro_batches
from streakline.data.rows import collate_rows, to_device
from streakline.environment.cached import CachedTools
from streakline.errors import ConfigError
from streakline.metrics.rollout import RolloutMetrics
from streakline.metrics.tiers import TierMetrics
from streakline.metrics.update import NO_UPDATE, UpdateMetrics
from streakline.modules.agent import EPISODE, HELD_OUT, RENDERING, SAMPLING, AgentModule, EngineFactory
from streakline.modules.buffer import RolloutBuffer, training_rows
from streakline.modules.distributed import local_gradients, sum_gradients, sum_over_ranks
from streakline.modules.groups import score_groups, tally_values
from streakline.modules.grpo_config import GRPOConfig
from streakline.modules.held_out import HeldOutConfig
from streakline.modules.hooks import select_groups, select_tasks
from streakline.modules.ledger import TimeLedger
from streakline.policy.config import PolicyConfig
from streakline.policy.tree_forward import enable_trees
from streakline.rendering.policy import RenderingPolicy
from streakline.rewards.base import Reward
from streakline.rollout.agent_loop import EpisodeConfig
from streakline.rollout.hf_engine import HFEngine
from streakline.rollout.sampling import SamplingPolicy
from streakline.types import Group, Task, TrainingBatch

_GRPO = GRPOConfig()  # frozen, so that sharing it is safe


@final
class GRPOModule(AgentModule):
    """Trains a policy on its own episodes: one `training_step` = one optimiser step = one `global_step`.

    Each step takes a list of tasks from the loader, rolls them out, and learns from the groups that callbacks leave
    (`modules/hooks.py`). An empty list means: take another step on the rollouts at hand (`updates_per_rollout`). Where
    no group is left to learn from, no optimiser or scheduler step is taken on any rank; `rollout_step` counts on, and
    an epoch or time bound ends the run.

    Logged each step under `train/`: what `RolloutMetrics`, `UpdateMetrics` and, where a cache answers the calls,
    `TierMetrics` compute, what the reward counted (`Reward.metrics`), `grad_norm`, `distinct_token_share` (tokens
    computed / tokens in padded rows), `generated_tokens`, `rollout_step`, `empty_steps`; under `time/` seconds:
    `rollout`, `tool`, `reward`, `reference`, `update`, and `logprobs`, the part of it that scored the rows; and sampled
    and trained tokens a second.

    Args:
        policy: Which model, and what of it is trained.
        reward: Scores trajectories.
        rendering: How conversations become tokens.
        sampling: Decoding of rollouts; nothing that truncates the distribution, since that biases importance ratios.
        episode: What ends an episode.
        engine: Makes the engine that samples, from the policy's model.
        grpo: Groups, loss and step.
        held_out: How held-out tasks are attempted.
        optimizer: Parameters -> optimiser.
        lr_scheduler: Optimiser -> learning-rate schedule, in optimiser steps; None = constant.
        seed: Of random initial weights and of rollouts.

    Raises:
        ConfigError: If the sampling would bias the update.
    """

    def __init__(
        self,
        policy: PolicyConfig,
        reward: Reward,
        rendering: RenderingPolicy = RENDERING,
        sampling: SamplingPolicy = SAMPLING,
        episode: EpisodeConfig = EPISODE,
        engine: EngineFactory = HFEngine,
        grpo: GRPOConfig = _GRPO,
        held_out: HeldOutConfig = HELD_OUT,
        optimizer: OptimizerCallable = torch.optim.AdamW,
        lr_scheduler: LRSchedulerCallable | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(policy, reward, rendering, sampling, episode, engine, held_out, optimizer, lr_scheduler, seed)
        sampling.require_unbiased()
        self.automatic_optimization = False
        self.grpo = grpo
        self.updates_per_rollout = grpo.updates_per_rollout
        self.rollout_step = 0
        self.empty_steps = 0
        # Frozen copy of the initial policy; part of the checkpoint, since the initial weights are not the current ones.
        self.reference: PreTrainedModel | None = None
        self._buffer = RolloutBuffer()
        self._rollout_metrics = RolloutMetrics(
            success_threshold=grpo.success_threshold, zero_variance_tol=grpo.zero_variance_tol, terms=reward.names
        )
        self._tier_metrics = TierMetrics()
        self._update_metrics = UpdateMetrics()
        # Of the rollouts under training: logged with each step that trains on them.
        self._rollout_values: dict[str, float] = {}
        self._generated_tokens = 0
        # What trees cost; None = rows are padded.
        self._tree_cost: TreeCost | None = None
        # Of the last update, on this process: computed, and in padded rows.
        self._num_tokens = (0, 0)

    def configure_model(self) -> None:
        """Load the policy and the engine, and keep a reference if there is a penalty on leaving it."""
        super().configure_model()
        if self.grpo.packing == "auto" and self._tree_cost is None:
            self._tree_cost = enable_trees(self.policy)
        if self.grpo.kl_coef and self.reference is None and isinstance(self.policy, PreTrainedModel):
            self.reference = deepcopy(self.policy).requires_grad_(requires_grad=False)

    def on_fit_start(self) -> None:
        """Say nothing of what is meant to be: checkpoints hold the weights after the step."""
        warnings.filterwarnings("ignore", message="Using ModelCheckpoint with manual optimization")

    def on_train_start(self) -> None:
        """Go on where the checkpoint stopped; the reference acts without dropout."""
        super().on_train_start()
        if self.reference is not None:
            self.reference.train(mode=False)

    def training_step(self, batch: Sequence[Task], batch_idx: int) -> None:
        """Roll out the tasks, learn from what is left, step; no task = train again on the rollouts at hand."""
        ledger = TimeLedger()
        if batch:
            groups = self._roll_out(select_tasks(self, batch), ledger)
            rows = training_rows(
                select_groups(self, groups), config=self.grpo, min_new_tokens=self.sampling.min_new_tokens
            )
            self._buffer.fill(rows, updates=self.grpo.updates_per_rollout)
        totals = self._totals()
        if not totals.tokens:
            self._buffer.fill((), updates=0)
            self.empty_steps += 1
            self._log_step(ledger, rolled_out=bool(batch), grad_norm=math.nan, tokens=0)
            return
        optimizer = cast(LightningOptimizer, self.optimizers())
        optimizer.zero_grad()
        with ledger.measure("update"):
            with local_gradients(self.trainer.strategy):
                logprobs = self._accumulate_gradients(totals, ledger)
            grad_norm = self._clip(optimizer)
            optimizer.step()
            scheduler = cast(LRScheduler | None, self.lr_schedulers())
            if scheduler is not None:
                scheduler.step()
        self._buffer.finish_update(logprobs)
        self.sync_engine()
        self._log_step(ledger, rolled_out=bool(batch), grad_norm=grad_norm, tokens=totals.tokens)

    def validation_step(self, batch: Sequence[Task], batch_idx: int) -> None:
        """Attempt held-out tasks."""
        self.attempt(batch)

    def extra_state(self) -> dict[str, Any]:
        """Counts, and the rollout batch under training."""
        return {
            "rollout_step": self.rollout_step,
            "empty_steps": self.empty_steps,
            "rollout_values": self._rollout_values,
            "buffer": self._buffer.state_dict(),
        }

    def load_extra_state(self, state: Mapping[str, Any]) -> None:
        """Go on with the same rollout batch; a checkpoint of another module brings none."""
        if state:
            self.rollout_step = state["rollout_step"]
            self.empty_steps = state["empty_steps"]
            self._rollout_values = state["rollout_values"]
            self._buffer.load_state_dict(state["buffer"])

    def _roll_out(self, tasks: Sequence[Task], ledger: TimeLedger) -> list[Group]:
        """Sample and score a full group for each task."""
        if self._buffer.updates_left and self._buffer.rows:
            raise ConfigError(
                f"Expected an empty batch while the last rollouts serve {self._buffer.updates_left} more updates, "
                f"but got {len(tasks)} tasks: use a DataModule that looks at `updates_per_rollout`"
            )
        with ledger.measure("rollout"), self.acting():
            loop = self.make_loop(self.sampling, self.seed)
            episodes = loop.run(
                tasks,
                num_samples=self.grpo.group_size,
                make_environment=self.worlds.training_environment,
                epoch=self.rollout_step,
            )
        ledger.add("tool", loop.last_timing.tool_seconds)
        self._generated_tokens = loop.last_timing.generated_tokens
        with ledger.measure("reward"):
            groups = self.judged(lambda: score_groups(tasks, episodes, reward=self.reward))
        self.rollout_step += 1
        self._rollout_metrics.update(groups)
        self._tier_metrics.update(groups)
        return groups

    def _totals(self) -> StepTotals:
        trajectories = {row.trajectory_index for row in self._buffer.rows}
        tokens, count = sum_over_ranks(self._buffer.num_trained_tokens, len(trajectories), device=self.device)
        return StepTotals(tokens=tokens, trajectories=count)

    def _accumulate_gradients(self, totals: StepTotals, ledger: TimeLedger) -> list[torch.Tensor]:
        """Backward passes over all rows; gives the [T] log-probabilities of each row before the step."""
        rows, old = self._buffer.rows, self._buffer.logprobs_old
        weights = token_weights(
            self._buffer.tokens_of_trajectory, loss=self.grpo.loss, totals=totals, token_budget=self.grpo.token_budget
        )
        if not rows:
            self._update_metrics.skip()
        token_ids = [row.sample.token_ids for row in rows]
        parts = micro_batches(token_ids, max_tokens=self.grpo.micro_batch_tokens, cost=self._tree_cost)
        self._num_tokens = (sum(part.num_tokens for part in parts), sum(part.num_padded for part in parts))
        seen: dict[int, torch.Tensor] = {}
        for part in parts:
            batch = to_device(
                collate_rows(
                    [rows[index] for index in part.indices],
                    pad_id=self.pad_id,
                    logprobs_old=None if old is None else [old[index] for index in part.indices],
                ),
                self.device,
            )
            tree = None if part.tree is None else part.tree.to(self.device)
            logprobs = self._backward(batch, tree, weights[list(part.indices)], is_first=old is None, ledger=ledger)
            seen |= {index: logprobs[row, : len(token_ids[index])] for row, index in enumerate(part.indices)}
        return [seen[index] for index in range(len(rows))]

    def _backward(
        self,
        batch: TrainingBatch,
        tree: PrefixTree | None,
        weights: torch.Tensor,
        *,
        is_first: bool,
        ledger: TimeLedger,
    ) -> torch.Tensor:
        """One micro-batch: loss, gradients, metrics; gives its [B, T] log-probabilities."""
        with ledger.measure("reference"):
            reference = self._reference_logprobs(batch, tree)
        with ledger.measure("logprobs"):
            scores = self._score(self.policy, batch, tree, entropy_gradient=self.grpo.entropy_coef > 0)
        logprobs = scores.logprobs.detach()
        loss, sums = policy_loss(
            scores.logprobs,
            # At the first update the policy is still the one that sampled.
            logprobs_old=logprobs if is_first else batch.logprobs_old,
            advantages=batch.advantages,
            loss_mask=batch.loss_mask,
            weights=weights.to(self.device),
            surrogate=self.grpo.surrogate,
            clip_low=self.grpo.clip_low,
            clip_high=self.grpo.clip_high,
            logprobs_reference=reference,
            kl_coef=self.grpo.kl_coef,
            kl_estimator=self.grpo.kl_estimator,
            entropy=scores.entropy if self.grpo.entropy_coef else None,
            entropy_coef=self.grpo.entropy_coef,
            logprobs_engine=batch.logprobs_engine,
            engine_correction=self.grpo.engine_correction,
            engine_cap=self.grpo.engine_cap,
        )
        self.manual_backward(loss)
        self._update_metrics.update(
            loss=loss,
            sums=sums,
            entropy=scores.entropy.detach(),
            logprobs=logprobs,
            logprobs_engine=batch.logprobs_engine,
        )
        return logprobs

    def _score(
        self,
        model: PreTrainedModel | PeftModel,
        batch: TrainingBatch,
        tree: PrefixTree | None,
        *,
        entropy_gradient: bool = False,
    ) -> TokenLogprobs:
        """Score a batch, along its tree if there is one, under the distribution that it was sampled from."""
        barred = None
        if self.sampling.min_new_tokens:
            places = batch.loss_mask & (batch.loss_mask.cumsum(1) <= batch.num_barred.unsqueeze(1))
            barred = (self.renderer().terminator_id, places)
        return token_logprobs(
            model,
            input_ids=batch.input_ids,
            loss_mask=batch.loss_mask,
            temperature=self.sampling.temperature,
            barred=barred,
            tree=tree,
            entropy_gradient=entropy_gradient,
        )

    @torch.no_grad()
    def _reference_logprobs(self, batch: TrainingBatch, tree: PrefixTree | None) -> torch.Tensor | None:
        if not self.grpo.kl_coef:
            return None
        if self.reference is not None:
            return self._score(self.reference, batch, tree).logprobs
        with cast(PeftModel, self.policy).disable_adapter():
            return self._score(self.policy, batch, tree).logprobs

    def _clip(self, optimizer: LightningOptimizer) -> float:
        """Sum gradients over ranks and clip them; gives the norm before clipping."""
        parameters = self.trained_parameters()
        sum_gradients(parameters)
        norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        if self.grpo.max_grad_norm:
            self.clip_gradients(
                optimizer.optimizer, gradient_clip_val=self.grpo.max_grad_norm, gradient_clip_algorithm="norm"
            )
        return float(norm)

    def _log_step(self, ledger: TimeLedger, *, rolled_out: bool, grad_norm: float, tokens: float) -> None:
        """Log every name at every step, since Lightning repeats the last value of those that aren't."""
        times = {name: ledger[name] for name in ("tool", "reward", "reference", "logprobs")}
        times["rollout"] = ledger["rollout"] - ledger["tool"]
        times["update"] = ledger["update"] - ledger["reference"]
        # Both conditions hold on all ranks or on none, since computing a metric waits for the others.
        if rolled_out:
            self._rollout_values = self._rollout_metrics.compute()
            self._rollout_metrics.reset()
            self._rollout_values |= tally_values(self.reward.metrics(), device=self.device)
            tools = self.worlds.training_environment
            if isinstance(tools, CachedTools) and tools.open() is not None:
                self._rollout_values |= self._tier_metrics.compute()
            self._tier_metrics.reset()
        update_values = dict(NO_UPDATE) | {"distinct_token_share": math.nan}
        if tokens:
            computed, padded = sum_over_ranks(*self._num_tokens, device=self.device)
            update_values = self._update_metrics.compute() | {"distinct_token_share": computed / padded}
            self._update_metrics.reset()
        times["trained_tokens_per_second"] = tokens / times["update"] if tokens else math.nan
        generated = sum_over_ranks(self._generated_tokens if rolled_out else 0, device=self.device)[0]
        times["sampled_tokens_per_second"] = generated / times["rollout"] if rolled_out else math.nan
        counts = {
            "generated_tokens": generated,
            "rollout_step": self.rollout_step,
            "empty_steps": self.empty_steps,
            "grad_norm": grad_norm,
        }
        values = self._rollout_values | update_values | counts
        self.log_dict({f"train/{name}": value for name, value in values.items()}, batch_size=1)
        self.log_dict({f"time/{name}": value for name, value in times.items()}, batch_size=1)
