"""Our lenient grade beside BFCL's own verdict, on right answers and on many near them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from streakline.evaluation.bfcl_parity_accepted import Steps
from streakline.evaluation.bfcl_parity_mutants import (
    MULTI_TURN_CHANGES,
    SINGLE_TURN_CHANGES,
    gold_steps,
    mutants,
)
from streakline.evaluation.bfcl_parity_rules import Difference, explain
from streakline.evaluation.bfcl_parity_sources import literal_source, upstream_verdicts
from streakline.rewards.base import RewardTerm
from streakline.rewards.bfcl.grade import BFCLGrade
from streakline.rewards.bfcl.official import OfficialBFCL
from streakline.tasks.bfcl import BFCLTaskSet
from streakline.tasks.bfcl_source import MULTI_TURN
from streakline.tasks.exclusions import bfcl_exclusions
from streakline.types import Message, Role, Sample, Task, Termination, ToolCall, ToolResult, Trajectory, Turn

GOLD = "gold"
JUDGES: Mapping[str, RewardTerm] = {
    "upstream": OfficialBFCL(),
    "lenient": BFCLGrade("lenient"),
    "strict": BFCLGrade("strict"),
}
"""Who judges. The first stands for BFCL's checker in single-turn alone; in multi-turn it is asked itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedAnswer:
    """One answer with the verdicts on it."""

    task: Task
    """What was asked."""
    change: str
    """How it differs from the gold answer; `gold` = not at all."""
    steps: Steps
    """[user turns][assistant turns][calls]"""
    verdicts: dict[str, bool]
    """By each of `JUDGES`: whether it is right."""
    difference: Difference | None = None
    """What a disagreement was proven to be; None = upstream and lenient agree, or nothing was proven."""

    @property
    def agrees(self) -> bool:
        """Whether upstream and lenient give the same verdict."""
        return self.verdicts["upstream"] == self.verdicts["lenient"]


@dataclass(slots=True, kw_only=True)
class CategoryParity:
    """What came out for one category; `add` counts an answer."""

    category: str
    """Of BFCL."""
    answers: int = 0
    """All that were graded."""
    right: Counter[str] = field(default_factory=Counter)
    """Judge -> answers that it calls right."""
    changed: int = 0
    """Of them changed ones."""
    changed_right: int = 0
    """Changed ones that upstream calls right."""
    explained: Counter[Difference] = field(default_factory=Counter)
    """Disagreements by the difference that they were proven to be."""
    unexplained: list[GradedAnswer] = field(default_factory=list)
    """The other disagreements."""
    examples: dict[Difference, GradedAnswer] = field(default_factory=dict)
    """The shortest answer of each difference."""
    gold: int = 0
    """Gold answers of tasks that are not excluded."""
    gold_right: Counter[str] = field(default_factory=Counter)
    """Judge -> those of them that it calls right."""
    excluded: int = 0
    """Gold answers of excluded tasks."""
    excluded_right: Counter[str] = field(default_factory=Counter)
    """Judge -> those of them that it calls right."""

    @property
    def agreement(self) -> float:
        """Share of agreements among the answers that no meant difference decides."""
        judged = self.answers - self.explained.total()
        return 1.0 - len(self.unexplained) / judged if judged else 1.0

    def add(self, graded: GradedAnswer) -> None:
        """Count one answer."""
        by_judge = [name for name, is_right in graded.verdicts.items() if is_right]
        self.answers += 1
        self.right.update(by_judge)
        if graded.difference is not None:
            self.explained[graded.difference] += 1
            known = self.examples.setdefault(graded.difference, graded)
            self.examples[graded.difference] = min(known, graded, key=lambda each: len(repr(each.steps)))
        elif not graded.agrees:
            self.unexplained.append(graded)
        if graded.change in {*SINGLE_TURN_CHANGES, *MULTI_TURN_CHANGES}:
            self.changed += 1
            self.changed_right += graded.verdicts["upstream"]
        if graded.change == GOLD:
            is_excluded = graded.task.id in bfcl_exclusions()
            self.gold += not is_excluded
            self.excluded += is_excluded
            (self.excluded_right if is_excluded else self.gold_right).update(by_judge)


def compare_category(category: str, *, count: int, seed: int, limit: int | None = None) -> CategoryParity:
    """Grade the gold answer and `count` changed ones of each task, excluded tasks too, by upstream and by our grader.

    Raises:
        ConfigError: There is no such category, or `limit` is below 1.
    """
    found = CategoryParity(category=category)
    for task in BFCLTaskSet(category, exclusions=False, limit=limit):
        for graded in _graded_answers(task, count=count, seed=seed):
            found.add(graded)
    return found


def answer_episode(task: Task, steps: Sequence[Sequence[Sequence[ToolCall]]]) -> Trajectory:
    """An episode that makes the calls of each user turn and closes it in words. Its tokens stand for nothing."""
    turns: list[Turn] = []
    for user_turn, calls_by_step in enumerate(steps):
        for calls in (*calls_by_step, ()):
            message = Message(role=Role.ASSISTANT, content="" if calls else "Done.", tool_calls=tuple(calls))
            results = tuple(ToolResult(name=call.name, content="") for call in calls)
            at = len(turns)
            turns.append(Turn(sample=0, start=at, end=at + 1, message=message, user_turn=user_turn, results=results))
    length = max(1, len(turns))
    return Trajectory(
        task_id=task.id,
        samples=(Sample(token_ids=(1,) * length, loss_mask=(bool(turns),) * length),),
        turns=tuple(turns),
        termination=Termination.ANSWER,
        terminator_id=1,
    )


def _graded_answers(task: Task, *, count: int, seed: int) -> Iterator[GradedAnswer]:
    gold = _grade(task, GOLD if task.gold else "a call", gold_steps(task))
    changed = [_grade(task, change, steps) for change, steps in mutants(task, count=count, seed=seed)]
    yield from (gold, *changed)
    if task.kind in MULTI_TURN and gold.verdicts["upstream"] and gold.agrees:
        wrong = [each.steps for each in changed if not each.verdicts["upstream"]]
        if wrong:
            yield _after_wrong(gold, wrong[0])
        yield from _with_code(task)


def _grade(task: Task, change: str, steps: Steps) -> GradedAnswer:
    trajectory = answer_episode(task, steps)
    verdicts = {name: term.score(task, trajectory) == 1.0 for name, term in JUDGES.items()}
    if task.kind in MULTI_TURN:
        verdicts["upstream"] = upstream_verdicts(task, literal_source(steps))[0]
    graded = GradedAnswer(task=task, change=change, steps=steps, verdicts=verdicts)
    return graded if graded.agrees else replace(graded, difference=explain(task, steps, ours=verdicts["lenient"]))


def _after_wrong(gold: GradedAnswer, wrong: Steps) -> GradedAnswer:
    """The gold answer as upstream judges it in worlds that it has already judged a wrong one in."""
    verdict = upstream_verdicts(gold.task, literal_source(wrong), literal_source(gold.steps))[-1]
    return _as_upstream(gold, verdict, change="gold after a wrong answer", proven=Difference.FRESH_STATE)


def _with_code(task: Task) -> Iterator[GradedAnswer]:
    """The gold answer with its first text argument written as a Python expression of the same value."""
    for turn, user_turn in enumerate(task.gold):
        for step, (call,) in enumerate(user_turn):
            for name, value in call.arguments.items():
                if isinstance(value, str) and value:
                    code = f"{value[:1]!r} + {value[1:]!r}"
                    steps = gold_steps(task)
                    steps[turn][step] = [replace(call, arguments={**call.arguments, name: code})]
                    source = literal_source(steps)
                    source[turn][step] = [source[turn][step][0].replace(repr(code), code)]
                    graded = _grade(task, "text as an expression", steps)
                    [verdict] = upstream_verdicts(task, source)
                    yield _as_upstream(graded, verdict, change=graded.change, proven=Difference.LITERALS_ONLY)
                    return


def _as_upstream(graded: GradedAnswer, verdict: bool, *, change: str, proven: Difference) -> GradedAnswer:
    """The answer with upstream's verdict on it in another setting. Its usual one agreeing with ours is the proof."""
    is_proven = graded.agrees and verdict != graded.verdicts["lenient"]
    verdicts = {**graded.verdicts, "upstream": verdict}
    return replace(graded, change=change, verdicts=verdicts, difference=proven if is_proven else graded.difference)
