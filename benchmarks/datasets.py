"""Public evaluation sets in one shape: collections of units, and questions with the units that answer them.

For measuring only: LoCoMo is CC BY-NC 4.0, MADial-Bench MIT; neither is part of this repository. Definitions of unit,
question and gold are those of the sets' own papers, so that figures compare.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Unit:
    """One entry as it would be stored. `before` are the units of the same session that came before it, oldest first."""

    id: str
    text: str
    before: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    text: str
    gold: frozenset[str]
    category: int = 0


@dataclass(frozen=True, slots=True)
class Collection:
    """What one user's memory holds, and what is asked of it."""

    name: str
    units: tuple[Unit, ...]
    questions: tuple[Asked, ...]


_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")
_BEFORE = 6
ANSWERABLE = frozenset({1, 2, 3, 4})


def locomo(folder: Path) -> Iterator[Collection]:
    """LoCoMo. Unit: one turn, "Speaker: text [shares image: caption]". Gold: every turn cited; a question that cites none, or one
    that does not exist, is dropped. Categories 1-4."""
    for file in sorted(folder.glob("*.json")):
        for sample in json.loads(file.read_text(encoding="utf-8")):
            units = tuple(_turns(sample["conversation"]))
            known = {unit.id for unit in units}
            questions = []
            for asked in sample["qa"]:
                cited = [f"D{int(s)}:{int(t)}" for text in asked["evidence"] for s, t in _EVIDENCE.findall(text)]
                if cited and known.issuperset(cited) and asked["category"] in ANSWERABLE:
                    questions.append(Asked(asked["question"], frozenset(cited), asked["category"]))
            yield Collection(str(sample["sample_id"]), units, tuple(questions))


def _turns(conversation: dict[str, Any]) -> Iterator[Unit]:
    sessions = sorted(int(key.split("_")[1]) for key in conversation if re.fullmatch(r"session_\d+", key))
    for number in sessions:
        before: list[str] = []
        for turn in conversation[f"session_{number}"]:
            text = f"{turn['speaker']}: {turn['text']}"
            if caption := turn.get("blip_caption"):
                text += f" [shares image: {caption}]"
            session, place = _EVIDENCE.findall(turn["dia_id"])[0]
            yield Unit(f"D{int(session)}:{int(place)}", text, tuple(before[-_BEFORE:]))
            before.append(text)


_SAID = re.compile(r'^\s*<(?P<speaker>[^>]+)>[:：]\s*"?(?P<text>.*?)"?\s*$', re.DOTALL)


def madial(folder: Path) -> Iterator[Collection]:
    """MADial-Bench, Chinese. Unit: one event of the user. Question: all turns before the (first) test turn."""
    events: dict[int, list[Unit]] = {}
    for line in (folder / "memory.jsonl").read_text(encoding="utf-8").splitlines():
        for key, event in json.loads(line).items():
            events.setdefault(event["user-id"], []).append(Unit(key, event["event"]))
    questions: dict[int, list[Asked]] = {}
    for line in (folder / "dialogue_dev.jsonl").read_text(encoding="utf-8").splitlines():
        dialogue = json.loads(line)
        said = [_SAID.match(turn) for turn in dialogue["dialogue"][: dialogue["test-turn"][0]]]
        text = "\n".join(turn["text"] for turn in said if turn)
        gold = frozenset(str(i) for i in dialogue["relevant-id"])
        questions.setdefault(dialogue["user-id"], []).append(Asked(text, gold))
    for user, units in sorted(events.items()):
        yield Collection(f"user {user}", tuple(units), tuple(questions.get(user, ())))
