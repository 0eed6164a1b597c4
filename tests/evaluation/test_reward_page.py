import pytest
from tests.fixtures.html_page import Page
from tests.fixtures.reward_rows import TERMS, conversation, inspection, old_row, result, row, scored, turn

from streakline.evaluation.reward_page import render_page

WORDS = """
    html head meta title style body header h1 h2 ul li main div section details summary span pre code b br p table
    caption thead tr th td aside footer
"""
KNOWN = set(WORDS.split())


def page(tmp_path, *rows, **options):
    read = Page(render_page(inspection(scored(tmp_path, *rows), **options)))
    assert read.faults == []
    return read


def shape(read):
    """What the page is made of, apart from its texts."""
    return [tuple(sorted((name, one[name]) for name in one if name != "text")) for one in read.elements]


def test_the_page_shows_turns_calls_results_terms_and_reasons(tmp_path):
    read = page(tmp_path, row(), row(0.4, terms=TERMS | {"answer": 0.0}, task_id="test/low"))

    assert [one["text"] for one in read.of("h1")] == ["mlruns/exp/one"]
    assert "configuration 0123456789ab" in read.of("ul")[0]["text"]
    assert [one["text"] for one in read.of("h2")] == ["Highest by reward", "Lowest by reward"]
    assert [one["text"] for one in read.of("span", "why")][1] == "answer 0 x trust .60"
    assert read.of("pre", "call")[0]["text"] == 'look_up(word="a")'
    assert read.of("span", "badge")[0]["text"] == "fuzzy .80"
    assert read.of("details", "thinking")[0]["text"].endswith("Which word?")
    assert "open" not in read.of("details", "thinking")[0]
    assert read.of("table", "terms")[1]["text"].split()[:4] == ["reward", "terms", "reward.40", "answer0"]
    bars = [one for one in read.of("div", "bar") if "below" in one["class"]]
    assert [one["style"] for one in bars] == ["width:0%"]


def test_what_a_term_says_stands_below_it_as_text(tmp_path):
    read = page(tmp_path, row(reward_notes={"answer": "Right. <b onclick=x>5</b>"}), row())

    assert [one["text"] for one in read.of("tr", "note")] == ["Right. <b onclick=x>5</b>"]
    assert read.of("table", "terms")[0]["text"].index("Right.") < read.of("table", "terms")[0]["text"].index("names")


def test_trained_tokens_are_shaded(tmp_path):
    read = page(tmp_path, row())

    (tokens,) = read.of("details", "tokens")
    assert "tokens: 5 of 11 trained" in tokens["text"]
    shades = [(one["class"], one["text"]) for one in read.of("span") if one.get("class") in ("on", "off")][2:]
    assert shades == [("off", "prompt "), ("on", "call<|im_end|>"), ("off", "found"), ("on", "Done.<|im_end|>")]


def test_each_sample_of_a_trajectory_has_its_tokens(tmp_path):
    samples = row()["samples"] * 2
    read = page(tmp_path, row(samples=samples))

    assert [one["text"].split(":")[0] for one in read.of("details", "tokens")] == [
        "tokens of sample 1",
        "tokens of sample 2",
    ]


def test_oddities_of_turns_and_results_are_marked(tmp_path):
    turns = [
        turn(2, result(is_error=True, tier="miss"), closed_thinking=True, malformed_calls=1, trained=False),
        turn(4, {**result(), "message": None, "content": "not a message"}, truncated=True),
    ]
    read = page(tmp_path, row(turns=turns, untrained_turns=1, tier="miss"))

    words = {one["text"] for one in read.of("span", "badge")}
    assert words >= {"miss", "error", "cut off", "1 call could not be read", "thinking left open", "not trained"}
    assert [one["text"] for one in read.of("div", "message result")][1].split()[-3:] == ["not", "a", "message"]
    assert "1 turns are not trained" in read.of("p", "missing")[0]["text"]


def test_a_row_of_an_earlier_version_says_what_it_does_not_hold(tmp_path):
    read = page(tmp_path, old_row())

    assert [one["text"] for one in read.of("p", "missing")] == [
        "This row does not hold tiers, similarities and malformed calls.",
        "This row does not hold the tokens and which are trained.",
    ]
    assert read.of("pre", "call")


HOSTILE = {
    "script": "<script>alert(1)</script>",
    "end of a fold": "</details></pre></code></div></span></table></body></html>",
    "attributes": '" onmouseover=\'alert(1)\' style="width:1px" x="',
    "an image": "<img src=x onerror=alert(1)>",
    "a template": "{{ shown.rows }}{% for x in y %}{# #}",
    "a comment": "<!-- --> <![CDATA[ ]]> <?php ?> -->",
    "entities": "&lt;script&gt;&#60;b&#62;&amp;",
    "controls": "\x00\x08\x1b[31m\x7f\x9b\r",
    "directions": "\u202eabc\u2066def\u2069\u200f",
    "a lone surrogate": "\ud800 and \udfff",
    "a megabyte": "<b>" + "a" * 1_000_000,
}


def _hostile(text):
    segments = [{"text": text, "trained": True, "num_tokens": 1}]
    turns = [turn(2, result(tier=text, entry_id=text)), turn(4, result(None, tier=text, content=text))]
    messages = conversation(text, result=text, thinking=text, word=text, request=text)
    fields = {"task_id": text, "kind": text, "decoding": text, "termination": text, "detail": text, "tier": text}
    notes = {text: text}
    return row(
        0.5, terms={text: 0.25}, reward_notes=notes, messages=messages, turns=turns, samples=[segments], **fields
    )


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_a_policy_writes_is_text_and_makes_no_element(tmp_path, text):
    read = page(tmp_path, _hostile(text), title=text, files=(text,), faults=(text,))

    assert shape(read) == shape(page(tmp_path, _hostile("plain"), title="plain", files=("plain",), faults=("plain",)))
    assert {one["tag"] for one in read.elements} <= KNOWN


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_the_page_is_plain_utf_8_of_a_moderate_size(tmp_path, text):
    source = render_page(inspection(scored(tmp_path, _hostile(text))))

    assert len(source.encode()) < 400_000
    assert not set(source) & set("\x00\x08\x1b\x7f\x9b\r\u202e\u2066\u2069\u200f\ud800\udfff")


def test_text_is_shown_as_it_was_written(tmp_path):
    text = "<b>1 < 2 & \"3\"</b>\n  'four'"
    read = page(tmp_path, row(messages=conversation(text, result=text)))

    assert read.of("div", "text")[-1]["text"] == text
    assert read.of("div", "message result")[0]["text"].strip().endswith(text)


def test_the_page_asks_for_nothing_from_elsewhere(tmp_path):
    source = render_page(inspection(scored(tmp_path, row(), _hostile("http://a.example/x.js"))))
    read = Page(source)

    assert not {"script", "link", "img", "iframe", "a", "form", "object", "svg"} & {one["tag"] for one in read.elements}
    assert not any(name in one for one in read.elements for name in ("src", "href", "onclick", "onload"))
    assert "url(" not in source
    assert "@import" not in source
    policy = next(one for one in read.of("meta") if "http-equiv" in one)
    assert policy["content"] == "default-src 'none'; style-src 'unsafe-inline'"


def test_it_follows_the_reader_s_colours_and_width(tmp_path):
    source = render_page(inspection(scored(tmp_path, row())))

    assert "@media (prefers-color-scheme: dark)" in source
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in source


@pytest.mark.parametrize(("value", "style"), [(-0.5, 0), (0.25, 25), (3.0, 100)])
def test_bars_stay_within_their_track(tmp_path, value, style):
    read = page(tmp_path, row(value, terms={}))

    assert read.of("div", "bar")[-1]["style"] == f"width:{style}%"
