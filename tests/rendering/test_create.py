from tests.fixtures.tokenizers import byte_tokenizer

from streakline.rendering.chat_template import ChatTemplateRenderer
from streakline.rendering.create import create_renderer
from streakline.rendering.family import FamilyRenderer
from streakline.rendering.policy import RenderingPolicy


def test_the_policy_chooses_the_renderer():
    tokenizer = byte_tokenizer("qwen3")
    assert isinstance(create_renderer(tokenizer, RenderingPolicy()), ChatTemplateRenderer)
    policy = RenderingPolicy(use_family_renderer=True, family="qwen3")
    renderer = create_renderer(tokenizer, policy)
    assert isinstance(renderer, FamilyRenderer)
    assert renderer.policy == policy
    assert renderer.tokenizer is tokenizer
