"""Both tiers rank alike: cosines are exact, and BM25 is the one that the rules know."""

from pathlib import Path

import numpy as np
import pytest

from memory.lexical import Bm25, document
from memory.terms import terms
from storage.index.local import LocalIndex
from tests.contract.index_backends import asking, scope, sealed, unit
from tests.storage.index.weaviate.backends import DIMENSION, MODEL, opened

pytestmark = pytest.mark.asyncio

COUNT = 300


@pytest.fixture
def texts() -> list[tuple[str, str]]:
    """Entries and what was said before each, of words of which few are common."""
    rng = np.random.default_rng(1)
    words = [f"word{n}" for n in range(60)]
    often = 1 / np.arange(1, 61)

    def said(least: int) -> str:
        return " ".join(rng.choice(words, size=rng.integers(least, 25), p=often / often.sum()))

    return [(said(3), said(0)) for _ in range(COUNT)]


@pytest.mark.parametrize("question", ["word0 word1", "word30 word50", "word5", "word40 word3 word59 word20"])
async def test_keywords_score_as_the_rules_do(settings, texts, question):
    (vector,) = unit(1)
    async with opened(settings) as index:
        await index.ensure_tenant(scope())
        await index.upsert(
            scope(), [sealed(f"m{n:03}", vector, own, context=before) for n, (own, before) in enumerate(texts)]
        )
        expected = Bm25([document(terms(own), terms(before)) for own, before in texts]).scores(terms(question))
        hits = await index.search(scope(), asking(None, question), 0, 50)
        best = sorted(range(COUNT), key=lambda n: (-expected[n], n))[:50]
        found = [n for n in best if expected[n] > 0]
        assert [hit.bm25 for hit in hits] == pytest.approx([expected[n] for n in found], rel=1e-4)
        assert [hit.bm25 for hit in hits] == pytest.approx([expected[int(hit.id[1:])] for hit in hits], rel=1e-4)


async def test_both_tiers_agree(settings, texts, tmp_path: Path):
    """The same cosines in the same order; the same first ten by keywords."""
    vectors = unit(COUNT + 5)
    local = LocalIndex(tmp_path, MODEL, DIMENSION, 20.0)
    async with opened(settings) as remote:
        for index in (local, remote):
            await index.ensure_tenant(scope())
            await index.upsert(
                scope(), [sealed(f"m{n:03}", vectors[n], own, context=before) for n, (own, before) in enumerate(texts)]
            )
        for n, question in enumerate(["word7 word31", "word44", "word12 word25 word2"]):
            here = await local.search(scope(), asking(vectors[COUNT + n], question), 20, 10)
            there = await remote.search(scope(), asking(vectors[COUNT + n], question), 20, 10)
            near = [(hit.id, hit.cosine) for hit in here if hit.cosine is not None]
            assert [hit.id for hit in there if hit.cosine is not None] == [id for id, _ in near]
            assert [hit.cosine for hit in there if hit.cosine is not None] == pytest.approx(
                [c for _, c in near], abs=1e-5
            )
            assert {hit.id for hit in there if hit.bm25 is not None} == {hit.id for hit in here if hit.bm25 is not None}
    await local.aclose()


async def test_a_question_of_a_thousand_hits_is_cut_where_asked(settings):
    vectors = unit(1_000)
    async with opened(settings) as index:
        await index.ensure_tenant(scope())
        await index.upsert(scope(), [sealed(f"m{n}", vectors[n], "tea") for n in range(1_000)])
        for limit in (1, 50, 1_000):
            hits = await index.search(scope(), asking(vectors[0], "tea"), limit, limit)
            assert sum(hit.cosine is not None for hit in hits) == limit
            assert sum(hit.bm25 is not None for hit in hits) == limit
