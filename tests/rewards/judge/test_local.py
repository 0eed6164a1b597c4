"""A local model as judge."""

import json

import pytest
from tests.fixtures.tiny_agents import policy_folder

from streakline.policy.config import PolicyConfig
from streakline.rendering.tokenizer import load_tokenizer
from streakline.rewards.judge.case import conversation_case
from streakline.rewards.judge.local import LocalJudge
from streakline.rollout.scripted import ScriptedEngine
from streakline.types import Message, Role


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    folder = policy_folder(tmp_path_factory.mktemp("policy"), max_position_embeddings=8192)
    return PolicyConfig(name_or_path=folder, init="random")


def cases(*answers):
    request = Message(role=Role.USER, content="Close it.")
    return [conversation_case("test/1", [request, Message(role=Role.ASSISTANT, content=text)]) for text in answers]


def test_a_verdict_is_read_from_what_the_model_writes(policy):
    seen = []

    def make_engine(model, terminator_ids):
        tokenizer = load_tokenizer(policy.name_or_path)

        def script(prompt_ids, row):
            seen.append(tokenizer.decode(prompt_ids))
            return "Five." if "bad" in seen[-1] else json.dumps({"reason": "good", "score": 4})

        return ScriptedEngine(script, tokenizer=tokenizer, terminator_ids=terminator_ids)

    right, wrong = LocalJudge(policy, engine=make_engine).judge_all(cases("Closed.", "bad"))

    assert (right.score, right.reason, right.calls, right.failed_calls) == (4, "good", 1, 0)
    assert (wrong.score, wrong.failed_calls) == (None, 1)
    assert wrong.failure.startswith("a reply that is no verdict")
    assert seen[0].startswith("<|im_start|>system\nYou grade")
    assert seen[0].endswith("<|im_start|>assistant\n")


def test_a_model_of_random_weights_is_unscored_and_draws_nothing_of_the_run(policy):
    import torch

    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    judge = LocalJudge(policy, max_new_tokens=4)

    (judgment,) = judge.judge_all(cases("Closed."))

    assert judgment.score is None
    assert judgment.failure
    assert judge.judge_all([]) == []
    assert torch.equal(torch.rand(1), expected)
