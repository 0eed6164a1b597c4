"""The tokens of one conversation while it goes on, and the trajectory that becomes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import final

from streakline.types import Message, Sample, Termination, ToolResult, Trajectory, Turn


@final
class TrajectoryDraft:
    """Samples, masks and turns, written from left to right. Ids are kept as they are given, never encoded anew.

    It begins with the [T] `prompt_ids` that the policy sees first. Only what an engine samples has log-probabilities.
    """

    def __init__(self, prompt_ids: Sequence[int], *, terminator_id: int, is_sampled: bool) -> None:
        self._terminator_id = terminator_id
        self._is_sampled = is_sampled
        self._samples = [list(prompt_ids)]
        self._turns: list[Turn] = []
        self._logprobs: list[Sequence[float] | None] = []

    @property
    def token_ids(self) -> tuple[int, ...]:
        """[T] everything that the policy sees now."""
        return tuple(self._samples[-1])

    @property
    def num_turns(self) -> int:
        """Assistant turns so far."""
        return len(self._turns)

    def add_turn(
        self, token_ids: Sequence[int], *, message: Message, user_turn: int, logprobs: Sequence[float] | None = None
    ) -> bool:
        """Append an assistant turn of at least one id, with the engine's [T] `logprobs` if it was sampled.

        A turn that was cut off gets a terminator that is not trained; returns whether it was.
        """
        sample = self._samples[-1]
        start = len(sample)
        truncated = token_ids[-1] != self._terminator_id
        sample += (*token_ids, self._terminator_id) if truncated else token_ids
        self._logprobs.append(logprobs)
        self._turns.append(
            Turn(
                sample=len(self._samples) - 1,
                start=start,
                end=len(sample),
                message=message,
                truncated=truncated,
                user_turn=user_turn,
            )
        )
        return truncated

    def set_results(self, results: Sequence[ToolResult], *, malformed_calls: int = 0) -> None:
        """Attach the results of the last turn's calls, and how many more could not be read."""
        self._turns[-1] = replace(self._turns[-1], results=tuple(results), malformed_calls=malformed_calls)

    def mark_thinking_closed(self) -> None:
        """Note that the last turn left its thinking open, and that what follows it closes it."""
        self._turns[-1] = replace(self._turns[-1], closed_thinking=True)

    def extend(self, token_ids: Sequence[int]) -> None:
        """Append injected text."""
        self._samples[-1].extend(token_ids)

    def continue_from(self, prompt_ids: tuple[int, ...]) -> int:
        """Go on from a prompt that was rendered anew: a new sample, unless it extends the present one.

        Returns the number of tokens that are new to the sample.
        """
        present = self.token_ids
        if prompt_ids[: len(present)] == present:
            self.extend(prompt_ids[len(present) :])
            return len(prompt_ids) - len(present)
        self._samples.append(list(prompt_ids))
        return len(prompt_ids)

    def finish(
        self,
        *,
        task_id: str,
        termination: Termination,
        train_last_sample_only: bool,
        messages: Sequence[Message],
        group_member: int = 0,
        weight_version: int = 0,
        detail: str = "",
    ) -> Trajectory:
        """Build the record, without reward.

        Under `train_last_sample_only` (thinking history `strip`), turns under an earlier history count as untrained.
        """
        # A prompt that no turn followed, because it left no room or the engine failed, is nothing to train on.
        used = 1 + max((turn.sample for turn in self._turns), default=0)
        first_trained = used - 1 if train_last_sample_only else 0
        return Trajectory(
            task_id=task_id,
            samples=tuple(self._record(index, trained=index >= first_trained) for index in range(used)),
            turns=tuple(self._turns),
            termination=termination,
            terminator_id=self._terminator_id,
            group_member=group_member,
            messages=tuple(messages),
            untrained_turns=sum(turn.sample < first_trained for turn in self._turns),
            weight_version=weight_version,
            detail=detail,
        )

    def _record(self, index: int, *, trained: bool) -> Sample:
        token_ids = self._samples[index]
        loss_mask, logprobs = [False] * len(token_ids), [0.0] * len(token_ids)
        for turn, sampled in zip(self._turns, self._logprobs, strict=True):
            if trained and turn.sample == index:
                end = turn.end - turn.truncated
                loss_mask[turn.start : end] = [True] * (end - turn.start)
                logprobs[turn.start : end] = sampled or logprobs[turn.start : end]
        return Sample(
            token_ids=tuple(token_ids),
            loss_mask=tuple(loss_mask),
            logprobs_engine=tuple(logprobs) if self._is_sampled else (),
        )
