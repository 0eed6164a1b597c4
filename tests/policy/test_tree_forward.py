import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model
from tests.fixtures.token_rows import token_rows
from tests.rollout.tiny_models import VOCABULARY, tiny_model
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import scaled_dot_product_attention
from transformers import Gemma2Config, Gemma2ForCausalLM, GPT2Config, GPT2LMHeadModel, MambaConfig, MambaForCausalLM

from streakline.algorithms.logprobs import token_logprobs
from streakline.algorithms.prefix_tree import build_tree
from streakline.policy.tree_forward import ATTENTION_NAME, enable_trees

FAMILIES = ["qwen3", "qwen2", "llama", "smollm2"]
TINY = {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}


def _batch(rows, seed=0, start=None):
    """Padded rows, of which a random part is trained, or everything from a column on."""
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    real = torch.arange(ids.shape[1]) < torch.tensor([[len(row)] for row in rows])
    trained = real & (torch.rand(ids.shape, generator=torch.Generator().manual_seed(seed)) > 0.5)
    trained[:, 0] = False
    if start is not None:
        trained = real & (torch.arange(ids.shape[1]) >= start)
    return {"input_ids": ids, "loss_mask": trained}


def _scored(model, batch, tree=None, **options):
    """Log-probabilities, and the gradient of a sum that weighs every row and place differently."""
    model.zero_grad()
    scores = token_logprobs(model, **batch, tree=tree, **options)
    if scores.logprobs.requires_grad:
        (scores.logprobs * torch.linspace(-1, 2, scores.logprobs.numel()).view_as(scores.logprobs)).sum().backward()
    gradients = [p.grad.flatten() for p in model.parameters() if p.requires_grad and p.grad is not None]
    return scores, torch.cat(gradients)


def _group(members=6, prompt=150, alone=12):
    """A group whose rows also share what they sampled first."""
    generator = torch.Generator().manual_seed(3)
    common = torch.randint(VOCABULARY, (prompt,), generator=generator).tolist()
    return [
        [*common, 5, *([6] if member % 2 else []), *torch.randint(VOCABULARY, (alone + member,), generator=generator)]
        for member in range(members)
    ]


def _assert_same(model, batch, rows, **options):
    padded, expected = _scored(model, batch, **options)
    packed, found = _scored(model, batch, tree=build_tree(rows), **options)
    torch.testing.assert_close(packed.logprobs, padded.logprobs, atol=1e-5, rtol=0)
    torch.testing.assert_close(packed.entropy, padded.entropy, atol=1e-5, rtol=0)
    assert bool((packed.is_argmax == padded.is_argmax).all())
    assert float((found - expected).norm() / expected.norm().clamp_min(1e-6)) < 1e-4


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=6, deadline=None)
@given(rows=token_rows(max_rows=8), seed=st.integers(0, 99))
def test_a_tree_gives_what_padded_rows_give(family, rows, seed):
    # Weights this large round log-probabilities by more than 1e-5 in float32, padded ones too.
    model = tiny_model(family).double()
    assert enable_trees(model) is not None

    batch = _batch(rows, seed)
    if bool(batch["loss_mask"].any()):
        _assert_same(model, batch, rows)


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=6)
@given(rows=token_rows(max_rows=8), seed=st.integers(0, 99))
def test_it_does_so_in_float32_with_weights_as_trained_models_have_them(family, rows, seed):
    model = tiny_model(family, initializer_range=0.05)
    assert enable_trees(model) is not None

    batch = _batch(rows, seed)
    if bool(batch["loss_mask"].any()):
        _assert_same(model, batch, rows)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_tree_gives_what_padded_rows_give_in_single_precision(family):
    model, rows = tiny_model(family), _group()
    enable_trees(model)

    _assert_same(model, _batch(rows), rows)


def test_a_trained_token_that_rows_share_is_scored_once():
    model, rows = tiny_model(), _group()
    enable_trees(model)
    batch = _batch(rows, start=150)
    scored = []
    model.lm_head.register_forward_hook(lambda _module, inputs, _output: scored.append(len(inputs[0])))
    tree = build_tree(rows)

    _assert_same(model, batch, rows)

    assert scored == [int(batch["loss_mask"].sum()), tree.num_tokens - 150]


def test_a_barred_token_stays_barred_in_its_own_row():
    model, rows = tiny_model(), _group()
    enable_trees(model)
    batch = _batch(rows, start=150)
    places = torch.zeros_like(batch["loss_mask"])
    places[::2, 150:154] = True  # in other rows the same shared token is not barred

    _assert_same(model, batch, rows, barred=(0, places), temperature=0.7)


@pytest.mark.parametrize("prepare", ["checkpointing", "lora", "lora and checkpointing"])
def test_works_under_activation_checkpointing_and_adapters(prepare):
    model = tiny_model()
    if "checkpointing" in prepare:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if "lora" in prepare:
        model = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False))
        model.enable_input_require_grads()
    assert enable_trees(model) is not None
    rows = _group()

    _assert_same(model.train(), _batch(rows), rows)

    if "lora" in prepare:
        with model.disable_adapter(), torch.no_grad():
            bare = [token_logprobs(model, **_batch(rows), tree=tree).logprobs for tree in (None, build_tree(rows))]
        torch.testing.assert_close(*bare, atol=1e-5, rtol=0)
        assert not torch.allclose(bare[0], token_logprobs(model, **_batch(rows)).logprobs, atol=1e-3)


def test_mixed_precision_rounds_and_no_more():
    model, rows = tiny_model(), _group()
    enable_trees(model)
    exact, true_gradient = _scored(model, _batch(rows))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        padded, padded_gradient = _scored(model, _batch(rows))
        packed, packed_gradient = _scored(model, _batch(rows), tree=build_tree(rows))

    def error(found, expected):
        return float((found - expected).detach().norm() / expected.detach().norm())

    assert error(packed.logprobs, exact.logprobs) < 1.5 * error(padded.logprobs, exact.logprobs)
    assert error(packed_gradient, true_gradient) < 1.5 * error(padded_gradient, true_gradient)


def test_padded_rows_and_generation_are_as_they_were():
    model, rows = tiny_model().eval(), _group()
    prompt = torch.tensor([[0, 0, 7, 8, 9], [1, 2, 3, 4, 5]])
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])

    def results():
        written = model.generate(input_ids=prompt, attention_mask=mask, max_new_tokens=5, do_sample=False)
        return token_logprobs(model, **_batch(rows)).logprobs, written

    before = results()
    enable_trees(model)
    assert all(torch.equal(one, other) for one, other in zip(before, results(), strict=True))


def test_enabling_twice_and_exporting_leave_no_trace(tmp_path):
    model = tiny_model()
    training = model.training
    torch.manual_seed(5)
    first = torch.rand(1)
    torch.manual_seed(5)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert enable_trees(model) == enable_trees(model)

    assert torch.equal(torch.rand(1), first)
    assert model.training == training
    model.save_pretrained(tmp_path)
    assert ATTENTION_NAME not in (tmp_path / "config.json").read_text()


def _gemma():
    return Gemma2ForCausalLM(
        Gemma2Config(**TINY, num_attention_heads=2, num_key_value_heads=1, head_dim=16, sliding_window=None)
    )


def _gpt2(**options):
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=2, n_positions=512, **options)
    )


def _eager():
    model = tiny_model()
    model.set_attn_implementation("eager")
    return model


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: tiny_model("qwen2_window"), "layers of sliding_attention"),
        (_gemma, "has layers of|softcap"),
        (_eager, "the attention implementation 'eager'"),
        (_gpt2, "dropout"),
        (lambda: MambaForCausalLM(MambaConfig(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=1)), "has "),
    ],
    ids=["sliding window", "soft cap", "eager", "dropout", "recurrent"],
)
def test_what_can_not_follow_a_tree_is_left_as_it_was_with_one_warning(make, reason):
    model = make().train()
    implementation = model.config._attn_implementation

    with pytest.warns(UserWarning, match=reason) as caught:
        assert enable_trees(model) is None

    assert len([one for one in caught if "Rows are padded" in str(one.message)]) == 1
    assert model.config._attn_implementation == implementation
    assert model.training


def test_learned_positions_follow_the_depth():
    model, rows = _gpt2(attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0), _group()
    assert enable_trees(model) is not None

    _assert_same(model, _batch(rows), rows)


def test_flex_attention_under_the_block_mask_equals_a_square_mask():
    tree = build_tree(_group())
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, 2, tree.num_tokens, 16, generator=generator) for _ in range(3))

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")
        found = flex_attention(query, key, value, block_mask=tree.block_mask())

    places = torch.arange(tree.num_tokens)
    mask = (places <= places[:, None]) & (places[:, None] < tree.ends)
    torch.testing.assert_close(found, scaled_dot_product_attention(query, key, value, attn_mask=mask))


@pytest.mark.gpu
@pytest.mark.parametrize("family", FAMILIES)
def test_a_gpu_gives_what_padded_rows_give(family):
    # FlexAttention has no kernel for heads of fewer than 16 dimensions.
    model, rows = tiny_model(family, head_dim=16).cuda(), _group()
    assert enable_trees(model) is not None
    batch = {name: value.cuda() for name, value in _batch(rows).items()}

    scores = [token_logprobs(model, **batch, tree=tree).logprobs for tree in (None, build_tree(rows).to(model.device))]

    torch.testing.assert_close(scores[1], scores[0], atol=1e-2, rtol=0)
