"""Forward passes that are recorded once per shape and then replayed: on a GPU, starting some hundred small kernels one by one takes
longer than running them.

A recording reads from fixed memory and writes to fixed memory. So inputs are copied in, and what comes out is valid until the next
call: whoever wants to keep it copies it, as `engines.Padded` does when it picks the rows that count.
"""

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from models.engines import Forward

log = logging.getLogger(__name__)

MOST_RECORDINGS = 64
"""Each holds memory of the device. The one that was not used for longest makes room."""
RECORDED_TOKENS = 8192
"""A larger batch keeps the device busy for longer than its kernels take to start."""
_RECORD_AT = 2
"""A shape is recorded when it comes for the second time: recording takes as long as some dozen passes."""
_WARM_PASSES = 2


class Recording(Protocol):
    """Runs what was recorded on what is in its inputs now; answers with the one output tensor that it always writes to."""

    def __call__(self) -> Tensor: ...


Recorder = Callable[[Callable[[], Tensor]], Recording]
"""Makes a recording of a function without arguments, which reads and writes the same memory each time."""


class Replayed:
    """A `Forward` that records the shapes that come again. Where recording fails, everything runs as it would without."""

    def __init__(self, forward: Forward, record: Recorder, most: int = MOST_RECORDINGS) -> None:
        self._forward = forward
        self._record: Recorder | None = record
        self._most = most
        self._seen: Counter[tuple[int, int]] = Counter()
        self._recorded: OrderedDict[tuple[int, int], tuple[list[Tensor], Recording]] = OrderedDict()

    def __call__(self, ids: Tensor, types: Tensor, attention: Tensor, /) -> Tensor:
        shape = (int(ids.shape[0]), int(ids.shape[1]))
        if shape in self._recorded:
            self._recorded.move_to_end(shape)
            inputs, replay = self._recorded[shape]
            for kept, given in zip(inputs, (ids, types, attention), strict=True):
                kept.copy_(given, non_blocking=True)
            return replay()
        self._seen[shape] += 1
        if self._record is None or shape[0] * shape[1] > RECORDED_TOKENS or self._seen[shape] < _RECORD_AT:
            return self._forward(ids, types, attention)
        inputs = [ids.clone(), types.clone(), attention.clone()]
        try:
            recording = self._record(lambda: self._forward(*inputs))
        except RuntimeError as refused:  # the type alone: nothing of a device's message is needed to go on without
            log.warning("forward passes are not recorded on this device: %s", type(refused).__name__)
            self._record = None
            return self._forward(ids, types, attention)
        if len(self._recorded) >= self._most:
            self._recorded.popitem(last=False)
        self._recorded[shape] = (inputs, recording)
        return recording()

    @property
    def recordings(self) -> int:
        return len(self._recorded)


class CudaGraphs:
    """Records as CUDA graphs, all in one pool of memory: one runs at a time, and its output is read before the next one's turn."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, function: Callable[[], Tensor]) -> Recording:
        """Warmed up on a stream of its own first, as capturing asks for. RuntimeError where the device cannot."""
        with torch.inference_mode(), torch.cuda.device(self._device):
            aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(aside):
                for _ in range(_WARM_PASSES):
                    function()
            torch.cuda.current_stream().wait_stream(aside)
            graph = torch.cuda.CUDAGraph()
            # "thread_local": another thread of this process (a second model's) may go on using the device meanwhile
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                output = function()

        def replay() -> Tensor:
            graph.replay()
            return output

        return replay


def plain_recording(function: Callable[[], Tensor]) -> Recording:
    """For devices without graphs: runs the function each time, but into the same output, as a graph does."""
    with torch.inference_mode():
        output = function().clone()

    def again() -> Tensor:
        with torch.inference_mode():
            return output.copy_(function())

    return again
