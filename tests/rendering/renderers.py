"""Renderers over the tiny tokenizers, with a template of their family or one of a test's own."""

from tests.fixtures.tokenizers import byte_tokenizer, chat_template
from tests.rendering.talk import LS, MV

from streakline.rendering.chat_template import ChatTemplateRenderer
from streakline.rendering.encoder import GuardedEncoder
from streakline.rendering.jinja import ChatTemplate
from streakline.rendering.policy import RenderingPolicy
from streakline.rendering.turn_texts import TurnTexts

# SmolLM2's own format has no place for tools.
TOOLS = {"qwen3": (LS, MV), "qwen2_5": (LS, MV), "llama3_1": (LS, MV), "smollm2": (), "hermes_chatml": (LS, MV)}
ALL = tuple(TOOLS)


def tokenizer_of(family: str, source: str | None = None):
    tokenizer = byte_tokenizer(family)
    tokenizer.chat_template = source or tokenizer.chat_template
    return tokenizer


def template_renderer(family: str = "qwen3", *, source: str | None = None, **policy) -> ChatTemplateRenderer:
    return ChatTemplateRenderer(tokenizer_of(family, source), RenderingPolicy(**policy))


def turn_texts(family: str, *, source: str | None = None, **variables) -> TurnTexts:
    template = ChatTemplate(tokenizer_of(family, source), variables=variables)
    return TurnTexts(template, GuardedEncoder(tokenizer_of(family, source), template=template.source))


OPENS_THINKING = (
    chat_template("hermes_chatml")
    .replace(
        "{%- if message.reasoning_content %}",
        "{%- if message.role == 'assistant' %}{%- set thought = message.reasoning_content or '' %}",
    )
    .replace(
        "'<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n'", "'<think>\\n' + thought + '\\n</think>\\n\\n'"
    )
    .replace("'<|im_start|>assistant\\n' }}\n{%- endif %}", "'<|im_start|>assistant\\n<think>\\n' }}\n{%- endif %}")
)
"""A template of `hermes_chatml` whose generation prompt leaves thinking open."""

RENDERERS = {family: template_renderer(family) for family in ALL}
