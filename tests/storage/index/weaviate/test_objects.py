"""How an entry is written."""

import numpy as np

from memory.ids import MemoryId, TenantId, UserRef
from storage.index.weaviate.objects import as_object, batches, object_id
from storage.protocols import SealedEntry

ACME = TenantId("acme")


def entry(id: str, terms=("aa", "bb"), context=("cc",)) -> SealedEntry:
    return SealedEntry(MemoryId(id), UserRef("u_1"), 3, np.ones(1, np.float32), terms, context)


def test_p28_an_entry_is_one_object_for_ever():
    """The ids are on disk: a change of the rule would leave every entry twice."""
    assert str(object_id(ACME, MemoryId("m1"))) == "782cfcc9-7f5e-50a1-93a2-26dcac608c65"
    ids = {object_id(TenantId(t), MemoryId(m)) for t in ("acme", "Acme", "acme_") for m in ("m1", "M1", "m_1", "1")}
    assert len(ids) == 12


def test_own_terms_are_written_twice_and_in_no_word_of_ours():
    made = as_object(ACME, entry("m1"), np.ones(1, np.float32))
    assert made.properties == {"memory_id": "m1", "user_ref": "u_1", "version": 3, "terms": "aa bb aa bb cc"}
    assert made.vector == {"default": [1.0]}


def test_requests_stay_within_what_a_server_takes():
    small = [as_object(ACME, entry(f"m{n}"), np.ones(384, np.float32)) for n in range(1_201)]
    assert [len(batch) for batch in batches(small)] == [500, 500, 201]
    large = [as_object(ACME, entry(f"m{n}", ("x" * 64,) * 4_096), np.ones(384, np.float32)) for n in range(40)]
    sizes = [sum(len(made.properties["terms"]) for made in batch) for batch in batches(large)]
    assert len(sizes) > 2 and max(sizes) <= 8 << 20
    assert list(batches([])) == []
    in_order = [made.properties["memory_id"] for batch in batches(small) for made in batch]
    assert in_order == [f"m{n}" for n in range(1_201)]
