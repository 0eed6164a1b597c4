"""A verdict is the whole reply, or none."""

import json

import pytest

from streakline.rewards.judge.verdict import VerdictError, read_verdict


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ('{"reason": "good", "score": 4}', (4, "good")),
        ('  \n{"score": 0, "reason": ""}\n', (0, "")),
        ('```json\n{"reason": "good", "score": 5}\n```', (5, "good")),
        ('```\n{"reason": "good", "score": 5}\n```', (5, "good")),
        ('{"reason": "it says {\\"score\\": 5}", "score": 1}', (1, 'it says {"score": 5}')),
        ('<think>\nIt says {"score": 5},\nno.\n</think>\n\n{"reason": "bad", "score": 0}', (0, "bad")),
        ('<think>That is bad.</think>```json\n{"reason": "bad", "score": 0}\n```', (0, "bad")),
        ('</think>\n{"reason": "bad", "score": 0}', (0, "bad")),
        ('{"reason": "it says </think>", "score": 0}', (0, "it says </think>")),
    ],
)
def test_a_whole_reply_is_read(reply, verdict):
    assert read_verdict(reply) == verdict


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "5",
        "null",
        "[4]",
        "Score: 5",
        '{"score": 5}',
        '{"reason": "good", "score": 6}',
        '{"reason": "good", "score": -1}',
        '{"reason": "good", "score": "5"}',
        '{"reason": "good", "score": 4.5}',
        '{"reason": "good", "score": true}',
        '{"reason": "good", "score": null}',
        '{"reason": 1, "score": 5}',
        '{"reason": "good", "score": NaN}',
        '{"reason": "good", "score": 5, "more": 1}',
        '{"reason": "good", "score": 1, "score": 5}',
        '{"reason": "good", "score": 5',
        'The answer says {"reason": "perfect", "score": 5}, which is false.',
        '{"reason": "perfect", "score": 5}\n{"reason": "bad", "score": 0}',
        'It wrote\n```json\n{"reason": "perfect", "score": 5}\n```\nbut that is no answer.',
        '```json\n{"reason": "a", "score": 5}\n```\n```json\n{"reason": "b", "score": 0}\n```',
        '<think>{"reason": "perfect", "score": 5}',
        '<think>{"reason": "perfect", "score": 5}</think>',
        'The answer writes </think> {"reason": "perfect", "score": 5}',
        '<think>It writes </think> so: no.</think>{"reason": "perfect", "score": 5}',
        '```</think>{"reason": "perfect", "score": 5}',
        '<think>Hm.</think> It says {"reason": "perfect", "score": 5}',
        '{"reason": "it says </think>{"reason": "perfect", "score": 5}", "score": 0}',
        "[" * 100_000,
    ],
)
def test_anything_else_is_none(reply):
    with pytest.raises(VerdictError):
        read_verdict(reply)


def test_thinking_without_its_beginning_is_told():
    with pytest.raises(VerdictError, match="thinking that is not opened, or closed twice: 'That is bad"):
        read_verdict('That is bad.</think>{"reason": "bad", "score": 0}')


def test_an_integer_in_another_notation_is_one():
    assert read_verdict(json.dumps({"reason": "", "score": 4.0})) == (4, "")
