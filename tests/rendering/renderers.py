"""Renderers over the tiny tokenizers, with a template of their family or one of a test's own."""

from tests.fixtures.tokenizers import byte_tokenizer
from tests.rendering.talk import LS, MV

from streakline.rendering.chat_template import ChatTemplateRenderer
from streakline.rendering.encoder import GuardedEncoder
from streakline.rendering.jinja import ChatTemplate
from streakline.rendering.policy import RenderingPolicy
from streakline.rendering.turn_format import TurnFormat, find_turn_format

# SmolLM2's own format has no place for tools.
TOOLS = {"qwen3": (LS, MV), "qwen2_5": (LS, MV), "llama3_1": (LS, MV), "smollm2": (), "hermes_chatml": (LS, MV)}
ALL = tuple(TOOLS)


def tokenizer_of(family: str, source: str | None = None):
    tokenizer = byte_tokenizer(family)
    tokenizer.chat_template = source or tokenizer.chat_template
    return tokenizer


def template_renderer(family: str = "qwen3", *, source: str | None = None, **policy) -> ChatTemplateRenderer:
    return ChatTemplateRenderer(tokenizer_of(family, source), RenderingPolicy(**policy))


def template_parts(
    family: str, *, source: str | None = None, **variables
) -> tuple[ChatTemplate, TurnFormat, GuardedEncoder]:
    tokenizer = tokenizer_of(family, source)
    template = ChatTemplate(tokenizer, variables=variables)
    encoder = GuardedEncoder(tokenizer, template=template.source)
    return template, find_turn_format(template, encoder), encoder


RENDERERS = {family: template_renderer(family) for family in ALL}
