import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fixtures.episodes import call, episode

from streakline.metrics.tiers import TierMetrics
from streakline.types import Group, Message, Role, Task, Tier, ToolResult

TASK = Task(id="t", source="test", kind="k", tools=(), requests=((Message(role=Role.USER, content="x"),),))


def _group(*members):
    """A group whose members got the results (tier, similarity) of one turn."""
    trajectories = []
    for served in members:
        results = tuple(
            ToolResult(name="f", content="", tier=tier, similarity=similarity) for tier, similarity in served
        )
        trajectory = episode(TASK, [[[call("f")] * len(served)]])
        trajectories.append(
            replace(trajectory, turns=(replace(trajectory.turns[0], results=results), *trajectory.turns[1:]))
        )
    return Group(task=TASK, trajectories=tuple(trajectories), all_rewards=(None,) * len(trajectories))


def _values(*groups):
    metrics = TierMetrics()
    for group in groups:
        metrics.update([group])
    return metrics.compute()


def test_shares_of_calls_and_of_trajectories_by_their_worst_result():
    exact, fuzzy, miss = (Tier.EXACT, 1.0), (Tier.FUZZY, 0.7), (Tier.MISS, 0.0)
    values = _values(_group([exact, exact, fuzzy], []), _group([exact, miss], [exact, exact, exact]))

    calls = {name: values[f"tier/{name}"] for name in Tier}
    assert calls == pytest.approx({"live": 0, "exact": 6 / 8, "fuzzy": 1 / 8, "best_effort": 0, "miss": 1 / 8})
    worst = {name: values[f"worst_tier/{name}"] for name in Tier}
    assert worst == {"live": 0.25, "exact": 0.25, "fuzzy": 0.25, "best_effort": 0.0, "miss": 0.25}


def test_only_inexact_results_have_a_similarity():
    fuzzy = [(Tier.FUZZY, value) for value in (0.6, 0.65, 0.7, 1.0)]
    values = _values(_group([*fuzzy, (Tier.BEST_EFFORT, 0.0), (Tier.EXACT, 1.0), (Tier.MISS, 0.0), (Tier.LIVE, 1.0)]))

    shares = {name: share for name, share in values.items() if name.startswith("similarity/") and share}
    assert shares == {"similarity/0.0": 0.2, "similarity/0.6": 0.4, "similarity/0.7": 0.2, "similarity/0.9": 0.2}


def test_rewards_are_told_apart_by_the_worst_tier():
    group = _group([(Tier.EXACT, 1.0)], [(Tier.EXACT, 1.0)], [(Tier.MISS, 0.0)], [(Tier.FUZZY, 0.5)])
    rewards = (1.0, 0.5, 0.25, None)
    scored = zip(group.trajectories, rewards, strict=True)
    values = _values(replace(group, trajectories=tuple(replace(item, reward=reward) for item, reward in scored)))

    assert values["reward_by_tier/exact"] == 0.75
    assert values["reward_by_tier/miss"] == 0.25
    assert all(math.isnan(values[f"reward_by_tier/{tier}"]) for tier in ("live", "fuzzy", "best_effort"))


@given(st.lists(st.integers(1, 40).flatmap(lambda n: st.integers(0, n).map(lambda k: k / n)), min_size=1, max_size=30))
def test_bins_are_those_of_a_histogram(similarities):
    values = _values(_group([(Tier.FUZZY, similarity) for similarity in similarities]))

    edges = [low / 10 for low in range(11)]
    counts, _ = np.histogram(similarities, bins=edges)
    assert [values[f"similarity/{low}"] for low in edges[:-1]] == pytest.approx(counts / len(similarities))


def test_the_names_are_the_same_whatever_happened():
    nothing, much = _values(_group()), _values(_group([(tier, 0.5) for tier in Tier]))

    assert list(nothing) == list(much)
    assert len(much) == 3 * len(Tier) + 10
    assert all(np.isnan(value) for value in nothing.values())


def test_reset_forgets():
    metrics = TierMetrics()
    metrics.update([_group([(Tier.MISS, 0.0)])])
    metrics.reset()
    metrics.update([_group([(Tier.EXACT, 1.0)])])

    assert metrics.compute()["tier/exact"] == 1.0
