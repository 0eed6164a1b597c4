r"""Text to token ids, where text from a message can't pass for structure.

A user who writes `<|im_end|>` means ten characters. The chat template writes the same ten characters and means the end
of a turn. So texts from messages are escaped before they enter the template: each spelling of a structural token
becomes a short mark of private-use characters, which the template copies like any text. After rendering, whatever still
spells a structural token is structure, and the marks are encoded as plain text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import final

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from streakline.rendering.hermes import MARKERS
from streakline.types import JSON, Message

_MARK_OPEN, _MARK_CLOSE = "\ue000", "\ue001"
_ALWAYS_STRUCTURE = (*MARKERS, "<tool_response>", "</tool_response>", "<tools>", "</tools>")


@final
class GuardedEncoder:
    """Encodes rendered text as the tokenizer does, and the escaped parts of it as plain text.

    Structural tokens are the special tokens, and those added tokens that the chat template or the Hermes format spells.
    Other added tokens (runs of spaces, words added to a vocabulary) are encoded everywhere as the tokenizer does. The
    tokenizer is copied: later changes of its truncation or padding have no effect.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, *, template: str) -> None:
        self._serialized = tokenizer.backend_tokenizer.to_str()
        self._backend: Tokenizer = Tokenizer.from_str(self._serialized)
        self._backend.no_truncation()
        self._backend.no_padding()
        added = {token.content: (token_id, token) for token_id, token in tokenizer.added_tokens_decoder.items()}
        structural = [
            content
            for content, (_, token) in added.items()
            if token.special or content in _ALWAYS_STRUCTURE or (content.strip() and content in template)
        ]
        self.token_ids = {content: added[content][0] for content in structural}
        """Text of each structural token -> its id."""
        self._ids = frozenset(self.token_ids.values())
        self._eats_space = frozenset(content for content in structural if added[content][1].rstrip)
        # The longest first, so that a token which begins with another one is found whole. `(?!)` matches nothing.
        structural.sort(key=len, reverse=True)
        self._literals = [_MARK_OPEN, *structural]
        self._literal = re.compile("|".join(map(re.escape, self._literals)))
        self._structure = re.compile(f"({'|'.join(map(re.escape, structural)) or '(?!)'})")
        self._mark = re.compile(f"{_MARK_OPEN}([0-9]+){_MARK_CLOSE}")

    def escape(self, text: str) -> str:
        """Replace each spelling of a structural token in a message's text by a mark."""
        return self._literal.sub(lambda match: f"{_MARK_OPEN}{self._literals.index(match.group())}{_MARK_CLOSE}", text)

    def unescape(self, text: str) -> str:
        """Replace each mark by the text it stands for."""
        return self._mark.sub(lambda match: self._literals[int(match.group(1))], text) if _MARK_OPEN in text else text

    def escape_json(self, value: JSON) -> JSON:
        """Escape every string in a JSON value, keys included."""
        return map_texts(value, self.escape)

    def encode(self, text: str) -> list[int]:
        """Encode a rendered text: [T] ids, those that the tokenizer gives for the whole where it holds no marks."""
        if _MARK_OPEN not in text:
            ids: list[int] = self._backend.encode(text, add_special_tokens=False).ids
            # A tokenizer may fold other characters (full-width ones, say) into the spelling of an added token.
            if self._count_structure(ids) == len(self._structure.findall(text)):
                return ids
        return self._encode_parts(text)

    def count(self, text: str) -> int:
        """Number of tokens of a message's text, none of which is structure."""
        return len(self.encode(self.escape(text)))

    @cached_property
    def longest_token(self) -> int:
        """Characters of text that one token stands for at most."""
        return max(map(len, self._backend.get_vocab()))

    def encode_after(self, prefix: str, text: str) -> list[int]:
        """Encode a text in its place behind another one, without the ids of that one.

        These are the [T] ids that it has in the whole, or those of the text on its own where a token spans both.
        """
        before = self.encode(prefix)
        both = self.encode(prefix + text)
        return both[len(before) :] if both[: len(before)] == before else self.encode(text)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Decode ids, structural tokens spelled out."""
        text: str = self._backend.decode(list(token_ids), skip_special_tokens=False)
        return text

    def decode_escaped(self, token_ids: Sequence[int]) -> str:
        """Decode ids so that only structural tokens spell structure: the same text written by plain tokens is escaped.

        `unescape` makes of it the text as people read it.
        """
        text = self.decode(token_ids)
        if len(self._literal.findall(text)) == self._count_structure(token_ids):
            return text
        parts: list[str] = []
        start = 0
        for index, token_id in enumerate(token_ids):
            if token_id in self._ids:
                parts += [self.escape(self.decode(token_ids[start:index])), self.decode([token_id])]
                start = index + 1
        return "".join([*parts, self.escape(self.decode(token_ids[start:]))])

    def _count_structure(self, token_ids: Sequence[int]) -> int:
        return sum(token_id in self._ids for token_id in token_ids)

    def _encode_parts(self, text: str) -> list[int]:
        parts = self._structure.split(text)
        ids: list[int] = []
        for index, part in enumerate(parts):
            if index % 2:
                ids.append(self.token_ids[part])
                continue
            if index and parts[index - 1] in self._eats_space:
                part = part.lstrip()
            ids += self._encode_plain(self.unescape(part))
        return ids

    def _encode_plain(self, text: str) -> list[int]:
        ids: list[int] = self._plain.encode(text, add_special_tokens=False).ids
        if self._ids.isdisjoint(ids):
            return ids
        # A model whose own vocabulary holds the token as a word: single characters can't spell it.
        return [i for char in text for i in self._plain.encode(char, add_special_tokens=False).ids]

    @cached_property
    def _plain(self) -> Tokenizer:
        # Made on first need: most runs never meet such a text, and a copy of a large vocabulary takes a second.
        state = json.loads(self._serialized)
        for token in state["added_tokens"]:
            token["special"] = token["content"] in self.token_ids
        state["truncation"] = state["padding"] = None
        plain = Tokenizer.from_str(json.dumps(state))
        plain.encode_special_tokens = True
        return plain


def map_texts(value: JSON, change: Callable[[str], str]) -> JSON:
    """Change every string in a JSON value, keys included."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [map_texts(item, change) for item in value]
    if isinstance(value, dict):
        return {change(key): map_texts(item, change) for key, item in value.items()}
    return value


def map_message(message: Message, change: Callable[[str], str]) -> Message:
    """Change all texts of a message, such as by `GuardedEncoder.escape`, so that none can pass for structure."""
    calls = tuple(
        replace(
            call,
            name=change(call.name),
            arguments={change(key): map_texts(value, change) for key, value in call.arguments.items()},
            id=change(call.id),
        )
        for call in message.tool_calls
    )
    return replace(
        message,
        content=change(message.content),
        thinking=change(message.thinking),
        name=change(message.name),
        tool_call_id=change(message.tool_call_id),
        tool_calls=calls,
    )
