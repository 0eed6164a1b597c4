import pytest

from streakline.algorithms.forecast import share_spared, speed_ups


def found(*, spared=0.0, **options):
    """Of steps in which 4 groups members have rows of 10 tokens, one of them trained; 3 s rollouts, 1 s update."""
    defaults = {"rollout_s": 3, "update_s": 1, "row_tokens": 10, "computed_share": 1, "kept": 4, "sampled": 4}
    return speed_ups(spared=spared, **(defaults | options))


def test_what_changes_nothing_gains_nothing():
    assert set(found().values()) == {1}


def test_a_filter_spares_rollouts_and_not_updates():
    gains = found(spared=0.5)
    assert gains["streak filter"] == gains["together"] == pytest.approx(4 / 2.5)
    assert gains["prefix tree"] == gains["down-sampling"] == 1


def test_an_update_costs_what_it_computes():
    # Rows share 9 of their tokens: 9 + 4 of 40 are computed, in 1.3 s; padded 4 s.
    packed = found(update_s=1.3, computed_share=13 / 40)
    assert packed["prefix tree"] == packed["together"] == pytest.approx(7 / 4.3)
    # All 8 members: padded 8 s; 4 of them 4 s; a tree of 9 + 8 tokens 1.7 s.
    both = found(update_s=1.3, computed_share=13 / 40, sampled=8)
    assert both["down-sampling"] == pytest.approx(11 / 7)
    assert both["prefix tree"] == pytest.approx(11 / 4.7)
    assert both["together"] == pytest.approx(11 / 4.3)


def test_a_tree_spares_no_work_of_the_head():
    # 13 computed tokens, and 4 trained ones that cost 2 more each: 21 in 2.1 s; padded 40 + 8 in 4.8 s.
    gains = found(update_s=2.1, computed_share=13 / 40, head_tokens=2)
    assert gains["prefix tree"] == pytest.approx((3 + 4.8) / (3 + 2.1))


def test_one_kept_trajectory_shares_nothing_within_its_group():
    gains = found(kept=1)
    assert gains["down-sampling"] == gains["together"] == pytest.approx((3 + 4) / (3 + 1))
    assert gains["prefix tree"] == 1


@pytest.mark.parametrize(
    ("k", "rest", "epochs", "skipped"),
    [
        (1, 1, 5, 2),  # + - + - +
        (1, 2, 6, 4),  # + - - + - -
        (2, 1, 7, 2),  # + + - + + - +
        (1, None, 5, 4),  # + - - - -
        (3, None, 5, 2),
        (3, None, 2, 0),
        (1, 1, 1, 0),
    ],
)
def test_a_solved_task_is_skipped_after_k_epochs(k, rest, epochs, skipped):
    share = share_spared(all_correct=0.4, k=k, rest=rest, probe_fraction=0.05, epochs=epochs)
    assert share == pytest.approx(0.4 * 0.95 * skipped / epochs)
