"""Pairs a second of a cross-encoder: the service's own path beside a bare loop and sentence-transformers' CrossEncoder.

    python -m benchmarks.rerank [--questions 6] [--passages 24] [--rounds 3] [--json FILE]

No reranker comes with Strata, so this one has the shape of a common small one (BERT, 6 layers of 384, 12 heads) and the default model's
vocabulary, and its weights are random: its scores mean nothing, and only speed is measured. All judge the same pairs, Chinese and
English, in turns within each round. One CPU thread throughout.
"""

import argparse
import asyncio
import os
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from rich.console import Console
from torch import nn
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertConfig, BertForSequenceClassification
from transformers.utils.logging import disable_progress_bar

from benchmarks.report import Row, tell
from benchmarks.turns import Turn, show, take_turns, timed
from memory.ids import TenantId
from memory.ticket import Ticket
from models.batching import RerankerQueue
from models.measuring import sample
from models.prepare import prepare
from models.reranker import Pair, Reranker
from models.settings import EncoderSettings, RerankerSettings

CALL_SECONDS = 600.0
BARE_BATCH = 32

SERVICE = "service: queue + reranker"
ALONE = "reranker alone, one call"
BARE = "bare sorted loop"
THEIRS = "CrossEncoder, its defaults"


def random_reranker(folder: Path) -> Path:
    """The size of a MiniLM, six layers, one label; the same weights each time."""
    torch.manual_seed(1)
    disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(prepare(EncoderSettings()))
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=12,
        intermediate_size=1536,
        max_position_embeddings=512,
        pad_token_id=tokenizer.pad_token_id,
        num_labels=1,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def pairs(questions: int, passages: int, seed: int = 5) -> list[list[Pair]]:
    """Of each question, its candidates: one to four sentences each."""
    rng = random.Random(seed)
    lines = sample()
    return [
        [Pair(question, " ".join(rng.sample(lines, rng.choice([1, 1, 2, 4])))) for _ in range(passages)]
        for question in rng.sample(lines, questions)
    ]


async def _through_queue(reranker: Reranker, given: list[list[Pair]]) -> None:
    """One caller a question, each of another tenant."""
    queue = RerankerQueue(reranker)
    await asyncio.gather(
        *(queue.submit(Ticket(TenantId(f"tenant_{i}"), CALL_SECONDS), part) for i, part in enumerate(given))
    )
    await queue.close()


@torch.inference_mode()
def _bare_loop(network: nn.Module, tokenizer, given: list[Pair]) -> list[float]:
    """What a careful script does: sort by length, tokenize and run in batches of 32."""
    ordered = sorted(given, key=lambda pair: len(pair.question) + len(pair.passage))
    scores: list[float] = []
    for start in range(0, len(ordered), BARE_BATCH):
        part = ordered[start : start + BARE_BATCH]
        inputs = tokenizer(
            [p.question for p in part], [p.passage for p in part], padding=True, truncation=True, return_tensors="pt"
        )
        scores += network(**inputs).logits.float().sigmoid()[:, 0].tolist()
    return scores


def rows(questions: int = 6, passages: int = 24, rounds: int = 3) -> list[Row]:
    """By the clock; the table that is printed beside them has the CPU's seconds, too."""
    torch.set_num_threads(1)
    given = pairs(questions, passages)
    flat = [pair for part in given for pair in part]
    with tempfile.TemporaryDirectory() as folder:
        model = str(random_reranker(Path(folder)))
        reranker = Reranker.load(RerankerSettings(model=model, device="cpu"))
        tokenizer = AutoTokenizer.from_pretrained(model)
        bare = AutoModelForSequenceClassification.from_pretrained(model, dtype=reranker.dtype).eval()
        turns: dict[str, Turn] = {
            SERVICE: timed(lambda: asyncio.run(_through_queue(reranker, given))),
            ALONE: timed(lambda: reranker.run(reranker.tokenize(flat))),
            BARE: timed(lambda: _bare_loop(bare, tokenizer, flat)),
        }
        try:
            from sentence_transformers import CrossEncoder
        except ImportError:
            Console().print("sentence-transformers is not installed: pip install '.[bench]'")
        else:
            theirs = CrossEncoder(model, device="cpu")
            turns[THEIRS] = timed(lambda: theirs.predict([(pair.question, pair.passage) for pair in flat]))
        times = take_turns(turns, rounds)
    chosen = str(reranker.dtype).removeprefix("torch.")
    title = f"{len(flat)} pairs, zh and en, median of {rounds} rounds, one thread, random weights, ours in {chosen}"
    show(times, len(flat), "pairs", title)

    def row(against: str, goal: float | None) -> Row:
        ours, other = len(flat) / times[SERVICE].seconds, len(flat) / times[against].seconds
        return Row("reranking by the service, random weights", ours, "pairs/s", against, other, goal)

    goals = {ALONE: 0.95, BARE: 0.95, THEIRS: 1.8}
    return [row(name, goal) for name, goal in goals.items() if name in times]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=6)
    parser.add_argument("--passages", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    tell(rows(given.questions, given.passages, given.rounds), "Reranking", given.json)


if __name__ == "__main__":
    main()
