"""The benchmark of grading."""


def test_it_prints_rates_of_all_judges_and_writes_the_figures(run_bench):
    figures, printed = run_bench("grading", "--quick", "--mutants", 1)
    assert figures.keys() == {
        "single_turn_per_s",
        "multi_turn_per_s",
        "single_turn_vs_upstream",
        "multi_turn_vs_upstream",
    }
    assert min(figures.values()) > 0
    rows = [line.split("|")[1].strip() for line in printed.splitlines() if line.startswith("|")]
    assert {"simple_python", "simple_java", "multi_turn_long_context", "single-turn", "multi-turn"} <= set(rows)
    assert "1 repetition(s), seconds of CPU time" in printed
