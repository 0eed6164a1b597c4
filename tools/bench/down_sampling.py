"""What an update loses by training on m of n trajectories: `python tools/bench/down_sampling.py --model <SFT export>`.

Rollouts of one policy are frozen. The gradient of one update is computed from the full groups, and from what each rule
keeps with advantages over the kept trajectories or over all. Printed for each: how much of the variance of rewards
inside a group is kept, the share of trained tokens, and the cosine of the gradient with that of the full groups (for
`random` these are means over draws). `bias` is the distance between the mean gradient over the draws, or the only one
there is, and the full one, both scaled to length 1; without bias it is 0, but for the number of draws.

Two rewards: success in the world (0 or 1), and the same with DAPO's soft punishment of length, which is graded. Groups
without contrast, which teach nothing either way, are left out.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import nn
from transformers.utils.logging import disable_progress_bar

from streakline.algorithms.down_sampling import Rule, down_sample
from streakline.algorithms.logprobs import token_logprobs
from streakline.data.rows import TrainingRow, collate_rows, rows_of
from streakline.environment.live import LiveEnvironment
from streakline.modules.buffer import lacks_contrast, training_rows
from streakline.modules.groups import score_groups
from streakline.modules.grpo_config import GRPOConfig
from streakline.policy.config import PolicyConfig
from streakline.policy.load import load_policy
from streakline.rendering.create import create_renderer
from streakline.rendering.policy import RenderingPolicy
from streakline.rendering.tokenizer import load_tokenizer
from streakline.rewards.base import Reward
from streakline.rewards.overlong import OverlongShaping
from streakline.rewards.success import StateSuccess
from streakline.rollout.agent_loop import AgentLoop, EpisodeConfig
from streakline.rollout.hf_engine import HFEngine
from streakline.rollout.sampling import SamplingPolicy
from streakline.tasks.toolworld import ToolWorldTaskSet
from streakline.types import Group, Task, Trajectory

SAMPLING = SamplingPolicy(max_new_tokens=64, max_tokens=512)
RENDERING = RenderingPolicy(schema_style="short")
RULES: tuple[Rule, ...] = ("max_variance", "random", "max_reward")
STATISTICS: tuple[Literal["kept", "all"], ...] = ("kept", "all")
_NAMES = ("rule", "statistics")
REWARDS = {
    "success": Reward({"success": StateSuccess()}),
    "shaped": Reward({"shaped": OverlongShaping(StateSuccess(), max_tokens=96, buffer_tokens=64)}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """What a rule does to an update."""

    rule: Rule
    statistics: str
    variance_kept: float
    token_share: float
    cosine: float
    bias: float


def roll_out(path: str, tasks: Sequence[Task], *, num_samples: int) -> tuple[nn.Module, list[list[Trajectory]]]:
    """The policy, and its trajectories."""
    model, renderer = load_policy(PolicyConfig(name_or_path=path)), create_renderer(load_tokenizer(path), RENDERING)
    engine = HFEngine(model, (renderer.terminator_id,))
    loop = AgentLoop(engine=engine, renderer=renderer, sampling=SAMPLING, episode=EpisodeConfig(), run_seed=0)
    with torch.no_grad():
        return model, loop.run(tasks, num_samples=num_samples, make_environment=LiveEnvironment, epoch=0)


def inner_products(model: nn.Module, rows: Sequence[TrainingRow]) -> torch.Tensor:
    """[rows, rows] float64 inner products of the gradients of the rows' sums of log-probabilities.

    Every update at unchanged weights is a sum of these gradients, so that nothing else is needed to compare two.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    gradients = torch.empty(len(rows), sum(parameter.numel() for parameter in parameters))
    for index, row in enumerate(rows):
        batch = collate_rows([row], pad_id=0)
        scores = token_logprobs(model, input_ids=batch.input_ids, loss_mask=batch.loss_mask)
        torch.cat(
            [part.flatten() for part in torch.autograd.grad(scores.logprobs.sum(), parameters)], out=gradients[index]
        )
    return (gradients @ gradients.T).double()


def update_weights(rows: Sequence[TrainingRow], places: dict[int, int]) -> torch.Tensor:
    """[samples] weights of the gradients in an update with loss `dapo`; `places` by the identity of a sample."""
    weights = torch.zeros(len(places), dtype=torch.float64)
    for row in rows:
        weights[places[id(row.sample)]] = row.advantage
    return weights / sum(row.num_trained_tokens for row in rows)


def keep(groups: Sequence[Group], rule: Rule, *, num_kept: int, draw: int) -> list[Group]:
    """What a rule leaves of some groups."""
    names = [f"{draw}/{group.task.id}" for group in groups]
    chosen = down_sample([group.rewards for group in groups], keep=num_kept, rule=rule, identities=names)
    pairs = zip(groups, chosen, strict=True)
    return [replace(group, trajectories=tuple(group.trajectories[i] for i in indices)) for group, indices in pairs]


def mean_variance(groups: Sequence[Group]) -> float:
    """Mean over groups of the variance of the scored rewards."""
    scored = [[reward for reward in group.rewards if reward is not None] for group in groups]
    return statistics.fmean(statistics.pvariance(rewards) for rewards in scored if rewards)


def compare(
    groups: Sequence[Group], products: torch.Tensor, *, places: dict[int, int], num_kept: int, draws: int
) -> list[Quality]:
    """All rules on the same groups."""

    def dot(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return ((one @ products) * other).sum(-1)

    full_rows = training_rows(groups, config=GRPOConfig())
    num_tokens = sum(row.num_trained_tokens for row in full_rows)
    full = update_weights(full_rows, places)
    full = full / dot(full, full).sqrt()
    found: list[Quality] = []
    for rule, kind in [("none", "kept"), *product(RULES, STATISTICS)]:
        numbers = range(draws if rule == "random" else 1)
        kept = [keep(groups, rule, num_kept=num_kept, draw=number) for number in numbers]
        rows = [training_rows(part, config=GRPOConfig(advantage_statistics=kind)) for part in kept]
        updates = torch.stack([update_weights(part, places) for part in rows])
        mean = updates.mean(0)
        difference = mean / dot(mean, mean).sqrt() - full
        found.append(
            Quality(
                rule=rule,
                statistics=kind,
                variance_kept=statistics.fmean(map(mean_variance, kept)) / mean_variance(groups),
                token_share=statistics.fmean(sum(r.num_trained_tokens for r in part) for part in rows) / num_tokens,
                cosine=float((dot(updates, full) / dot(updates, updates).sqrt()).mean()),
                bias=float(dot(difference, difference).clamp(min=0).sqrt()),
            )
        )
    return found


def print_table(name: str, qualities: Sequence[Quality]) -> None:
    """A Markdown table."""
    print(f"\n| reward `{name}`: rule | advantages over | variance kept | tokens trained | cosine | bias |")
    print("|---|---|---|---|---|---|")
    for one in qualities:
        print(
            f"| `{one.rule}` | {one.statistics} | {one.variance_kept:.2f} | {one.token_share:.2f} | {one.cosine:.3f} "
            f"| {one.bias:.3f} |"
        )


def draw(found: Mapping[str, Sequence[Quality]], path: Path) -> None:
    """Cosine with the full gradient, and bias, by rule; a panel for each reward."""
    figure = Figure(figsize=(6 * len(found), 4), layout="constrained")
    for axes, (name, qualities) in zip(np.atleast_1d(figure.subplots(1, len(found))), found.items(), strict=True):
        places = np.arange(len(qualities))
        axes.barh(places - 0.2, [one.cosine for one in qualities], height=0.4, label="cosine with the full gradient")
        axes.barh(places + 0.2, [one.bias for one in qualities], height=0.4, label="bias")
        axes.set_yticks(places, [f"{one.rule}, {one.statistics}" for one in qualities])
        axes.set(title=f"reward {name}")
        axes.invert_yaxis()
        axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Measure, print, and write the figures where asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="data/base", help="folder in the Hugging Face layout")
    parser.add_argument("--tasks", type=int, default=48)
    parser.add_argument("--samples", type=int, default=8, help="n, trajectories of a task")
    parser.add_argument("--keep", type=int, default=4, help="m, those that are kept")
    parser.add_argument("--draws", type=int, default=64, help="draws of the rule `random`")
    parser.add_argument("--picture", type=Path, default=Path("mlruns/bench/down_sampling.png"))
    parser.add_argument("--json", type=Path, default=None, help="file to write the figures to")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    disable_progress_bar()  # type: ignore[no-untyped-call]
    tasks = ToolWorldTaskSet(arguments.tasks, split="train", seed=1).tasks()
    model, trajectories = roll_out(arguments.model, tasks, num_samples=arguments.samples)
    rows = rows_of([item for group in trajectories for item in group], [0.0] * (len(tasks) * arguments.samples))
    products = inner_products(model, rows)
    places = {id(row.sample): index for index, row in enumerate(rows)}
    figures: dict[str, float] = {}
    found: dict[str, Sequence[Quality]] = {}
    for name, reward in REWARDS.items():
        groups = score_groups(tasks, trajectories, reward=reward)
        with_contrast = [group for group in groups if not lacks_contrast(group, config=GRPOConfig())]
        figures[f"{name}_groups_with_contrast"] = len(with_contrast)
        if not with_contrast:
            print(f"\nreward `{name}`: no group of {len(tasks)} has contrast")
            continue
        qualities = compare(with_contrast, products, places=places, num_kept=arguments.keep, draws=arguments.draws)
        found[name] = qualities
        print_table(name, qualities)
        for one in qualities:
            prefix = f"{name}_{one.rule}_{one.statistics}"
            figures |= {f"{prefix}_{key}": round(value, 4) for key, value in asdict(one).items() if key not in _NAMES}
    if found:
        draw(found, arguments.picture)
        print(f"\npicture in {arguments.picture}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"figures": figures}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
