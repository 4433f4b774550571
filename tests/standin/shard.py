"""One tenant's objects: filters, the nearest vectors, and BM25 by the server's formula."""

import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from weaviate.proto.v1.v6300.v1.base_pb2 import Filters

from tests.standin.errors import Refused, not_indexed

if TYPE_CHECKING:
    from tests.standin.schema import Collection

MOST = 10_000
"""QUERY_MAXIMUM_RESULTS, which also bounds one delete by filter."""


@dataclass(slots=True)
class Stored:
    """`doc` grows with every write of an object, which puts it last."""

    id: str
    doc: int
    properties: dict[str, Any]
    vectors: dict[str, np.ndarray]
    created: int
    updated: int


Found = tuple[Stored, float]
"""With its distance or its score."""


def tokens(text: str, tokenization: str) -> list[str]:
    if tokenization == "field":
        return [text.strip()]
    if tokenization == "whitespace":
        return text.split()
    if tokenization == "lowercase":
        return text.lower().split()
    return [token for token in re.split(r"[\W_]+", text.lower()) if token]


def _unit(vector: np.ndarray) -> np.ndarray:
    length = np.float32(np.linalg.norm(vector))
    return vector / length if length else vector


class Shard:
    def __init__(self, collection: "Collection", tenant: str) -> None:
        self._collection, self._tenant = collection, tenant
        self.objects: dict[str, Stored] = {}
        self._docs: dict[int, Stored] = {}
        self._next = 0
        self._dimensions: dict[str, int] = {}
        self._postings: dict[str, dict[str, dict[int, int]]] = {}
        self._lengths: dict[str, dict[int, int]] = {}

    # --- writing ------------------------------------------------------------------------------------------------------

    def put(self, id: str, properties: dict[str, Any], vectors: dict[str, np.ndarray]) -> Stored:
        """Insert or replace. The first vector of a target settles its dimension, for this shard alone."""
        for target, vector in vectors.items():
            if target not in self._collection.targets:
                raise Refused(f"collection {self._collection.name} does not have configuration for vector {target}")
            length = self._dimensions.setdefault(target, len(vector))
            if len(vector) != length:
                raise Refused(self._wrong_size(id, target, len(vector), length), 500)
        now = int(time.time() * 1000)
        before = self.remove(id)
        self._next += 1
        stored = Stored(id, self._next, properties, vectors, before.created if before else now, now)
        self.objects[id] = self._docs[stored.doc] = stored
        for name, words in self._searchable(properties):
            counted = Counter(words)
            postings = self._postings.setdefault(name, {})
            for word, times in counted.items():
                postings.setdefault(word, {})[stored.doc] = times
            if words:
                self._lengths.setdefault(name, {})[stored.doc] = len(words)
        return stored

    def _wrong_size(self, id: str, target: str, length: int, saved: int) -> str:
        where = (
            f"Validate vector index {target} for target vector {id}" if target else f"Validate vector index for {id}"
        )
        if self._collection.vector_index(target) == "hnsw":
            return (
                f"{where}: new node has a vector with length {length}. Existing nodes have vectors with length {saved}: vector "
                "dimensions do not match the index dimensions"
            )
        return (
            f"{where}: insert called with a vector of the wrong size: {length}. Saved length: {saved}, path: "
            f"/var/lib/weaviate/{self._collection.name.lower()}/{self._tenant}"
        )

    def remove(self, id: str) -> Stored | None:
        gone = self.objects.pop(id, None)
        if gone is not None:
            del self._docs[gone.doc]
            for name, words in self._searchable(gone.properties):
                for word in set(words):
                    del self._postings[name][word][gone.doc]
                if words:
                    del self._lengths[name][gone.doc]
        return gone

    def _searchable(self, properties: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
        for name, value in properties.items():
            about = self._collection.about(name)
            if about["indexSearchable"]:
                values = value if isinstance(value, list) else [value]
                yield name, [word for each in values for word in tokens(each, about["tokenization"])]

    # --- reading ------------------------------------------------------------------------------------------------------

    def matching(self, filters: Filters | None) -> list[Stored]:
        """Those that pass, in the order in which they were written."""
        if filters is None:
            return list(self.objects.values())
        ids = _named(filters)
        if ids is not None:
            return sorted((self.objects[id] for id in ids if id in self.objects), key=attrgetter("doc"))
        passes = self._test(filters)
        return [stored for stored in self.objects.values() if passes(stored)]

    def listed(self, filters: Filters | None) -> list[Stored]:
        """Without a filter they come in ascending order of ids."""
        return self.after("", len(self.objects)) if filters is None else self.matching(filters)

    def after(self, cursor: str, limit: int) -> list[Stored]:
        """In ascending order of ids."""
        return [self.objects[id] for id in sorted(self.objects) if id > cursor][:limit]

    def nearest(self, target: str, vector: np.ndarray, filters: Filters | None, limit: int) -> list[Found]:
        length = self._dimensions.get(target)
        if length is not None and len(vector) != length:
            raise Refused(f"vector search: {len(vector)} vs {length}: vector lengths don't match")
        candidates = [stored for stored in self.matching(filters) if target in stored.vectors]
        if not candidates:
            return []
        kept = np.stack([_unit(stored.vectors[target]) for stored in candidates])
        distances = np.float32(1) - kept @ _unit(vector)
        order = np.argsort(distances, kind="stable")[:limit]
        return [(candidates[row], float(distances[row])) for row in order]

    def keywords(self, query: str, properties: Iterable[str], filters: Filters | None, limit: int) -> list[Found]:
        """BM25: tf / (tf + k1 (1 - b + b length / mean length)) times idf times the property's boost, summed over words and
        properties. Mean length is that of the objects that have the property; document frequency is the mean, in whole numbers, of the
        properties that have the word; a word that the question repeats counts again. All of it is the shard's, whatever the filter."""
        config = self._collection.config["invertedIndexConfig"]["bm25"]
        boosts = dict(self._boosts(properties))
        allowed = None if filters is None else {stored.doc for stored in self.matching(filters)}
        total: dict[int, np.float32] = {}
        for name, boost in boosts.items():
            tokenization = self._collection.about(name)["tokenization"]
            alike = [each for each in boosts if self._collection.about(each)["tokenization"] == tokenization]
            lengths = self._lengths.get(name, {})
            mean = sum(lengths.values()) / len(lengths) if lengths else 0.0
            scores: dict[int, float] = {}
            for word, times in Counter(tokens(query, tokenization)).items():
                idf = self._idf(word, alike) * times
                for doc, tf in self._postings.get(name, {}).get(word, {}).items():
                    if allowed is None or doc in allowed:
                        saturation = config["k1"] * (1 - config["b"] + config["b"] * lengths[doc] / mean)
                        scores[doc] = scores.get(doc, 0.0) + tf / (tf + saturation) * idf * boost
            # the server takes a little more than asked for of each property, and adds those up
            best = sorted(scores, key=lambda doc: (-scores[doc], doc))[: max(int(limit * 1.1), limit + 10)]
            for doc in best:
                total[doc] = np.float32(total.get(doc, np.float32(0)) + np.float32(scores[doc]))
        ranked = sorted(total, key=lambda doc: (-total[doc], doc))[:limit]
        return [(self._docs[doc], float(total[doc])) for doc in ranked]

    def _boosts(self, properties: Iterable[str]) -> Iterator[tuple[str, float]]:
        searchable = [each["name"] for each in self._collection.config["properties"] if each["indexSearchable"]]
        for each in list(properties) or searchable:
            name, _, boost = each.partition("^")
            if name not in searchable:
                raise not_indexed("Searching", name, "indexSearchable")
            yield name, float(boost or 1)

    def _idf(self, word: str, properties: list[str]) -> float:
        counts = [len(found) for name in properties if (found := self._postings.get(name, {}).get(word))]
        if not counts:
            return 0.0
        having = sum(counts) // len(counts)
        return math.log(1 + (max(len(self.objects), having) - having + 0.5) / (having + 0.5))

    # --- filters ------------------------------------------------------------------------------------------------------

    def _test(self, filters: Filters) -> Callable[[Stored], bool]:
        operator = Filters.Operator.Name(filters.operator).removeprefix("OPERATOR_")
        if operator in ("AND", "OR", "NOT"):
            inner = [self._test(each) for each in filters.filters]
            if operator == "NOT":
                return lambda stored: not inner[0](stored)
            combine = all if operator == "AND" else any
            return lambda stored: combine(test(stored) for test in inner)
        name = filters.target.property
        if operator == "IS_NULL":
            raise Refused(
                "resolve doc ids for prop/value pair: Nullstate must be indexed to be filterable! Add `indexNullState: true` to "
                "the invertedIndexConfig"
            )
        kind = filters.WhichOneof("test_value")
        value = getattr(filters, kind) if kind else None
        values = list(getattr(value, "values", [value]))
        if not values:
            raise Refused(
                "invalid search term, only stopwords provided. Stopwords can be configured in "
                "class.invertedIndexConfig.stopwords"
            )
        if name == "_id":
            return _compared(operator, values, lambda stored: [stored.id])
        about = self._collection.about(name)
        if not (about["indexFilterable"] or about["indexSearchable"]):
            raise not_indexed("Filtering", name, "indexFilterable")
        if not about["dataType"][0].startswith("text"):
            if isinstance(values[0], str) and about["dataType"][0] == "int":
                raise Refused(
                    f"expected an integer value, but could not parse string '{values[0]}' as int: strconv.ParseFloat: parsing "
                    f'"{values[0]}": invalid syntax'
                )
            return _compared(
                operator, values, lambda stored: [v] if (v := stored.properties.get(name)) is not None else []
            )

        def words(stored: Stored) -> list[str]:
            held = stored.properties.get(name, [])
            each = held if isinstance(held, list) else [held]
            return [token for text in each for token in tokens(text, about["tokenization"])]

        if operator == "LIKE":
            return _compared(operator, values, words)
        asked = [token for text in values for token in tokens(text, about["tokenization"])]
        return _compared("CONTAINS_ALL" if operator == "EQUAL" else operator, asked, words)


def _named(filters: Filters) -> set[str] | None:
    """Of a filter by ids alone, which of them: such a one needs no scan. None: it is another."""
    if filters.operator == Filters.OPERATOR_OR:
        inner = [_named(each) for each in filters.filters]
        return None if None in inner else set().union(*(ids for ids in inner if ids is not None))
    if filters.target.property != "_id":
        return None
    if filters.operator == Filters.OPERATOR_EQUAL:
        return {filters.value_text}
    return set(filters.value_text_array.values) if filters.operator == Filters.OPERATOR_CONTAINS_ANY else None


def _compared(operator: str, values: list[Any], held: Callable[[Stored], list[Any]]) -> Callable[[Stored], bool]:
    asked, first = set(values), values[0]
    if operator == "LIKE":
        pattern = re.compile(re.escape(str(first)).replace(r"\*", ".*").replace(r"\?", "."), re.DOTALL)
        return lambda stored: any(pattern.fullmatch(each) for each in held(stored))
    tests: dict[str, Callable[[list[Any]], bool]] = {
        "EQUAL": lambda have: first in have,
        "NOT_EQUAL": lambda have: first not in have,
        "CONTAINS_ANY": lambda have: not asked.isdisjoint(have),
        "CONTAINS_ALL": lambda have: asked.issubset(have),
        "CONTAINS_NONE": lambda have: asked.isdisjoint(have),
        "GREATER_THAN": lambda have: any(each > first for each in have),
        "GREATER_THAN_EQUAL": lambda have: any(each >= first for each in have),
        "LESS_THAN": lambda have: any(each < first for each in have),
        "LESS_THAN_EQUAL": lambda have: any(each <= first for each in have),
    }
    test = tests[operator]
    return lambda stored: test(held(stored))
