import dataclasses
import json
from hashlib import sha256

import pytest

from streakline.errors import ConfigError
from streakline.rendering.policy import RenderingPolicy


def test_digest_is_that_of_the_canonical_json():
    policy = RenderingPolicy(thinking="split", system_prompt="Größe")
    text = json.dumps(dataclasses.asdict(policy), sort_keys=True, separators=(",", ":"))
    assert policy.digest() == sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    "change",
    [
        {"template": "context"},
        {"thinking": "strip"},
        {"system_prompt": ""},
        {"schema_style": "short"},
        {"tool_result_format": "text"},
        {"tool_order": "sorted"},
        {"use_family_renderer": True},
        {"family": "qwen3"},
        {"enable_thinking": False},
    ],
)
def test_every_choice_changes_the_digest(change):
    assert RenderingPolicy(**change).digest() != RenderingPolicy().digest()


def test_the_context_template_has_no_family_form():
    with pytest.raises(ConfigError, match="Expected `template` to be 'native'"):
        RenderingPolicy(template="context", use_family_renderer=True)
