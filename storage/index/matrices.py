"""Users' vectors in memory, so that an exact scan reads no file twice."""

import threading
from bisect import bisect_left
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memory.encoding import Vector
from memory.ids import MemoryId


@dataclass(frozen=True, slots=True)
class UserMatrix:
    """One user's entries as of `changed`: `vectors` float32 [n, dimension], row i belongs to ids[i], in ascending order of ids."""

    changed: int
    ids: tuple[MemoryId, ...]
    versions: tuple[int, ...]
    vectors: NDArray[np.float32]

    def updated(
        self, changed: int, ids: tuple[MemoryId, ...], versions: tuple[int, ...], vectors: NDArray[np.float32]
    ) -> "UserMatrix":
        """With these entries, in ascending order of ids, added or put in the place of those that have the same ids."""
        places = [bisect_left(self.ids, found) for found in ids]
        known = [place < len(self.ids) and self.ids[place] == found for place, found in zip(places, ids, strict=True)]
        kept_ids, kept_versions, kept_vectors = list(self.ids), list(self.versions), self.vectors
        if any(known):
            kept_vectors = kept_vectors.copy()
        for row, place in enumerate(places):
            if known[row]:
                kept_versions[place], kept_vectors[place] = versions[row], vectors[row]
        new = [row for row in range(len(ids)) if not known[row]]
        for row in reversed(new):
            kept_ids.insert(places[row], ids[row])
            kept_versions.insert(places[row], versions[row])
        if new:
            kept_vectors = np.insert(kept_vectors, [places[row] for row in new], vectors[new], axis=0)
        return UserMatrix(changed, tuple(kept_ids), tuple(kept_versions), kept_vectors)

    def nearest(self, vector: Vector, limit: int) -> list[tuple[MemoryId, int, float]]:
        """The `limit` highest cosines, highest first; equal ones by id, so that two runs agree."""
        cosines = self.vectors @ vector
        count = min(limit, len(cosines))
        if count < len(cosines):  # everything that ties with the last place takes part
            bound = np.partition(cosines, len(cosines) - count)[len(cosines) - count]
            rows = np.flatnonzero(cosines >= bound)
        else:
            rows = np.arange(len(cosines))
        best = rows[np.lexsort((rows, -cosines[rows]))][:count]
        return [(self.ids[row], self.versions[row], float(cosines[row])) for row in best]


class MatrixCache:
    """The most recently used matrices, up to `max_bytes` of vectors. Thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._kept: OrderedDict[tuple[str, str], UserMatrix] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, partition: str, user_ref: str) -> UserMatrix | None:
        """The latest that was put: good for its `changed`, and to begin from for a later one."""
        with self._lock:
            found = self._kept.get((partition, user_ref))
            if found is not None:
                self._kept.move_to_end((partition, user_ref))
            return found

    def put(self, partition: str, user_ref: str, matrix: UserMatrix) -> None:
        with self._lock:
            self._forget((partition, user_ref))
            self._kept[partition, user_ref] = matrix
            self._bytes += matrix.vectors.nbytes
            while self._bytes > self._max_bytes:
                self._forget(next(iter(self._kept)))

    def forget(self, partition: str, user_ref: str) -> None:
        with self._lock:
            self._forget((partition, user_ref))

    def _forget(self, key: tuple[str, str]) -> None:
        gone = self._kept.pop(key, None)
        if gone is not None:
            self._bytes -= gone.vectors.nbytes
