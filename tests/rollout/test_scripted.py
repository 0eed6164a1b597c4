import pytest
from tests.fixtures.tokenizers import byte_tokenizer

from streakline.errors import EngineError
from streakline.rollout.engine import GenerationRequest
from streakline.rollout.sampling import SamplingPolicy
from streakline.rollout.scripted import ScriptedEngine, script_turns
from streakline.types import Completion

TOKENIZER = byte_tokenizer("hermes_chatml")
END = TOKENIZER.convert_tokens_to_ids("<|im_end|>")


def play(script, *, rows: int = 1, turns: int = 1, max_new_tokens: int = 99) -> dict[int, list[Completion]]:
    engine = ScriptedEngine(script, tokenizer=TOKENIZER, terminator_ids=(END,))
    engine.sync_weights(4)
    seen: dict[int, list[Completion]] = {row: [] for row in range(rows)}
    request = GenerationRequest(prompt_ids=(1,), seed=0, max_new_tokens=max_new_tokens)

    def respond(row: int, completion: Completion) -> GenerationRequest | None:
        seen[row].append(completion)
        return request if len(seen[row]) < turns else None

    engine.generate([request] * rows, respond, sampling=SamplingPolicy())
    return seen


def test_text_gets_a_terminator_and_ids_are_taken_as_they_are():
    seen = play(script_turns([["the", [5, 6]]]), turns=2)[0]
    assert seen[0].token_ids == (*TOKENIZER.encode("the"), END)
    assert (seen[0].finish_reason, seen[0].weight_version) == ("stop", 4)
    assert seen[1].token_ids == (5, 6)
    assert seen[1].finish_reason == "length"


def test_markers_in_text_become_single_tokens():
    ids = play(script_turns([["<tool_call>"]]))[0][0].token_ids
    assert ids == (TOKENIZER.convert_tokens_to_ids("<tool_call>"), END)


def test_the_limit_cuts():
    completion = play(script_turns([["a long text"]]), max_new_tokens=3)[0][0]
    assert len(completion.token_ids) == 3
    assert completion.finish_reason == "length"


def test_later_rows_follow_the_last_script():
    seen = play(script_turns([["x"], ["y"]]), rows=3)
    assert seen[1] == seen[2] != seen[0]


def test_a_script_that_runs_out_says_so():
    with pytest.raises(EngineError, match="row 0 to end after its 1 scripted turns"):
        play(script_turns([["x"]]), turns=2)
