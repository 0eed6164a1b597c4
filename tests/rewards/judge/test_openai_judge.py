"""A judge behind a server, whatever the server does."""

import asyncio
import json
import math
import re
import sqlite3
import time

import pytest
from tests.fixtures.judge_server import FAST, Answer, case, cases, data_of, is_probe, judge_at, scores

from streakline.errors import ConfigError, JudgeOutageError
from streakline.rewards.judge.endpoint import Endpoint
from streakline.rewards.judge.patience import Limits
from streakline.rewards.judge.prompt import JudgePrompt
from streakline.rewards.judge.store import Budget


def by_number(request):
    """0 ... 5 by the request that is judged."""
    return int(json.loads(data_of(request).splitlines()[0])["text"][3:-1]) % 6


def test_answers_get_their_own_score_whatever_the_order_of_the_replies(server, judge):
    server.script = lambda request, number: Answer(score=by_number(request), delay_s=0.002 * (number % 3))

    assert scores(judge.judge_all(cases(12))) == [0, 1, 2, 3, 4, 5] * 2


def test_no_more_requests_run_at_once_than_allowed(server, tmp_path):
    server.script = lambda request, number: Answer(delay_s=0.05)
    judge = judge_at(server.url, tmp_path / "judge.sqlite", limits=Limits(concurrency=3))

    judge.judge_all(cases(12))

    assert 1 < server.most_at_once <= 3


def test_what_is_sent_names_model_decoding_and_form_of_the_verdict(server, tmp_path):
    judge_at(server.url, tmp_path / "a", model="m", seed=None, options={"reasoning_effort": "low"}).judge_all([case()])

    (request,) = server.requests
    sent = {name: request[name] for name in request if name not in {"messages", "response_format"}}
    assert sent == {"model": "m", "temperature": 0.0, "max_tokens": 512, "reasoning_effort": "low"}
    schema = request["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["score"]["enum"] == [0, 1, 2, 3, 4, 5]
    assert [message["role"] for message in request["messages"]] == ["system", "user"]


def test_a_server_without_structured_output_is_asked_without_from_then_on(server, judge):
    refused = Answer(status=400)
    server.script = lambda request, number: refused if "response_format" in request else Answer(score=4)

    assert scores(judge.judge_all([case()])) == [4]
    assert scores(judge.judge_all([case(1)])) == [4]
    assert ["response_format" in request for request in server.requests] == [True, False, False]


def test_one_request_that_is_too_long_ends_structured_output_for_nobody(server, judge):
    server.script = lambda request, number: Answer(status=400) if "Do 1." in data_of(request) else Answer()

    judgments = judge.judge_all(cases(3))

    assert scores(judgments) == [3, None, 3]
    assert judgments[1].failure.startswith("Error code: 400")
    judge.judge_all([case(7)])
    assert "response_format" in server.requests[-1]


FAILURES = {
    "busy": Answer(status=429),
    "busy for a while": Answer(status=429, headers={"Retry-After": "0.005"}),
    "broken": Answer(status=500),
    "down": Answer(status=503, body=b"<html>down</html>"),
    "slow": Answer(delay_s=0.9),
    "no JSON": Answer(content="I would say 5."),
    "no verdict": Answer(content='{"reason": "good"}'),
    "half a verdict": Answer(content='{"reason": "good", "sco'),
    "cut off": Answer(finish_reason="length"),
    "beyond the scale": Answer(score=6),
    "no number": Answer(score="5"),
    "half a point": Answer(score=4.5),
    "true": Answer(score=True),
    "empty": Answer(content=""),
    "another body": Answer(body=b"[]"),
    "no body": Answer(body=b""),
    "part of a body": Answer(lost_bytes=10),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_is_met_by_another_attempt(server, tmp_path, failure):
    server.script = lambda request, number: FAILURES[failure] if number == 0 else Answer(score=4)
    limits = Limits(timeout_s=0.4 if failure == "slow" else 10.0, backoff_s=0.001)
    judge = judge_at(server.url, tmp_path / "judge.sqlite", limits=limits)

    (judgment,) = judge.judge_all([case()])

    assert (judgment.score, judgment.calls, judgment.failed_calls) == (4, 2, 1)


@pytest.mark.parametrize("failure", FAILURES)
def test_what_fails_for_good_is_unscored_while_others_are_scored(server, tmp_path, failure):
    bad = FAILURES[failure]
    server.script = lambda request, number: bad if "Do 1." in data_of(request) else Answer(score=5)
    timeout_s = 0.4 if failure == "slow" else 10.0
    limits = Limits(timeout_s=timeout_s, attempts=2, backoff_s=0.001, max_backoff_s=0.002, patience_s=0.1)

    judgments = judge_at(server.url, tmp_path / "judge.sqlite", limits=limits).judge_all(cases(3))

    assert scores(judgments) == [5, None, 5]
    assert judgments[1].failure
    assert judgments[1].failed_calls == judgments[1].calls


def test_nothing_passes_before_the_time_that_the_server_asked_for(server, tmp_path):
    judge = judge_at(server.url, tmp_path / "judge.sqlite", limits=Limits(backoff_s=0.001))
    asked = {}

    def script(request, number):
        asked[number] = time.monotonic()
        return Answer(status=429, headers={"Retry-After": "0.2"}) if number == 0 else Answer()

    server.script = script

    assert scores(judge.judge_all([case()])) == [3]
    assert asked[1] - asked[0] >= 0.2


def test_a_rate_spaces_requests(server, tmp_path):
    judge = judge_at(server.url, tmp_path / "judge.sqlite", limits=Limits(requests_per_minute=1200))
    start = time.monotonic()

    judge.judge_all(cases(4))

    assert time.monotonic() - start >= 3 * 0.05


def test_what_was_judged_is_not_asked_again(server, judge, tmp_path):
    judge.judge_all(cases(3))
    again = judge_at("http://127.0.0.1:9/elsewhere", tmp_path / "judge.sqlite").judge_all(cases(3))

    assert scores(again) == [3, 3, 3]
    assert [(judgment.cached, judgment.calls, judgment.reason) for judgment in again] == [(True, 0, "scripted")] * 3


@pytest.mark.parametrize(
    "change",
    [
        {"model": "m"},
        {"temperature": 0.5},
        {"seed": 1},
        {"max_tokens": 9},
        {"revision": "2"},
        {"options": {"a": 1}},
        {"prompt": JudgePrompt(criteria="5: yes. 0: no.")},
    ],
    ids=str,
)
def test_another_model_decoding_or_prompt_is_asked_anew(server, judge, tmp_path, change):
    judge.judge_all([case()])
    judge_at(server.url, tmp_path / "judge.sqlite", **change).judge_all([case()])

    assert len(server.requests) == 2


def test_equal_answers_are_asked_for_once(server, judge):
    judgments = judge.judge_all([case(), case(), case()])

    assert scores(judgments) == [3, 3, 3]
    assert sum(judgment.calls for judgment in judgments) == len(server.requests) == 1


def test_an_unscored_answer_is_asked_for_again_later(server, judge):
    server.script = lambda request, number: Answer(content="no")
    assert scores(judge.judge_all([case()])) == [None]
    server.script = lambda request, number: Answer(score=1)
    assert scores(judge.judge_all([case()])) == [1]


def test_what_failed_counts_as_judged_before_for_no_duplicate(server, judge):
    server.script = lambda request, number: Answer(content="no") if "Do 0." in data_of(request) else Answer()
    twice = [*cases(2), *cases(2)]

    assert [judgment.cached for judgment in judge.judge_all(twice)] == [False, False, False, True]


def test_damaged_rows_are_asked_for_again(server, judge, tmp_path):
    judge.judge_all([case()])
    connection = sqlite3.connect(tmp_path / "judge.sqlite")
    connection.execute("UPDATE verdicts SET score = 5")
    connection.commit()
    connection.close()

    assert scores(judge.judge_all([case()])) == [3]
    assert len(server.requests) == 2


def test_in_both_orders_the_answer_stands_last_and_first_and_the_mean_counts(server, tmp_path):
    def script(request, number):
        return Answer(score=4 if "final answer" in data_of(request).splitlines()[0] else 3)

    server.script = script
    judge = judge_at(server.url, tmp_path / "judge.sqlite", both_orders=True)

    (judgment,) = judge.judge_all([case()])

    assert (judgment.score, judgment.calls) == (3.5, 2)


def test_a_score_that_hangs_on_the_order_is_none(server, tmp_path):
    server.script = lambda request, number: Answer(score=5 if "final answer" in data_of(request).splitlines()[0] else 3)
    judge = judge_at(server.url, tmp_path / "judge.sqlite", both_orders=True)

    (judgment,) = judge.judge_all([case()])

    assert judgment.score is None
    assert judgment.failure == "3 with the answer last, 5 with it first"


def test_a_server_that_comes_back_is_waited_for(server, tmp_path, capsys):
    server.script = lambda request, number: Answer(status=503) if number < 30 else Answer(score=2)
    limits = Limits(attempts=2, backoff_s=0.001, max_backoff_s=0.002, patience_s=30.0)

    judgments = judge_at(server.url, tmp_path / "judge.sqlite", limits=limits).judge_all(cases(8))

    assert scores(judgments) == [2] * 8
    told = capsys.readouterr().out
    assert "judge scripted does not answer (Error code: 503" in told
    assert "judge scripted is back after" in told


def test_a_long_wait_is_told_of_again(server, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("streakline.rewards.judge.patience._TELL_EVERY_S", 0.0)
    server.script = lambda request, number: Answer(status=503)

    with pytest.raises(JudgeOutageError):
        judge_at(server.url, tmp_path / "judge.sqlite").judge_all([case()])
    assert "judge scripted still does not answer after 0 s (Error code: 503" in capsys.readouterr().out


def test_a_key_that_is_revoked_in_an_outage_ends_the_wait(server, tmp_path, capsys):
    server.script = lambda request, number: Answer(status=503 if number < 20 else 401)
    limits = Limits(attempts=2, backoff_s=0.001, max_backoff_s=0.002, patience_s=30.0)

    with pytest.raises(JudgeOutageError, match="Expected judge scripted to take requests, but got Error code: 401"):
        judge_at(server.url, tmp_path / "judge.sqlite", limits=limits).judge_all([case()])
    assert "is back" not in capsys.readouterr().out


def test_a_server_that_stays_away_is_an_outage_of_one_line(server, tmp_path):
    server.script = lambda request, number: Answer(status=503)
    judge = judge_at(server.url, tmp_path / "judge.sqlite")

    with pytest.raises(JudgeOutageError, match="Expected judge scripted to answer, but got: Error code: 503") as raised:
        judge.judge_all(cases(40))
    assert "\n" not in str(raised.value)
    # It stops asking long before each of 40 answers had its attempts.
    assert len(server.requests) - server.num_probes < 20


def test_nobody_at_the_address_is_an_outage(tmp_path):
    judge = judge_at("http://127.0.0.1:9/v1", tmp_path / "judge.sqlite")

    with pytest.raises(JudgeOutageError, match="Expected judge scripted to answer, but got: APIConnectionError"):
        judge.judge_all([case()])


def test_an_outage_in_the_middle_loses_nothing(server, tmp_path):
    server.script = lambda request, number: Answer(status=503) if 4 <= number < 40 else Answer(score=2)
    limits = Limits(concurrency=2, attempts=2, backoff_s=0.001, max_backoff_s=0.002, patience_s=30.0)

    judgments = judge_at(server.url, tmp_path / "judge.sqlite", limits=limits).judge_all(cases(8))

    assert scores(judgments) == [2] * 8


def test_once_it_is_out_it_is_tried_once_and_taken_up_when_it_is_back(server, judge):
    server.script = lambda request, number: Answer(status=503)
    with pytest.raises(JudgeOutageError):
        judge.judge_all([case()])
    server.requests.clear()

    with pytest.raises(JudgeOutageError):
        judge.judge_all([case()])
    assert [is_probe(request) for request in server.requests] == [True]
    server.script = lambda request, number: Answer()
    assert scores(judge.judge_all([case()])) == [3]


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_is_not_waited_out(server, judge, status):
    server.script = lambda request, number: Answer(status=status)

    with pytest.raises(
        JudgeOutageError, match=f"Expected judge scripted to take requests, but got Error code: {status}"
    ):
        judge.judge_all([case()])
    assert len(server.requests) == (1 if status == 401 else 2)


def test_to_wait_for_longer_than_patience_lasts_is_an_outage_at_once(server, judge):
    server.script = lambda request, number: Answer(status=429, headers={"Retry-After": "3600"})

    with pytest.raises(JudgeOutageError, match="but it asks to wait for 3600 s"):
        judge.judge_all([case()])
    assert len(server.requests) == 1


def test_a_budget_of_calls_ends_cleanly_and_keeps_what_was_judged(server, tmp_path):
    store = tmp_path / "judge.sqlite"
    with pytest.raises(JudgeOutageError, match="within its budget, but it has spent 5 calls and 500 tokens: raise"):
        judge_at(server.url, store, budget=Budget(max_calls=5)).judge_all(cases(8))
    assert len(server.requests) == 5

    assert scores(judge_at(server.url, store, budget=Budget(max_calls=8)).judge_all(cases(8))) == [3] * 8
    assert len(server.requests) == 8


def test_a_budget_of_tokens_counts_what_other_runs_spent(server, tmp_path):
    store = tmp_path / "judge.sqlite"
    judge_at(server.url, store).judge_all(cases(3))

    with pytest.raises(JudgeOutageError, match="within its budget"):
        judge_at(server.url, store, budget=Budget(max_tokens=300)).judge_all([case(9)])
    assert scores(judge_at(server.url, store, budget=Budget(max_tokens=301)).judge_all([case(9)])) == [3]


def test_a_reply_without_counts_costs_an_estimate(server, judge):
    server.script = lambda request, number: Answer(with_usage=False)

    assert judge.judge_all([case()])[0].tokens > 300


def test_a_key_comes_from_the_environment_and_its_absence_is_one_clear_line(server, tmp_path, monkeypatch):
    judge = judge_at(server.url, tmp_path / "judge.sqlite", api_key_env="JUDGE_KEY")
    monkeypatch.delenv("JUDGE_KEY", raising=False)
    with pytest.raises(ConfigError, match="Expected the environment variable `JUDGE_KEY` to hold the key"):
        judge.judge_all([case()])
    monkeypatch.setenv("JUDGE_KEY", "secret")
    assert scores(judge.judge_all([case()])) == [3]


def test_it_works_inside_a_running_event_loop(judge):
    async def notebook():
        return judge.judge_all([case()])

    assert scores(asyncio.run(notebook())) == [3]


def test_bad_options_are_one_clear_line(tmp_path):
    with pytest.raises(ConfigError, match="Expected `order_tolerance` to be at least 1, but got 0"):
        judge_at("http://127.0.0.1:9/v1", tmp_path / "a", order_tolerance=0)
    with pytest.raises(ConfigError, match=r"Expected `prompt\.max_result_chars` to be at least 8, but got 1"):
        JudgePrompt(max_result_chars=1)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"model": ""}, "`endpoint.model` to name a model"),
        ({"base_url": "127.0.0.1:8000/v1"}, "`endpoint.base_url` to be an address such as http://"),
        ({"base_url": "http://127.0.0.1:99999/v1"}, "`endpoint.base_url` to be an address"),
        ({"base_url": " http://127.0.0.1:1/v1"}, "`endpoint.base_url` to be an address"),
        ({"base_url": "http://[::1/v1"}, "`endpoint.base_url` to be an address"),
        ({"base_url": "http://"}, "`endpoint.base_url` to be an address"),
        ({"temperature": "None"}, "`endpoint.temperature` to be a number of at least 0, or null in a file"),
        ({"temperature": math.nan}, "`endpoint.temperature` to be"),
        ({"temperature": -1.0}, "`endpoint.temperature` to be"),
        ({"temperature": True}, "`endpoint.temperature` to be"),
        ({"max_tokens": 0}, "`endpoint.max_tokens` to be a whole number of at least 1"),
        ({"max_tokens": 1.5}, "`endpoint.max_tokens` to be"),
        ({"seed": 1.5}, "`endpoint.seed` to be a whole number, or null in a file"),
        ({"options": {"stream": True}}, "`endpoint.options` to leave messages, model, stream, n alone"),
    ],
    ids=str,
)
def test_bad_options_of_an_endpoint_are_one_clear_line(options, expected):
    with pytest.raises(ConfigError, match=re.escape(f"Expected {expected}") + ".*, but got ") as raised:
        Endpoint(**({"model": "m"} | options))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"concurrency": 0}, "a whole number of at least 1"),
        ({"concurrency": 1.5}, "a whole number of at least 1"),
        ({"attempts": True}, "a whole number of at least 1"),
        ({"timeout_s": 0}, "positive"),
        ({"timeout_s": math.nan}, "positive"),
        ({"patience_s": math.nan}, "at least 0"),
        ({"requests_per_minute": "None"}, "positive"),
    ],
    ids=str,
)
def test_bad_limits_are_one_clear_line(limits, expected):
    ((name, value),) = limits.items()
    with pytest.raises(ConfigError, match=rf"Expected `limits\.{name}` to be {expected}, but got {value!r}"):
        Limits(**limits)


@pytest.mark.parametrize("value", ["None", True, -1, 1.5], ids=str)
def test_a_bad_budget_is_one_clear_line(value):
    with pytest.raises(ConfigError, match=r"Expected `budget\.max_calls` to be a whole number of at least 0, or null"):
        Budget(max_calls=value)


def test_the_usual_limits_wait_minutes_before_they_give_up():
    assert FAST.patience_s < 1 < Limits().patience_s < 1800
