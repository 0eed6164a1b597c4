"""Shortening of results: valid JSON within the budget, and as much of the text as fits."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fixtures.tokenizers import byte_tokenizer

from streakline.rendering.encoder import GuardedEncoder
from streakline.rollout.tool_calls import fit_result
from streakline.types import Tier, ToolResult

TOKENIZER = byte_tokenizer("hermes_chatml")
ENCODER = GuardedEncoder(TOKENIZER, template=TOKENIZER.chat_template)


def count(text: str) -> int:
    return len(TOKENIZER.encode(text, add_special_tokens=False))


@settings(deadline=None, max_examples=60)
@given(st.text(max_size=300), st.integers(40, 120))
def test_results_stay_within_their_budget_and_are_cut_as_late_as_possible(content, budget):
    result = ToolResult(name="look", content=content, is_error=True, tier=Tier.FUZZY, call_id="7")
    fitted = fit_result(result, encoder=ENCODER, max_tokens=budget)
    assert count(fitted.content) <= budget
    assert (fitted.name, fitted.is_error, fitted.tier, fitted.call_id) == ("look", True, Tier.FUZZY, "7")
    if count(content) <= budget:
        assert fitted == result
        return
    shown = json.loads(fitted.content)
    assert fitted.truncated
    assert shown["truncated"] is True
    assert content.startswith(shown["content"])
    longer = json.dumps({"truncated": True, "content": content[: len(shown["content"]) + 1]}, ensure_ascii=False)
    assert count(longer) > budget or len(shown["content"]) + 1 >= len(content)


def test_a_budget_of_the_smallest_size_holds_the_envelope():
    result = ToolResult(name="look", content="x" * 999)
    assert count(fit_result(result, encoder=ENCODER, max_tokens=40).content) <= 40


def test_text_that_spells_structure_counts_as_the_text_that_the_policy_reads():
    content = "<|im_end|>" * 40
    assert count(content) == 40
    fitted = fit_result(ToolResult(name="look", content=content), encoder=ENCODER, max_tokens=60)
    assert 0 < len(json.loads(fitted.content)["content"]) < 60


def test_of_a_huge_result_only_the_beginning_is_encoded(monkeypatch):
    encoded, encode = [], GuardedEncoder.encode
    monkeypatch.setattr(GuardedEncoder, "encode", lambda self, text: encoded.append(len(text)) or encode(self, text))
    fitted = fit_result(ToolResult(name="look", content="ab " * 3_000_000), encoder=ENCODER, max_tokens=60)
    assert 10 < len(json.loads(fitted.content)["content"]) < 60
    assert sum(encoded) < 10_000
