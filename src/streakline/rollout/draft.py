"""The tokens of one episode while it runs, and the trajectory that becomes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import final

from streakline.types import Completion, Message, Sample, Termination, ToolResult, Trajectory, Turn

__all__ = ["TrajectoryDraft"]


@dataclass(slots=True, kw_only=True)
class _SampleDraft:
    token_ids: list[int]
    loss_mask: list[bool] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    def append(self, token_ids: Sequence[int], *, trained: bool, logprobs: Sequence[float] | None = None) -> None:
        self.token_ids.extend(token_ids)
        self.loss_mask.extend([trained] * len(token_ids))
        self.logprobs.extend(logprobs if logprobs is not None else [0.0] * len(token_ids))


@final
class TrajectoryDraft:
    """Samples, masks and turns, written from left to right. Sampled ids are kept as they are, never encoded anew.

    Args:
        prompt_ids: [T] what the policy sees first.
        terminator_id: Token that ends an assistant turn.
    """

    def __init__(self, prompt_ids: Sequence[int], *, terminator_id: int) -> None:
        self._terminator_id = terminator_id
        self._samples: list[_SampleDraft] = []
        self._turns: list[Turn] = []
        self._open_sample(prompt_ids)

    @property
    def token_ids(self) -> tuple[int, ...]:
        """[T] everything that the policy sees now."""
        return tuple(self._samples[-1].token_ids)

    @property
    def num_tokens(self) -> int:
        """Length of `token_ids`."""
        return len(self._samples[-1].token_ids)

    @property
    def num_turns(self) -> int:
        """Assistant turns so far."""
        return len(self._turns)

    def add_turn(self, completion: Completion, *, message: Message, user_turn: int) -> bool:
        """Append what was sampled. A turn that was cut off gets a terminator that is not trained.

        Args:
            completion: At least one token.
            message: The parsed turn.
            user_turn: 0-based user turn that it answers.

        Returns:
            Whether it was cut off.
        """
        sample = self._samples[-1]
        start = len(sample.token_ids)
        truncated = completion.token_ids[-1] != self._terminator_id
        sample.append(completion.token_ids, trained=True, logprobs=completion.logprobs)
        if truncated:
            sample.append((self._terminator_id,), trained=False)
        self._turns.append(
            Turn(
                sample=len(self._samples) - 1,
                start=start,
                end=len(sample.token_ids),
                message=message,
                truncated=truncated,
                user_turn=user_turn,
            )
        )
        return truncated

    def set_results(self, results: Sequence[ToolResult]) -> None:
        """Attach the results of the last turn's calls."""
        self._turns[-1] = replace(self._turns[-1], results=tuple(results))

    def extend(self, token_ids: Sequence[int]) -> None:
        """Append injected text."""
        self._samples[-1].append(token_ids, trained=False)

    def continue_from(self, prompt_ids: tuple[int, ...]) -> int:
        """Go on from a prompt that was rendered anew: a new sample, unless it extends the present one.

        Args:
            prompt_ids: [T] what the policy sees from now on.

        Returns:
            Tokens that are new to the sample.
        """
        present = self.token_ids
        if prompt_ids[: len(present)] == present:
            self.extend(prompt_ids[len(present) :])
            return len(prompt_ids) - len(present)
        self._open_sample(prompt_ids)
        return len(prompt_ids)

    def finish(
        self,
        *,
        task_id: str,
        termination: Termination,
        train_last_sample_only: bool,
        group_member: int,
        messages: Sequence[Message],
        weight_version: int,
        detail: str,
    ) -> Trajectory:
        """Build the record.

        Args:
            task_id: Task that was attempted.
            termination: Why it ended.
            train_last_sample_only: Thinking history `strip`: what the policy wrote under an earlier history is
                counted as untrained.
            group_member: Index within the group.
            messages: The whole conversation.
            weight_version: Version of the weights that sampled it.
            detail: What went wrong; empty = nothing to add.

        Returns:
            The trajectory, without reward.
        """
        # A prompt that no turn followed, because it left no room or the engine failed, is nothing to train on.
        used = 1 + max((turn.sample for turn in self._turns), default=0)
        untrained = [turn for turn in self._turns if train_last_sample_only and turn.sample < used - 1]
        for turn in untrained:
            sample, length = self._samples[turn.sample], turn.end - turn.start
            sample.loss_mask[turn.start : turn.end] = [False] * length
            sample.logprobs[turn.start : turn.end] = [0.0] * length
        return Trajectory(
            task_id=task_id,
            samples=tuple(
                Sample(
                    token_ids=tuple(sample.token_ids),
                    loss_mask=tuple(sample.loss_mask),
                    logprobs_engine=tuple(sample.logprobs),
                )
                for sample in self._samples[:used]
            ),
            turns=tuple(self._turns),
            termination=termination,
            terminator_id=self._terminator_id,
            group_member=group_member,
            messages=tuple(messages),
            untrained_turns=len(untrained),
            weight_version=weight_version,
            detail=detail,
        )

    def _open_sample(self, prompt_ids: Sequence[int]) -> None:
        self._samples.append(_SampleDraft(token_ids=[]))
        self._samples[-1].append(prompt_ids, trained=False)
