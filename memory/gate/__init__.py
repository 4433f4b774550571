"""The write gate: deterministic, Chinese and English, precision before recall (L3, L4)."""

from memory.gate.explicit import judge_explicit
from memory.gate.judging import judge

__all__ = ["judge", "judge_explicit"]
