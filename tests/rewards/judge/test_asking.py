"""What a server refuses, garbles or keeps silent about, over all requests of a step."""

import json
import time
from email.utils import formatdate

import pytest
from tests.fixtures.judge_server import FAST, Answer, case, cases, data_of, judge_at, scores

from streakline.errors import JudgeOutageError
from streakline.rewards.judge.patience import Limits, Silence
from streakline.rewards.judge.store import Budget, JudgeStore


@pytest.mark.parametrize("status", [403, 404, 405])
def test_a_gateway_that_refuses_one_answer_leaves_that_one_unscored(server, judge, status):
    server.script = lambda request, number: Answer(status=status) if "Do 1." in data_of(request) else Answer(score=4)

    judgments = judge.judge_all(cases(3))

    assert scores(judgments) == [4, None, 4]
    assert judgments[1].failure.startswith(f"Error code: {status}")
    assert sum(judgment.calls for judgment in judgments) == len(server.requests) == 4


def test_who_refuses_all_is_asked_no_more_than_a_few_times(server, judge):
    server.script = lambda request, number: Answer(status=403)

    with pytest.raises(JudgeOutageError, match="to take requests, but got Error code: 403"):
        judge.judge_all(cases(60))
    assert len(server.requests) < 30


USELESS = {
    "an option it does not know": Answer(status=400, body=b'{"error": {"message": "no max_tokens"}}'),
    "a page": Answer(body=b"<html>log in</html>"),
    "an error with status 200": Answer(body=b'{"error": {"message": "overloaded"}}'),
    "nothing": Answer(body=b""),
    "an empty message": Answer(content=""),
    "cut off": Answer(finish_reason="length"),
}
SAYS = {"an option it does not know": "no max_tokens", "a page": "log in", "an error with status 200": "overloaded"}


@pytest.mark.parametrize("kind", USELESS)
def test_who_brings_a_verdict_for_nothing_is_out_and_says_why(server, tmp_path, kind):
    server.script = lambda request, number: USELESS[kind]
    limits = Limits(attempts=2, backoff_s=0.001, max_backoff_s=0.01, patience_s=600.0)
    judge = judge_at(server.url, tmp_path / "judge.sqlite", limits=limits)

    with pytest.raises(JudgeOutageError, match=f"scripted to give verdicts, but it gave none, .*{SAYS.get(kind, '')}"):
        judge.judge_all(cases(3))
    # What it said of one request may be due to that request.
    assert scores(judge_at(server.url, tmp_path / "other.sqlite", limits=limits).judge_all([case()])) == [None]
    server.requests.clear()
    with pytest.raises(JudgeOutageError, match="scripted to give verdicts"):
        judge.judge_all(cases(30))
    assert server.num_probes == len(server.requests)
    server.script = lambda request, number: Answer()
    assert scores(judge.judge_all(cases(3))) == [3] * 3


def test_answers_that_can_all_not_be_judged_are_unscored_where_the_server_judges_others(server, judge):
    server.script = lambda request, number: Answer(status=400) if data_of(request) else Answer()

    assert scores(judge.judge_all(cases(3))) == [None] * 3


def test_patience_is_one_clock_from_the_first_failure_and_is_told_of_at_once(server, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("streakline.rewards.judge.patience._TELL_AFTER_S", 0.3)
    told = []

    def script(request, number):
        told.append(capsys.readouterr().out)
        return Answer(status=503, headers={"Retry-After": "0.4"})

    server.script = script
    start = time.monotonic()

    with pytest.raises(JudgeOutageError, match="to answer, but got: Error code: 503"):
        judge_at(server.url, tmp_path / "a", limits=Limits(patience_s=1.0, backoff_s=0.02)).judge_all(cases(3))
    assert 1.0 <= time.monotonic() - start < 2.5
    said = "".join(told)
    assert "judge scripted does not answer (Error code: 503 - scripted failure): waiting for up to 1 s" in said


def test_a_date_is_a_time_to_wait_until(server, judge):
    later = formatdate(time.time() + 3600, usegmt=True)
    server.script = lambda request, number: Answer(status=429, headers={"Retry-After": later})

    with pytest.raises(JudgeOutageError, match=r"it asks to wait for 3\d\d\d.* s: Error code: 429"):
        judge.judge_all([case()])


@pytest.mark.parametrize("date", ["Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2015 07:28:00 -0000", "soon", "-5"])
def test_a_time_that_has_passed_or_is_none_is_left_to_the_pauses(server, judge, date):
    busy = Answer(status=429, headers={"Retry-After": date})
    server.script = lambda request, number: busy if number == 0 else Answer(score=1)

    assert scores(judge.judge_all([case()])) == [1]


def test_who_hangs_is_told_of_at_the_first_time_out(capsys):
    silence = Silence(Limits(), judge="slow")
    now = time.monotonic()
    silence.note("a lost connection", since=now)
    assert capsys.readouterr().out == ""

    silence.note("no answer within 60 s", since=now - 60)
    assert capsys.readouterr().out == "judge slow does not answer (no answer within 60 s): waiting for up to 600 s\n"
    silence.end()
    assert capsys.readouterr().out == "judge slow is back after 0 s\n"


def test_a_rate_limit_counts_as_no_try(server, tmp_path):
    statuses = [429] * 8 + [500]
    server.script = lambda request, number: Answer(score=2, status=[*statuses, 200][min(number, 9)])
    limits = Limits(attempts=2, backoff_s=0.001, max_backoff_s=0.002)

    (judgment,) = judge_at(server.url, tmp_path / "judge.sqlite", limits=limits).judge_all([case()])

    # Were it one, there would be a probe, and a second round.
    assert (judgment.score, server.num_probes, judgment.failed_calls) == (2, 0, 9)


def test_pauses_grow_while_a_server_is_waited_for(server, tmp_path):
    server.script = lambda request, number: Answer(status=503)
    limits = Limits(attempts=1, backoff_s=0.02, max_backoff_s=10.0, patience_s=1.0)

    with pytest.raises(JudgeOutageError):
        judge_at(server.url, tmp_path / "judge.sqlite", limits=limits).judge_all([case()])
    # The first at once; then after 0.02, 0.06, 0.14, 0.3, 0.62 s and at the end, not each 0.02 s.
    assert 3 <= server.num_probes <= 7


def test_a_budget_counts_what_is_asked_again_without_structured_output(server, tmp_path):
    server.script = lambda request, number: Answer(status=400)

    with pytest.raises(JudgeOutageError, match="within its budget, but it has spent 5 calls"):
        judge_at(server.url, tmp_path / "judge.sqlite", budget=Budget(max_calls=5)).judge_all(cases(4))
    assert len(server.requests) == 5


def test_an_outage_keeps_what_was_judged_and_counts_what_failed(server, judge):
    judge.judge_all([case(0)])
    server.script = lambda request, number: Answer(score=5) if "Do 1." in data_of(request) else Answer(status=503)
    server.requests.clear()

    with pytest.raises(JudgeOutageError) as outage:
        judge.judge_all(cases(3))
    judgments = outage.value.judgments
    assert scores(judgments) == [3, 5, None]
    assert sum(judgment.calls for judgment in judgments) == len(server.requests)
    assert sum(judgment.failed_calls for judgment in judgments) == len(server.requests) - 1

    server.requests.clear()
    with pytest.raises(JudgeOutageError) as outage:
        judge.judge_all(cases(3))
    assert scores(outage.value.judgments) == [3, 5, None]
    assert [(one.calls, one.failed_calls) for one in outage.value.judgments] == [(0, 0), (0, 0), (1, 1)]
    assert outage.value.judgments[2].failure == str(outage.value)


def test_of_two_runs_that_ask_at_once_both_take_the_first_verdict(server, tmp_path):
    store = tmp_path / "judge.sqlite"

    def script(request, number):
        if number == 0:
            assert scores(judge_at(server.url, store).judge_all([case()])) == [1]
            return Answer(score=5)
        return Answer(score=1)

    server.script = script

    assert scores(judge_at(server.url, store, limits=FAST).judge_all([case()])) == [1]


def _replied(message=None, **usage):
    verdict = json.dumps({"reason": "", "score": 4})
    message = {"content": verdict} if message is None else message
    return json.dumps({"choices": [{"message": message}], "usage": usage}).encode()


VERDICT = '{"reason": "", "score": 4}'
PARTS = [
    {"type": "thinking", "thinking": "?"},
    {"type": "text", "text": VERDICT[:9]},
    {"type": "text"} | {"text": VERDICT[9:]},
]
SHAPES = {
    "parts of text": (_replied({"content": PARTS}), 4),
    "a list": (_replied({"content": [1]}), None),
    "parts that are none": (_replied({"content": [{"type": "text", "text": 5}]}), None),
    "an object": (_replied({"content": {"score": 4}}), None),
    "a number": (_replied({"content": 5}), None),
    "a message that is none": (_replied("text"), None),
    "deep": (b"[" * 300_000, None),
    "a deep verdict": (_replied({"content": '{"a":' * 5000}), None),
    "nearly too deep a verdict": (_replied({"content": '{"a":' * 300 + "1" + "}" * 300}), None),
    "no text at all": (b'{"choices": "\xff\xfe"}', None),
    "more tokens than can be": (_replied(total_tokens=10**30), 4),
    "fewer than none": (_replied(total_tokens=-5), 4),
    "true": (_replied(total_tokens=True), 4),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_reply_of_any_shape_is_a_verdict_or_none(server, judge, tmp_path, shape):
    body, score = SHAPES[shape]
    server.script = lambda request, number: Answer(body=body)

    (judgment,) = judge.judge_all([case()])

    assert judgment.score == score
    assert len(judgment.failure) < 300
    with JudgeStore(tmp_path / "judge.sqlite") as store:
        assert store.spent("scripted")[1] >= (300 if score else 0)
