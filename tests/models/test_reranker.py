"""The cross-encoder's code on a tiny model of the real class: its scores mean nothing, everything around them does."""

import pytest
import torch

from memory.errors import ConfigError, InvalidInput
from memory.ids import TenantId
from memory.ticket import Ticket
from models.batching import BatchQueue
from models.reranker import Pair, Reranker, RerankerSettings
from tests.models.tiny import save_embedder, save_reranker

PASSAGES = [
    "i drink tea.",
    "我喜欢喝茶。",
    "the bridge is closed, and so is the road along the river.",
    "他在北京。",
    "",
]


@pytest.fixture(scope="module")
def reranker(tmp_path_factory) -> Reranker:
    folder = save_reranker(tmp_path_factory.mktemp("reranker"))
    return Reranker.load(RerankerSettings(model=str(folder)))


def test_scores_are_probabilities_in_the_order_of_the_passages(reranker):
    scores = reranker.scores("你喜欢喝茶吗？", PASSAGES)
    assert len(scores) == len(PASSAGES)
    assert all(0 < score < 1 for score in scores)
    assert len(set(scores)) == len(PASSAGES)
    assert reranker.scores("你喜欢喝茶吗？", PASSAGES[::-1]) == pytest.approx(scores[::-1], abs=1e-5)
    assert reranker.scores("x", []) == []


def test_together_as_alone(reranker):
    together = reranker.scores("do you drink tea?", PASSAGES)
    alone = [reranker.scores("do you drink tea?", [passage])[0] for passage in PASSAGES]
    assert together == pytest.approx(alone, abs=1e-5)


def test_the_question_and_which_side_a_text_is_on_both_count(reranker):
    (there,) = reranker.scores("tea?", ["coffee."])
    (back,) = reranker.scores("coffee.", ["tea?"])
    assert there != pytest.approx(back, abs=1e-4)


def test_agrees_with_the_librarys_own_road(reranker, tmp_path):
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = save_reranker(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer("do you drink tea?", "i drink tea.", return_tensors="pt")
    network = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        expected = network(**inputs).logits.sigmoid().item()
    assert reranker.scores("do you drink tea?", ["i drink tea."])[0] == pytest.approx(expected, abs=1e-5)


def test_two_labels_are_a_softmax(tmp_path):
    folder = save_reranker(tmp_path, labels=2)
    scores = Reranker.load(RerankerSettings(model=str(folder))).scores("tea?", PASSAGES)
    assert all(0 < score < 1 for score in scores)


def test_long_pairs_are_cut_to_the_window_and_keep_the_question(reranker):
    (work,) = reranker.tokenize([Pair("tea?", "on and on " * 10_000)])
    assert len(work.ids) == 128
    (short,) = reranker.tokenize([Pair("tea?", "on")])
    assert work.ids[:6] == short.ids[:6]  # [CLS] t e a ? [SEP]
    assert work.types.count(0) == 6


def test_a_lone_surrogate_is_refused_without_quoting_it(reranker):
    with pytest.raises(InvalidInput) as refused:
        reranker.scores("secret \ud800", ["x"])
    assert "secret" not in repr(refused.value)


async def test_runs_behind_the_same_queue_as_the_encoder(reranker):
    queue = BatchQueue(reranker, name="the reranker")
    pairs = [Pair("tea?", passage) for passage in PASSAGES]
    scores = await queue.submit(Ticket(TenantId("acme"), 30.0), pairs)
    assert scores == pytest.approx(reranker.scores("tea?", PASSAGES), abs=1e-5)
    await queue.close()


@pytest.mark.parametrize("kind", ["missing", "embedder", "labels", "damaged"])
def test_what_is_no_reranker_stops_the_start(tmp_path, kind):
    if kind == "embedder":
        save_embedder(tmp_path)
    elif kind == "labels":
        save_reranker(tmp_path, labels=3)
    elif kind == "damaged":
        save_reranker(tmp_path)
        (tmp_path / "model.safetensors").write_bytes(b"cut")
    name = str(tmp_path / "nowhere") if kind == "missing" else str(tmp_path)
    with pytest.raises(ConfigError) as refused:
        Reranker.load(RerankerSettings(model=name))
    assert "\n" not in str(refused.value)
