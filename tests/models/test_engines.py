"""Every way of running a network says what transformers' own code says: packed, padded, and recorded as for a GPU, here on the CPU."""

import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from transformers import (
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    RobertaConfig,
    RobertaModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from memory.encoding import Passage
from models.bert import BertPass
from models.choosing import EncoderWays, Limits, Place, choose, own
from models.encoder import Encoder
from models.engines import EXACT, FEW, Engine, Padded, Tokens
from models.replay import RECORDED_TOKENS, Replayed, plain_recording
from models.transformer import load_network

PAD = 1
SIZES = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 600,
    "initializer_range": 0.3,
    "pad_token_id": PAD,
}
LENGTHS = [3, 3, 7, 12, 3, 40, 7, 120, 31]


def network(kind: str) -> torch.nn.Module:
    torch.manual_seed(6)
    if kind == "bert":
        return BertModel(BertConfig(**SIZES), add_pooling_layer=False).eval()
    if kind == "bert, relu":
        return BertModel(BertConfig(**SIZES, hidden_act="relu"), add_pooling_layer=False).eval()
    if kind == "bert, gelu_new":
        return BertModel(BertConfig(**SIZES, hidden_act="gelu_new"), add_pooling_layer=False).eval()
    if kind == "roberta":
        return RobertaModel(RobertaConfig(**SIZES), add_pooling_layer=False).eval()
    return XLMRobertaModel(XLMRobertaConfig(**SIZES, type_vocab_size=1), add_pooling_layer=False).eval()


def texts(lengths: list[int], seed: int = 2, sides: bool = False) -> list[Tokens]:
    rng = random.Random(seed)
    return [
        Tokens(
            [rng.randrange(2, 50) for _ in range(length)],
            [0] * (length // 2) + [1] * (length - length // 2) if sides else None,
        )
        for length in lengths
    ]


@torch.inference_mode()
def theirs(one: torch.nn.Module, text: Tokens) -> Tensor:
    sides = {} if text.types is None else {"token_type_ids": torch.tensor([text.types])}
    return one(input_ids=torch.tensor([text.ids]), **sides).last_hidden_state[0]


def place(budget: int = 100) -> Place:
    return Place(torch.device("cpu"), PAD, budget)


def states(engine: Engine, given: list[Tokens]) -> list[Tensor]:
    """In the order given."""
    found: dict[int, Tensor] = {}
    for rows, hidden in engine.run(given):
        assert not set(rows) & found.keys()
        found.update(zip(rows, hidden.split([len(given[row]) for row in rows]), strict=True))
    return [found[row] for row in range(len(given))]


@pytest.mark.parametrize("layout", ["packed", "padded", "recorded"])
@pytest.mark.parametrize("kind", ["bert", "bert, relu", "bert, gelu_new", "roberta", "xlm-roberta"])
def test_each_layout_gives_what_the_models_own_code_gives(kind, layout):
    one = network(kind)
    engine = own(one, torch.float32, place(), layout=layout)
    given = texts(LENGTHS)
    for _ in range(3):  # the third time, the recorded shapes are replayed
        for mine, text in zip(states(engine, given), given, strict=True):
            assert torch.allclose(mine, theirs(one, text), atol=2e-5)


@pytest.mark.parametrize("layout", ["packed", "padded", "recorded"])
def test_the_two_sides_of_a_pair_are_told_apart(layout):
    one = network("bert")
    given = texts(LENGTHS, sides=True)
    for mine, text in zip(states(own(one, torch.float32, place(), layout=layout), given), given, strict=True):
        assert torch.allclose(mine, theirs(one, text), atol=2e-5)


@pytest.mark.parametrize("layout", ["packed", "padded", "recorded"])
def test_a_head_reads_each_texts_first_token(layout):
    one = network("bert")
    given = texts(LENGTHS)
    engine = own(one, torch.float32, place(), head=lambda first: first[:, :2], layout=layout)
    for rows, labels in engine.run(given):
        for row, mine in zip(rows, labels, strict=True):
            assert torch.allclose(mine, theirs(one, given[row])[0, :2], atol=2e-5)


@pytest.mark.parametrize("layout", ["packed", "padded", "recorded"])
def test_bfloat16_is_near_float32(layout):
    one = network("bert")
    given = texts([*LENGTHS, *[12] * 10])  # enough of one length for the other way of computing attention
    engine = own(one, torch.bfloat16, place(400), layout=layout)
    for mine, text in zip(states(engine, given), given, strict=True):
        assert mine.dtype == torch.bfloat16
        assert torch.cosine_similarity(mine.float(), theirs(one, text), dim=-1).min() > 0.99


def test_nothing_in_nothing_out():
    for layout in ("packed", "padded", "recorded"):
        assert list(own(network("bert"), torch.float32, place(), layout=layout).run([])) == []


def test_a_pass_reads_no_more_than_its_budget():
    engine = own(network("bert"), torch.float32, place(60))
    given = texts(LENGTHS)
    groups = [sum(len(given[row]) for row in rows) for rows, _ in engine.run(given)]
    assert all(tokens <= 60 for tokens in groups[:-1])
    assert groups[-1] == 120  # longer than the budget: alone


def test_without_the_fused_operators_the_result_is_the_same(monkeypatch):
    monkeypatch.setattr("models.bert._prepacked", lambda weight, bias: None)
    one = network("bert")
    given = texts(LENGTHS)
    for mine, text in zip(states(own(one, torch.float32, place()), given), given, strict=True):
        assert torch.allclose(mine, theirs(one, text), atol=2e-5)


def test_what_is_not_known_is_left_to_the_models_own_code():
    other = DistilBertModel(DistilBertConfig(vocab_size=50, dim=16, n_layers=2, n_heads=2, hidden_dim=24)).eval()
    assert not BertPass.knows(other)
    assert not BertPass.knows(BertModel(BertConfig(**SIZES, is_decoder=True)))
    ways = EncoderWays(other, place())
    assert ways.own(torch.float32) is None
    given = texts(LENGTHS)
    for mine, text in zip(states(ways.original(torch.float32), given), given, strict=True):
        assert torch.allclose(mine, theirs(other, text), atol=2e-5)


# --- few shapes, recorded ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "reads"), [(1, 16), (16, 16), (17, 24), (33, 48), (130, 192), (512, 512), (513, 513)]
)
def test_lengths_are_filled_up_in_few_steps(tokens, reads):
    assert FEW.length(tokens) == reads
    assert EXACT.length(tokens) == tokens


@pytest.mark.parametrize(("count", "filled"), [(1, 1), (2, 2), (3, 4), (8, 8), (9, 16)])
def test_and_so_are_numbers_of_texts(count, filled):
    assert FEW.texts(count) == filled
    assert EXACT.texts(count) == count


class Recorder:
    """Counts, and records as a device without graphs does."""

    def __init__(self, refuses: bool = False) -> None:
        self.recorded, self.replayed, self.refuses = 0, 0, refuses

    def __call__(self, function: Callable[[], Tensor]) -> Callable[[], Tensor]:
        if self.refuses:
            raise RuntimeError("operation not permitted when stream is capturing")
        self.recorded += 1
        recording = plain_recording(function)

        def replay() -> Tensor:
            self.replayed += 1
            return recording()

        return replay


def replayed(one: torch.nn.Module, recorder: Recorder, most: int = 8) -> tuple[Padded, Replayed]:
    forward = Replayed(BertPass(one, torch.float32).padded, recorder, most)
    cpu = torch.device("cpu")
    return Padded(forward, dtype=torch.float32, device=cpu, pad_id=PAD, budget=10**6, shapes=FEW), forward


def test_a_shape_is_recorded_when_it_comes_again_and_replayed_from_then_on():
    one, recorder = network("bert"), Recorder()
    engine, forward = replayed(one, recorder)
    kept = []
    for seed in range(5):
        given = texts([5, 9, 14], seed)  # 4 texts of 16 tokens
        kept += list(zip(states(engine, given), given, strict=True))
    assert (recorder.recorded, recorder.replayed) == (1, 4)
    assert forward.recordings == 1
    for mine, text in kept:  # those of before are not written over by those that came after
        assert torch.allclose(mine, theirs(one, text), atol=2e-5)


def test_the_shape_that_was_not_used_for_longest_makes_room():
    one, recorder = network("bert"), Recorder()
    engine, forward = replayed(one, recorder, most=2)
    for length in (10, 20, 30, 10):
        for _ in range(2):
            states(engine, texts([length]))
        assert forward.recordings <= 2
    assert recorder.recorded == 4


def test_large_batches_are_not_recorded():
    recorder = Recorder()
    engine, _ = replayed(network("bert"), recorder)
    for _ in range(3):
        states(engine, texts([500] * (RECORDED_TOKENS // 512 + 1)))
    assert recorder.recorded == 0


def test_a_device_that_cannot_record_runs_all_the_same(caplog):
    one, recorder = network("bert"), Recorder(refuses=True)
    engine, forward = replayed(one, recorder)
    for _ in range(4):
        given = texts([5, 9])
        for mine, text in zip(states(engine, given), given, strict=True):
            assert torch.allclose(mine, theirs(one, text), atol=2e-5)
    assert forward.recordings == 0
    assert caplog.text.count("not recorded") == 1


@pytest.mark.model
def test_the_default_model_gives_the_same_vectors_in_every_layout(exact_encoder, sentences):
    """What a GPU would run, with its padding, shapes and recordings, on the CPU."""
    encoder = exact_encoder
    texts_, before = sentences[:12], encoder.model.engine
    expected = encoder.encode_queries(texts_), encoder.encode_passages([Passage(t, context=texts_[0]) for t in texts_])
    one = load_network(encoder.prepared.source)
    try:
        for layout in ("padded", "recorded"):
            encoder.model.engine = own(one, torch.float32, Place(encoder.device, PAD, 2048), layout=layout)
            for _ in range(2):
                queries = encoder.encode_queries(texts_)
                passages = encoder.encode_passages([Passage(t, context=texts_[0]) for t in texts_])
                for mine, want in zip([*queries, *passages], [*expected[0], *expected[1]], strict=True):
                    assert abs(mine.pooled - want.pooled).max() < 1e-5
                    assert mine.tokens.shape == want.tokens.shape
        works = encoder.tokenize(texts_)
        assert all(work.tokens in FEW.lengths for work in works)  # what the queue counts is what the device reads
    finally:
        encoder.model.engine = before


# --- which one is taken --------------------------------------------------------------------------------------------


class Way:
    """An engine that answers with `result` after `seconds` of a clock that the test holds."""

    launch_tokens = 0

    def __init__(self, name: str, result: float, seconds: float = 1.0, breaks: bool = False) -> None:
        self.name, self.result, self.seconds, self.breaks = name, result, seconds, breaks
        self.dtype = torch.float32


class Ways:
    def __init__(self, ours: Way | None, ours_half: Way, original_half: Way) -> None:
        self._ways = {"ours": ours, "ours, half": ours_half, "original, half": original_half}

    def original(self, dtype: torch.dtype) -> Way:
        return Way("original", 1.0) if dtype == torch.float32 else self._ways["original, half"]

    def own(self, dtype: torch.dtype) -> Way | None:
        return self._ways["ours"] if dtype == torch.float32 else self._ways["ours, half"]


OURS = Way("ours", 1.0)
HALF = Way("ours, half", 1.0004, 0.5)
THEIR_HALF = Way("original, half", 1.0004, 0.5)


@pytest.mark.parametrize(
    ("ways", "dtype", "chosen"),
    [
        (Ways(OURS, HALF, THEIR_HALF), "auto", "ours, half"),
        (Ways(OURS, HALF, THEIR_HALF), "float32", "ours"),
        (Ways(OURS, Way("ours, half", 1.0004, 0.95), THEIR_HALF), "auto", "ours"),  # a tie is noise
        (Ways(OURS, Way("ours, half", 1.1, 0.1), THEIR_HALF), "auto", "ours"),  # fast and wrong
        (Ways(OURS, Way("ours, half", float("nan"), 0.1), THEIR_HALF), "auto", "ours"),
        (Ways(OURS, Way("ours, half", 1.0, 0.1, breaks=True), THEIR_HALF), "auto", "ours"),
        (Ways(OURS, Way("ours, half", 1.0004, 2.0), THEIR_HALF), "bfloat16", "ours, half"),  # as told
        (Ways(Way("ours", 1.01), HALF, THEIR_HALF), "float32", "original"),
        (Ways(Way("ours", 1.01), HALF, THEIR_HALF), "auto", "original, half"),
        (Ways(Way("ours", 1.0, breaks=True), HALF, THEIR_HALF), "float32", "original"),
        (Ways(None, HALF, THEIR_HALF), "auto", "original, half"),
    ],
)
def test_ours_where_it_agrees_and_half_where_it_pays(ways, dtype, chosen):
    now = 0.0

    def outcome(way: Way) -> Tensor:
        nonlocal now
        now += way.seconds
        if way.breaks:
            raise RuntimeError("not implemented for 'BFloat16'")
        return torch.tensor(way.result)

    engine = choose(
        ways, dtype, outcome, lambda a, b: float((a - b).abs()), Limits(float32=1e-4, bfloat16=1e-3), lambda: now
    )
    assert engine.name == chosen


@pytest.mark.model
def test_the_default_model_is_run_by_our_own_pass(encoder: Encoder):
    """On a CPU: else a question alone takes twice as long, and nobody would notice."""
    assert type(encoder.model.engine).__name__ == "Packed"
