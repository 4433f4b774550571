"""Users' vectors in memory, so that an exact scan reads no file twice."""

import threading
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
    """The most recently used matrices, up to `max_bytes` of vectors. A matrix is good for one `changed` only. Thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._kept: OrderedDict[tuple[str, str], UserMatrix] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, partition: str, user_ref: str, changed: int) -> UserMatrix | None:
        with self._lock:
            found = self._kept.get((partition, user_ref))
            if found is None or found.changed != changed:
                return None
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
