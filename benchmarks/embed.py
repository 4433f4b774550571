"""Texts a second: the service's own path (queue and encoder) beside what the same model gives without it.

    python -m benchmarks.embed [--texts 192] [--rounds 3]

All contestants embed the same texts, Chinese and English, of mixed lengths, in turns within each round, so that a busy machine slows all
alike; the table shows each one's median over the rounds, and its ratio to the first. One CPU thread throughout.
"""

import argparse
import asyncio
import os
import random
import statistics
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from rich.console import Console
from rich.table import Table

from memory.encoding import Passage
from memory.ids import TenantId
from memory.ticket import Ticket
from models.batching import EncoderQueue
from models.encoder import Encoder, EncoderSettings
from models.measuring import sample
from models.prepare import prepare
from models.transformer import TextModel, load_network, load_tokenizer

CALLERS = 16
CALL_SECONDS = 600.0


def texts(count: int, seed: int = 7) -> list[str]:
    """One to eight of our sample's sentences each, most of them short, as entries and messages are."""
    rng = random.Random(seed)
    lines = sample()
    sizes = rng.choices([1, 2, 3, 5, 8], weights=[8, 4, 2, 1, 1], k=count)
    return [" ".join(rng.sample(lines, size)) for size in sizes]


async def _through_queue(encoder: Encoder, passages: list[Passage]) -> None:
    """Sixteen callers of eight tenants, each with its part in calls of at most eight texts."""
    queue = EncoderQueue(encoder, max_items=4096)

    async def caller(number: int) -> None:
        mine = passages[number::CALLERS]
        for start in range(0, len(mine), 8):
            await queue.passages(Ticket(TenantId(f"tenant_{number % 8}"), CALL_SECONDS), mine[start : start + 8])

    await asyncio.gather(*(caller(number) for number in range(CALLERS)))
    await queue.close()


def _bare_loop(model: TextModel, prefix: str, given: list[str], size: int = 32) -> None:
    """What a careful script does: tokenize all, sort by length, run in batches of 32, pool. No token vectors, no packing."""
    sequences = sorted(model.tokenize(prefix, [Passage(text) for text in given]), key=lambda s: len(s.ids))
    for start in range(0, len(sequences), size):
        part = sequences[start : start + size]
        model._forward_group(list(range(len(part))), part).pooled.cpu().numpy()


def contestants(given: list[str]) -> dict[str, Callable[[], object]]:
    """Name -> one run over all texts. The bare loops come in both number formats, since the service chooses its own."""
    settings = EncoderSettings()
    folder = prepare(settings)
    encoder = Encoder.from_folder(folder, settings)
    card = encoder.card
    passages = [Passage(text) for text in given]
    exact = TextModel(load_tokenizer(folder), load_network(folder), max_tokens=card.max_tokens, pooling="mean")
    chosen = str(encoder.dtype).removeprefix("torch.")
    runs: dict[str, Callable[[], object]] = {
        f"bare sorted loop, {chosen}": lambda: _bare_loop(encoder.model, card.passage_prefix, given),
        f"service: queue + encoder, {chosen}": lambda: asyncio.run(_through_queue(encoder, passages)),
        "encoder alone, one call": lambda: encoder.encode_passages(passages),
    }
    if encoder.dtype != torch.float32:
        runs["bare sorted loop, float32"] = lambda: _bare_loop(exact, card.passage_prefix, given)
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        Console().print("sentence-transformers is not installed: pip install '.[bench]'")
    else:
        theirs = SentenceTransformer(
            str(folder), device=str(encoder.model.device), model_kwargs={"dtype": torch.float32}
        )
        prefixed = [card.passage_prefix + text for text in given]
        runs["sentence-transformers, its defaults"] = lambda: theirs.encode(prefixed, normalize_embeddings=True)
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=192)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    given = texts(arguments.texts)
    runs = contestants(given)
    for run in runs.values():
        run()  # warm
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    cpu: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(arguments.rounds):
        for name, run in runs.items():
            wall, used = time.perf_counter(), time.process_time()
            run()
            seconds[name].append(time.perf_counter() - wall)
            cpu[name].append(time.process_time() - used)
    tokens = sum(len(s.ids) for s in _tokenized(given))
    table = Table(
        title=f"{len(given)} texts, zh and en, {tokens / len(given):.0f} tokens on average, "
        f"median of {arguments.rounds} rounds, one thread"
    )
    for column in ("path", "texts/s", "per CPU-s", "ratio", "ratio per CPU-s"):
        table.add_column(column, justify="left" if column == "path" else "right", no_wrap=column == "path")
    first = next(iter(runs))
    base, base_cpu = statistics.median(seconds[first]), statistics.median(cpu[first])
    for name in runs:
        wall, used = statistics.median(seconds[name]), statistics.median(cpu[name])
        table.add_row(
            name, f"{len(given) / wall:.1f}", f"{len(given) / used:.1f}", f"{base / wall:.2f}", f"{base_cpu / used:.2f}"
        )
    Console().print(table)


def _tokenized(given: list[str]) -> list:
    encoder_folder = prepare(EncoderSettings())
    tokenizer = load_tokenizer(encoder_folder).backend_tokenizer
    return tokenizer.encode_batch(["passage: " + text for text in given])


if __name__ == "__main__":
    main()
