import pytest
import torch
from hypothesis import given, settings
from tests.fixtures.token_rows import token_rows
from torch.nn.functional import scaled_dot_product_attention

from streakline.algorithms.prefix_tree import build_tree
from streakline.algorithms.tree_attention import tree_attention


def _inputs(size, dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = ((size, 4, 8), (size, 2, 8), (size, 2, 8))
    return [torch.randn(shape, generator=generator).to(dtype).requires_grad_() for shape in shapes]


def _oracle(query, key, value, tree, scale):
    """Dense attention with the square mask."""
    places = torch.arange(tree.num_tokens)
    mask = (places <= places[:, None]) & (places[:, None] < tree.ends)
    rows = (x.transpose(0, 1)[None] for x in (query, key, value))
    return scaled_dot_product_attention(*rows, attn_mask=mask, scale=scale, enable_gqa=True)[0].transpose(0, 1)


@settings(max_examples=25, deadline=None)
@given(token_rows())
def test_values_and_gradients_equal_those_under_a_square_mask(rows):
    tree = build_tree(rows)
    inputs = _inputs(tree.num_tokens, torch.float64)

    found = tree_attention(*inputs, tree=tree, scale=0.7)
    expected = _oracle(*inputs, tree, 0.7)

    torch.testing.assert_close(found, expected, atol=1e-12, rtol=1e-10)
    weight = torch.randn_like(found)
    for part, whole in zip(
        torch.autograd.grad(found, inputs, weight), torch.autograd.grad(expected, inputs, weight), strict=True
    ):
        torch.testing.assert_close(part, whole, atol=1e-11, rtol=1e-9)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 0.03)])
def test_lower_precision_rounds_and_no_more(dtype, tolerance):
    tree = build_tree([[1] * 150 + [member] * 20 for member in range(5)])
    inputs = _inputs(tree.num_tokens, dtype)

    found = tree_attention(*inputs, tree=tree, scale=0.35)

    assert found.dtype == dtype
    exact = [x.detach().double().requires_grad_() for x in inputs]
    expected = _oracle(*exact, tree, 0.35)
    torch.testing.assert_close(found.double(), expected, atol=tolerance, rtol=tolerance)
    for part, whole in zip(
        torch.autograd.grad(found.sum(), inputs), torch.autograd.grad(expected.sum(), exact), strict=True
    ):
        torch.testing.assert_close(part.double(), whole, atol=5 * tolerance, rtol=5 * tolerance)


def test_scores_of_any_size_leave_no_nan():
    tree = build_tree([[1] * 150 + [member] * (member + 1) for member in range(6)])
    query, key, value = (x.detach() for x in _inputs(tree.num_tokens, torch.float32))
    query = (query * 300).requires_grad_()

    attended = tree_attention(query, key, value, tree=tree, scale=1.0)
    attended.sum().backward()

    assert bool(attended.isfinite().all())
    assert bool(query.grad.isfinite().all())
