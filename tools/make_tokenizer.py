"""Build the project's own tokenizer: `python tools/make_tokenizer.py [--out data/base]`.

A byte-level BPE of 1,408 tokens for the small models of the quickstart and the tests, learned from the texts of
base_tasks/ and of ToolWorld's `train` split. What it is built for is copying: a name must be the same tokens in a
request, in a tool result and in the arguments of a call. So words are split from the space before them, except the
frequent words of the phrases themselves (which are never copied), and digits stand alone.

The same versions give the same files.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from pathlib import Path

from base_tasks import BaseTaskSet
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from streakline.rendering.tokenizer import read_chat_template
from streakline.rendering.tools import tool_spec
from streakline.tasks.toolworld import ToolWorldTaskSet, demonstrate
from streakline.types import Role

VOCABULARY = 1408
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKERS = (
    "<tools>",
    "</tools>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
)
_COMMON_SHARE = 0.004
"""A word that this share of the requests holds belongs to the phrases, not to the values."""


def read_texts(size: int) -> tuple[list[str], list[str]]:
    """Requests, and everything that is ever rendered."""
    requests: list[str] = []
    texts: list[str] = []
    for tasks in (
        BaseTaskSet(size, most_user_turns=3),
        ToolWorldTaskSet(size, split="train", user_turns=(1, 2, 3)),
    ):
        for task in tasks:
            shown = demonstrate(task, habits={})
            texts.append("\n".join(str(tool_spec(tool, style="short")) for tool in task.tools))
            for message in shown.messages:
                if message.role is Role.USER:
                    requests.append(message.content)
                texts.append(message.content)
                texts.extend(_call_text(call.name, dict(call.arguments)) for call in message.tool_calls)
    return requests, texts


def _call_text(name: str, arguments: dict[str, object]) -> str:
    return '\n{"name": "' + name + '", "arguments": ' + json.dumps(arguments, ensure_ascii=False) + "}\n"


def common_words(requests: list[str]) -> list[str]:
    """Words that keep the space before them, most frequent first."""
    counts = Counter(word for text in requests for word in set(re.findall(r" ([A-Za-z']+)", text)))
    return [word for word, count in counts.most_common() if count >= _COMMON_SHARE * len(requests)]


def build_tokenizer(requests: list[str], texts: list[str]) -> PreTrainedTokenizerFast:
    """Learn the merges, and wrap the result with the chat template."""
    words = "|".join(sorted(common_words(requests), key=lambda word: (-len(word), word)))
    pattern = rf" (?:{words})(?![A-Za-z0-9_'])|[A-Za-z_]+|[0-9]|\n+|[^ A-Za-z0-9_\n]+(?: [^ A-Za-z0-9_\n]+)*"
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(MARKERS),
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens(list(MARKERS))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=read_chat_template("hermes_chatml"),
        clean_up_tokenization_spaces=False,
    )


def main() -> None:
    """Build and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("data/base"), help="folder to write to")
    parser.add_argument("--size", type=int, default=6000, help="tasks of each split to learn from")
    arguments = parser.parse_args()
    requests, texts = read_texts(arguments.size)
    tokenizer = build_tokenizer(requests, texts)
    tokenizer.save_pretrained(arguments.out)
    tokens = sum(len(tokenizer.encode(text)) for text in texts[:5000])
    characters = sum(len(text) for text in texts[:5000])
    print(f"{len(tokenizer)} tokens in {arguments.out}, {characters / tokens:.2f} characters a token")


if __name__ == "__main__":
    main()
