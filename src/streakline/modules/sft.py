"""Imitation of demonstrations, token by token."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, final

import torch
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from torchmetrics import MeanMetric

from streakline.algorithms.logprobs import token_logprobs
from streakline.algorithms.prefix_tree import TreeCost
from streakline.data.packing import tree_of_batch
from streakline.errors import ConfigError
from streakline.modules.agent import EPISODE, HELD_OUT, RENDERING, SAMPLING, AgentModule, EngineFactory
from streakline.modules.held_out import HeldOutConfig
from streakline.policy.config import PolicyConfig
from streakline.policy.tree_forward import enable_trees
from streakline.rendering.policy import RenderingPolicy
from streakline.rewards.base import Reward
from streakline.rollout.agent_loop import EpisodeConfig
from streakline.rollout.hf_engine import HFEngine
from streakline.rollout.sampling import SamplingPolicy
from streakline.types import Task, TrainingBatch


@final
class SFTModule(AgentModule):
    """Trains a policy on demonstrations; validates on their loss, and on held-out tasks where the data has some.

    The loss is the mean over the trained tokens of a batch. Under `accumulate_grad_batches` Lightning averages the
    batches of a step, so a token weighs the more the fewer trained tokens its batch has; batches of rows of similar
    length (`DemonstrationDataModule`) keep that small. The same holds for batches on several ranks.

    Logged: `train/loss`, `train/token_accuracy`, `train/trained_tokens`, `validate/loss`, `validate/token_accuracy`,
    and for held-out tasks what `AgentModule` logs.

    Args:
        policy: Which model, and what of it is trained.
        reward: Scores held-out episodes; None = no tasks can be attempted.
        rendering: How conversations become tokens.
        sampling: Decoding of held-out episodes.
        episode: What ends an episode.
        engine: Makes the engine that samples, from the policy's model.
        untrained_weight: Weight in the loss of tokens that the policy does not write (prompts, tool results), against 1
            for those it writes. 0.1 to 0.2 helps a model that is trained from scratch to learn to copy.
        packing: `auto`: what the rows of a batch have in common (the samples of a trajectory under history `split`) is
            computed once, where the policy allows it and it is predicted to be faster. `padded`: never.
        held_out: How held-out tasks are attempted.
        optimizer: Parameters -> optimiser.
        lr_scheduler: Optimiser -> learning-rate schedule, in optimiser steps; None = constant.
        seed: Of random initial weights.

    Raises:
        ConfigError: If `untrained_weight` is outside [0, 1].
    """

    def __init__(
        self,
        policy: PolicyConfig,
        reward: Reward | None = None,
        rendering: RenderingPolicy = RENDERING,
        sampling: SamplingPolicy = SAMPLING,
        episode: EpisodeConfig = EPISODE,
        engine: EngineFactory = HFEngine,
        untrained_weight: float = 0.0,
        packing: Literal["auto", "padded"] = "auto",
        held_out: HeldOutConfig = HELD_OUT,
        optimizer: OptimizerCallable = torch.optim.AdamW,
        lr_scheduler: LRSchedulerCallable | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(policy, reward, rendering, sampling, episode, engine, held_out, optimizer, lr_scheduler, seed)
        if not 0 <= untrained_weight <= 1:
            raise ConfigError(f"Expected `untrained_weight` to be in [0, 1], but got {untrained_weight}")
        self.untrained_weight = untrained_weight
        self.packing = packing
        # What trees cost; None = rows are padded.
        self._tree_cost: TreeCost | None = None
        self._validation_loss = MeanMetric()
        self._validation_accuracy = MeanMetric()

    def configure_model(self) -> None:
        """Load the policy and the engine, and make the policy follow trees."""
        super().configure_model()
        if self.packing == "auto" and self._tree_cost is None:
            self._tree_cost = enable_trees(self.policy)

    def training_step(self, batch: TrainingBatch, batch_idx: int) -> torch.Tensor:
        """Loss of one batch of demonstrations."""
        loss, accuracy = self._loss(batch, untrained_weight=self.untrained_weight)
        values = {"loss": loss.detach(), "token_accuracy": accuracy, "trained_tokens": batch.loss_mask.sum().float()}
        self.log_dict({f"train/{name}": value for name, value in values.items()}, batch_size=len(batch.input_ids))
        return loss

    def validation_step(self, batch: TrainingBatch | Sequence[Task], batch_idx: int, dataloader_idx: int = 0) -> None:
        """Loss of demonstrations, or episodes on tasks, whichever the batch holds."""
        if not isinstance(batch, TrainingBatch):
            self.attempt(batch)
            return
        loss, accuracy = self._loss(batch, untrained_weight=0.0)
        tokens = batch.loss_mask.sum()
        self._validation_loss.update(loss, tokens)
        self._validation_accuracy.update(accuracy, tokens)

    def on_validation_epoch_end(self) -> None:
        """Log loss and accuracy over all trained tokens, and the scores of tasks."""
        if self._validation_loss.update_called:
            values = {"loss": self._validation_loss.compute(), "token_accuracy": self._validation_accuracy.compute()}
            named = {f"validate/{name}": value for name, value in values.items()}
            self.log_dict(named, batch_size=1, sync_dist=True)
            self._validation_loss.reset()
            self._validation_accuracy.reset()
        super().on_validation_epoch_end()

    def extra_state(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def load_extra_state(self, state: Mapping[str, Any]) -> None:
        """Nothing: what another module left is not ours."""

    def _loss(self, batch: TrainingBatch, *, untrained_weight: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Weighted mean negative log-probability, and the share of trained tokens that are the likeliest."""
        scored = batch.loss_mask
        if untrained_weight:
            scored = batch.attention_mask.clone()
            scored[:, 0] = False  # nothing predicts the first token
        scores = token_logprobs(
            self.policy,
            input_ids=batch.input_ids,
            loss_mask=scored,
            tree=tree_of_batch(batch, cost=self._tree_cost),
        )
        weights = torch.where(batch.loss_mask, 1.0, untrained_weight) * scored
        loss = -(scores.logprobs * weights).sum() / weights.sum()
        accuracy = (scores.is_argmax & batch.loss_mask).sum() / batch.loss_mask.sum()
        return loss, accuracy
