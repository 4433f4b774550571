"""Runs in infinity-emb's own environment: `python infinity_worker.py MODEL TEXTS.json`. On each line of its input it embeds all texts once
and answers with a line of JSON. It imports nothing of ours."""

import asyncio
import json
import sys
import time
from pathlib import Path

import torch
from infinity_emb import AsyncEmbeddingEngine, EngineArgs  # type: ignore[import-not-found,unused-ignore]


async def main(model: str, load: dict) -> None:
    torch.set_num_threads(1)
    texts, callers, at_once = load["texts"], load["callers"], load["at_once"]
    arguments = EngineArgs(
        model_name_or_path=model, engine="torch", device="cpu", bettertransformer=False, model_warmup=False
    )
    engine = AsyncEmbeddingEngine.from_args(arguments)

    async def caller(number: int) -> None:
        mine = texts[number::callers]
        for start in range(0, len(mine), at_once):
            await engine.embed(mine[start : start + at_once])

    async with engine:
        await asyncio.gather(*(caller(number) for number in range(callers)))
        network = engine._model_replicas[0]
        print(json.dumps({"dtype": str(next(network.parameters()).dtype)}), flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            wall, cpu = time.perf_counter(), time.process_time()
            await asyncio.gather(*(caller(number) for number in range(callers)))
            print(json.dumps({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.loads(Path(sys.argv[2]).read_text("utf-8"))))
