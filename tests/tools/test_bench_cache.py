"""The benchmark of look-ups in a cache."""

from random import Random
from types import SimpleNamespace

import pytest

from streakline.cache.index import FuzzyIndex
from streakline.cache.tokens import call_tokens

FIGURES = {
    "exact_p50_us_41k",
    "fuzzy_p50_us_41k",
    "fuzzy_p99_us_41k",
    "batched_us_41k",
    "fuzzy_p99_ms_1m",
    "recall_at_1_1m",
    "build_entries_per_s",
    "bytes_per_entry_1m",
    "fuzzy_latency_slope",
    "vs_rapidfuzz",
    "vs_datasketch",
    "vs_bruteforce",
}


@pytest.fixture
def bench(load_tool):
    return load_tool("bench/cache")


def nearest_id(corpus, question, least):
    """The first of the most similar calls of the tool, by sets; None = none is similar enough."""
    asked = call_tokens(question.tool, question.arguments)
    found = []
    for entry_id, call in enumerate(corpus.calls, 1):
        if call.tool == question.tool:
            other = call_tokens(call.tool, call.arguments)
            found.append((-len(asked & other) / len(asked | other), entry_id))
    similarity, entry_id = min(found)
    return entry_id if -similarity >= least else None


def test_recall_is_the_share_of_nearest_calls_that_are_found(bench):
    corpus = bench.make_corpus(600, 10, share_large=0.5, with_bfcl=False)
    questions = corpus.questions(80, Random(5))
    wanted = {number: nearest_id(corpus, question, 0.6) for number, question in enumerate(questions)}
    wanted = {number: entry_id for number, entry_id in wanted.items() if entry_id is not None}
    assert len(wanted) > 20
    for left_out in (0, 3):
        entries = [(n, *call[:2]) for n, call in enumerate(corpus.calls, 1) if not left_out or n % left_out]
        index = FuzzyIndex.build(entries)
        found = [not left_out or entry_id % left_out != 0 for entry_id in wanted.values()]
        expected = sum(found) / len(found)
        assert bench.recall_at_1(SimpleNamespace(fuzzy=index), corpus, questions) == pytest.approx(expected)


def test_questions_are_near_recorded_calls_but_not_recorded(bench):
    corpus = bench.make_corpus(400, 10, with_bfcl=False)
    assert len(corpus.calls) == len(set(map(repr, corpus.calls))) == 400
    questions = corpus.questions(50, Random(1))
    recorded = {repr((call.tool, call.arguments)) for call in corpus.calls}
    assert all(repr((call.tool, call.arguments)) not in recorded for call in questions)
    assert sum(nearest_id(corpus, question, 0.6) is not None for question in questions) > 20


def test_a_small_run_reports_every_figure(run_bench, tmp_path):
    figures, printed = run_bench("cache", "--small", "--picture", tmp_path / "f.png")
    assert set(figures) == FIGURES
    assert figures["recall_at_1_1m"] == 1
    assert all(value > 0 for name, value in figures.items() if name != "fuzzy_latency_slope")
    assert "100,000,000 entries, extrapolated and not measured" in printed
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")
