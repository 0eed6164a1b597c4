"""What both modules share: the policy and what it needs to act, held-out episodes, optimisers and checkpoint state."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from peft import PeftModel
from torch.optim.lr_scheduler import ReduceLROnPlateau
from transformers import PreTrainedModel

from streakline.data.base import ProvidesEnvironment
from streakline.errors import ConfigError, DataError, JudgeOutageError
from streakline.metrics.held_out import held_out_means
from streakline.metrics.rollout import RolloutMetrics
from streakline.modules.checkpoint import require_same_weights
from streakline.modules.groups import all_or_none, tally_values
from streakline.modules.held_out import HeldOutConfig, HeldOutRunner
from streakline.modules.hooks import save_broken_step
from streakline.modules.rng import RngState, capture_rng, restore_rng
from streakline.policy.config import PolicyConfig
from streakline.policy.load import load_policy
from streakline.rendering.create import create_renderer
from streakline.rendering.policy import RenderingPolicy
from streakline.rendering.renderer import Renderer
from streakline.rendering.tokenizer import load_tokenizer
from streakline.rewards.base import Reward
from streakline.rollout.agent_loop import AgentLoop, EpisodeConfig
from streakline.rollout.engine import RolloutEngine
from streakline.rollout.sampling import SamplingPolicy
from streakline.types import Group, Task

# Defaults of the modules' signatures; frozen, so that sharing them is safe.
RENDERING, SAMPLING, EPISODE, HELD_OUT = RenderingPolicy(), SamplingPolicy(), EpisodeConfig(), HeldOutConfig()

EngineFactory: TypeAlias = Callable[[PreTrainedModel | PeftModel, Sequence[int]], RolloutEngine]
"""Makes an engine from the policy's model and the tokens that end an assistant turn."""

_GO_ON = "to go on from the last step, repeat the command with `--ckpt_path last`"
_ASK_AGAIN = "repeat the command when it is back: what it has judged is kept"
_STATE_KEY = "streakline"
_EPISODE_METRICS = frozenset({"turns", "calls", "failed_calls", "closed_thinking", "tokens"})


class AgentModule(LightningModule, ABC):
    """Base of the modules.

    Weights, tokenizer and engine are loaded in `configure_model`, so that a module can be built from a config without
    any file at hand.

    The checkpoint holds the whole state dict (frozen weights under LoRA included, so that it needs nothing beside it),
    and under one key plain types for what Lightning does not know of: torch's generators and `extra_state`.
    """

    def __init__(
        self,
        policy: PolicyConfig,
        reward: Reward | None,
        rendering: RenderingPolicy,
        sampling: SamplingPolicy,
        episode: EpisodeConfig,
        engine: EngineFactory,
        held_out: HeldOutConfig,
        optimizer: OptimizerCallable,
        lr_scheduler: LRSchedulerCallable | None,
        seed: int,
    ) -> None:
        super().__init__()
        self.policy_config = policy
        self.rendering = rendering
        self.sampling = sampling
        self.episode = episode
        self.held_out = held_out
        self.seed = seed
        self._make_engine = engine
        self._reward = reward
        self._make_optimizer = optimizer
        self._make_lr_scheduler = lr_scheduler
        self.model: PreTrainedModel | PeftModel | None = None
        self._engine: RolloutEngine | None = None
        self._renderer: Renderer | None = None
        self._runner: HeldOutRunner | None = None
        self._held_out_rollouts = RolloutMetrics(success_threshold=held_out.success_threshold)
        self._saved_rng: RngState | None = None

    @property
    def policy(self) -> PreTrainedModel | PeftModel:
        """The model in training, once `configure_model` has loaded it."""
        if self.model is None:
            raise ConfigError("Expected the policy to be loaded, but `configure_model` has not been called")
        return self.model

    @property
    def engine(self) -> RolloutEngine:
        """The engine that samples from the policy, once `configure_model` has made it."""
        if self._engine is None:
            raise ConfigError("Expected the engine to be made, but `configure_model` has not been called")
        return self._engine

    @property
    def pad_id(self) -> int:
        """Token that fills rows up; its value never matters, since padding is masked."""
        pad_id = self.renderer().tokenizer.pad_token_id
        return pad_id if isinstance(pad_id, int) else self.renderer().terminator_id

    def renderer(self) -> Renderer:
        """The renderer of this module; loads the tokenizer at the first call."""
        if self._renderer is None:
            tokenizer = load_tokenizer(
                self.policy_config.name_or_path,
                chat_template=self.policy_config.chat_template,
                gguf_file=self.policy_config.gguf_file,
            )
            self._renderer = create_renderer(tokenizer, self.rendering)
        return self._renderer

    def configure_model(self) -> None:
        """Load the policy and make its engine, once."""
        if self.model is not None:
            return
        # Random initial weights and adapters follow from the seed alone, whatever was drawn before.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self.model = load_policy(self.policy_config)
        self._engine = self._make_engine(self.model, (self.renderer().terminator_id,))

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """The optimiser over the trained parameters, and its schedule."""
        try:
            optimizer = self._make_optimizer(self.trained_parameters())
        except (TypeError, ValueError) as error:
            raise ConfigError(f"Expected `optimizer` to have options that it takes, but got: {error}") from error
        if self._make_lr_scheduler is None:
            return optimizer
        scheduler = self._make_lr_scheduler(optimizer)
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ConfigError("Expected `lr_scheduler` to follow the steps alone, but got ReduceLROnPlateau")
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def trained_parameters(self) -> list[torch.nn.Parameter]:
        """Parameters of the policy that are not frozen."""
        return [parameter for parameter in self.policy.parameters() if parameter.requires_grad]

    def on_train_start(self) -> None:
        """Go on drawing where the checkpoint stopped, and let the engine see the weights that it restored."""
        if self._saved_rng is not None:
            restore_rng(self._saved_rng)
            self._saved_rng = None
        self.sync_engine()

    def sync_engine(self) -> None:
        """Let the engine take over the policy's weights."""
        self.engine.sync_weights(self.trainer.global_step)

    def make_loop(self, sampling: SamplingPolicy, seed: int) -> AgentLoop:
        """An agent loop over this module's engine and renderer."""
        return AgentLoop(
            engine=self.engine, renderer=self.renderer(), sampling=sampling, episode=self.episode, run_seed=seed
        )

    @property
    def worlds(self) -> ProvidesEnvironment:
        """The DataModule, which makes the worlds of its tasks."""
        datamodule = self.trainer.datamodule  # type: ignore[attr-defined]
        if not isinstance(datamodule, ProvidesEnvironment):
            name = type(datamodule).__name__
            raise ConfigError(f"Expected a DataModule with `environment` and `training_environment`, but got {name}")
        return datamodule

    @property
    def reward(self) -> Reward:
        """Scores trajectories."""
        if self._reward is None:
            raise ConfigError("Expected `reward` to be given where tasks are attempted, but got none")
        return self._reward

    @property
    def _measure(self) -> Reward:
        """Scores held-out trajectories."""
        return self.held_out.reward or self.reward

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Sample inside the block without gradients.

        Not under inference mode, which Lightning uses in `test`: tensors made there, such as a cache that the engine
        keeps, could never enter a loss.
        """
        with torch.inference_mode(mode=False), torch.no_grad():
            yield

    def on_validation_epoch_start(self) -> None:
        """Let the engine see the weights that are measured."""
        self.sync_engine()

    on_test_epoch_start = on_predict_epoch_start = on_validation_epoch_start

    def test_step(self, batch: Sequence[Task], batch_idx: int) -> None:
        """Attempt held-out tasks, and keep the trajectories, so that a score can be looked into."""
        self.attempt(batch, keep_trajectories=True)

    def predict_step(self, batch: Sequence[Task], batch_idx: int) -> int:
        """Attempt tasks and keep the trajectories; gives the number of tasks, since Lightning minds None."""
        self.attempt(batch, keep_trajectories=True)
        return len(batch)

    def on_validation_epoch_end(self) -> None:
        """Write and log the scores of validation."""
        self.finish_held_out("validate")

    def on_test_epoch_end(self) -> None:
        """Write and log the scores of `test`."""
        self.finish_held_out("test")

    def on_predict_epoch_end(self) -> None:
        """Write the trajectories of `predict`, and their scores."""
        self.finish_held_out("predict")

    def attempt(self, tasks: Sequence[Task], *, keep_trajectories: bool = False) -> None:
        """Run held-out episodes of some tasks; their scores are kept until `finish_held_out`."""
        runner = self._runner or HeldOutRunner(self.held_out, sampling=self.sampling, reward=self._measure)
        self._runner = runner

        def run() -> list[Group]:
            if not tasks:
                return []
            return runner.run(
                tasks,
                make_loop=self.make_loop,
                make_environment=self.worlds.environment,
                keep_trajectories=keep_trajectories,
                tokenizer=self.renderer().tokenizer,
            )

        with self.acting():
            self._held_out_rollouts.update(self.judged(run))

    def judged(self, work: Callable[[], list[Group]]) -> list[Group]:
        """Do what may need a judge: where one is out, the run is saved and ends, on all processes."""
        try:
            return all_or_none(work, then=_GO_ON if self.trainer.state.fn == "fit" else _ASK_AGAIN)
        except JudgeOutageError:
            save_broken_step(self)
            raise

    def finish_held_out(self, stage: str) -> None:
        """Write `<stage>_scores.jsonl` of `validate`, `test` or `predict`, and log the means under `<stage>/`."""
        if self._runner is None:
            return
        scores = self._runner.finish(
            run_dir=Path(self.trainer.default_root_dir), stage=stage, write=self.trainer.is_global_zero
        )
        rollouts = self._held_out_rollouts.compute()
        self._held_out_rollouts.reset()
        counted = tally_values(self._measure.metrics(), device=self.device)
        if stage == "predict":  # Lightning logs nothing there
            return
        means = held_out_means(scores, success_threshold=self.held_out.success_threshold)
        episodes = {
            name: rollouts[name] for name in rollouts if name in _EPISODE_METRICS or name.startswith("termination/")
        }
        values = {f"{stage}/{name}": value for name, value in (episodes | counted | means).items()}
        self.log_dict(values, batch_size=1, sync_dist=True)

    @abstractmethod
    def extra_state(self) -> dict[str, Any]:
        """What the module adds to the checkpoint: plain types and tensors, so that `weights_only=True` loads it."""

    @abstractmethod
    def load_extra_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `extra_state` gave."""

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add what Lightning does not know of."""
        checkpoint[_STATE_KEY] = {"rng": capture_rng(), "module": self.extra_state()}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Check that the weights fit, and take over what `on_save_checkpoint` added.

        Raises:
            DataError: If the checkpoint is of another architecture, or not one of these modules.
        """
        require_same_weights(self.state_dict(), checkpoint["state_dict"])
        if _STATE_KEY not in checkpoint:
            raise DataError(f"Expected a checkpoint with `{_STATE_KEY}` state, but got only {sorted(checkpoint)}")
        self._saved_rng = checkpoint[_STATE_KEY]["rng"]
        self.load_extra_state(checkpoint[_STATE_KEY]["module"])
