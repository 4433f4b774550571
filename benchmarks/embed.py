"""Texts a second: the service's own path (queue and encoder) beside what the same model gives without it.

    python -m benchmarks.embed [--texts 192] [--rounds 3] [--json FILE]
    python -m benchmarks.embed --install-infinity        # once: makes the environment that infinity-emb needs

All contestants embed the same texts, Chinese and English, of mixed lengths, in turns within each round, so that a busy machine slows all
alike; what counts is each one's median over the rounds. One CPU thread throughout.
"""

import argparse
import asyncio
import contextlib
import os
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from rich.console import Console
from torch import Tensor, nn

from benchmarks import infinity
from benchmarks.report import Row, tell
from benchmarks.turns import Turn, show, take_turns, timed
from memory.encoding import Passage
from memory.ids import TenantId
from memory.ticket import Ticket
from models.batching import EncoderQueue
from models.encoder import Encoder, EncoderSettings
from models.measuring import sample
from models.prepare import prepare
from models.transformer import TokenSequence, load_network, load_tokenizer

CALLERS, AT_ONCE = 16, 8
CALL_SECONDS = 600.0
BARE_BATCH = 32

SERVICE = "service: queue + encoder"
ALONE = "encoder alone, one call"
BARE = "bare sorted loop"
BARE_EXACT = "bare sorted loop, float32"
THEIRS = "sentence-transformers, its defaults"
INFINITY = f"infinity-emb {infinity.VERSION}"


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
        for start in range(0, len(mine), AT_ONCE):
            await queue.passages(Ticket(TenantId(f"tenant_{number % 8}"), CALL_SECONDS), mine[start : start + AT_ONCE])

    await asyncio.gather(*(caller(number) for number in range(CALLERS)))
    await queue.close()


@torch.inference_mode()
def _bare_loop(network: nn.Module, pad_id: int, tokenize: Callable[[], list[TokenSequence]]) -> list[Tensor]:
    """What a careful script does: tokenize all, sort by length, run in batches of 32, pool. No token vectors, no packing."""
    sequences = sorted(tokenize(), key=lambda sequence: len(sequence.ids))
    pooled = []
    for start in range(0, len(sequences), BARE_BATCH):
        part = [torch.tensor(sequence.ids) for sequence in sequences[start : start + BARE_BATCH]]
        ids = nn.utils.rnn.pad_sequence(part, batch_first=True, padding_value=pad_id)
        attention = nn.utils.rnn.pad_sequence([torch.ones_like(one) for one in part], batch_first=True)
        hidden = network(input_ids=ids, attention_mask=attention).last_hidden_state.float()
        mask = attention.unsqueeze(-1)
        pooled.append(nn.functional.normalize((hidden * mask).sum(dim=1) / mask.sum(dim=1), dim=-1))
    return pooled


@contextlib.contextmanager
def contestants(given: list[str]) -> Iterator[tuple[dict[str, Turn], str]]:
    """Name -> all texts once, and the number format that the encoder chose. The bare loop comes in it and in float32."""
    settings = EncoderSettings(device="cpu")
    folder = prepare(settings)
    encoder = Encoder.from_folder(folder, settings)
    passages = [Passage(text) for text in given]
    prefixed = [encoder.card.passage_prefix + text for text in given]
    pad_id = load_tokenizer(folder).pad_token_id

    def tokenize() -> list[TokenSequence]:
        return encoder.model.tokenize(encoder.card.passage_prefix, passages)

    exact = load_network(folder)
    turns: dict[str, Turn] = {
        SERVICE: timed(lambda: asyncio.run(_through_queue(encoder, passages))),
        ALONE: timed(lambda: encoder.encode_passages(passages)),
    }
    if encoder.dtype != torch.float32:
        half = load_network(folder).to(encoder.dtype)
        turns[BARE] = timed(lambda: _bare_loop(half, pad_id, tokenize))
    turns[BARE_EXACT] = timed(lambda: _bare_loop(exact, pad_id, tokenize))
    turns.setdefault(BARE, turns[BARE_EXACT])
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        Console().print("sentence-transformers is not installed: pip install '.[bench]'")
    else:
        theirs = SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": torch.float32})
        turns[THEIRS] = timed(lambda: theirs.encode(prefixed, normalize_embeddings=True))
    with contextlib.ExitStack() as started:
        if not infinity.installed():
            Console().print(
                "infinity-emb is not measured: python -m benchmarks.embed --install-infinity makes its place"
            )
        else:
            try:
                peer = started.enter_context(infinity.Infinity(folder, prefixed, CALLERS, AT_ONCE))
            except RuntimeError as error:
                Console().print(str(error))
            else:
                turns[f"{INFINITY}, {peer.dtype.removeprefix('torch.')}"] = peer.run
        yield turns, str(encoder.dtype).removeprefix("torch.")


def rows(count: int = 192, rounds: int = 3) -> list[Row]:
    """By the clock; the table that is printed beside them has the CPU's seconds, too."""
    torch.set_num_threads(1)
    given = texts(count)
    with contestants(given) as (turns, chosen):
        times = take_turns(turns, rounds)
    show(times, count, "texts", f"{count} texts, zh and en, median of {rounds} rounds, one thread, ours in {chosen}")

    def row(against: str, goal: float | None) -> Row:
        return Row(
            "embedding by the service",
            count / times[SERVICE].seconds,
            "texts/s",
            against,
            count / times[against].seconds,
            goal,
        )

    goals: dict[str, float | None] = {ALONE: 0.95, BARE: 0.95, BARE_EXACT: None, THEIRS: 1.8}
    return [row(name, goals.get(name, 1.3)) for name in times if name != SERVICE]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=192)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--install-infinity", action="store_true", help="make infinity-emb's environment first")
    given = parser.parse_args(arguments)
    if given.install_infinity and (why_not := infinity.install()):
        Console().print(why_not)
    tell(rows(given.texts, given.rounds), "Embedding", given.json)


if __name__ == "__main__":
    main()
