"""Packing: from everything that could be said to what the model is sent, within one hard budget (W1, W2, W8).

Order of the prompt: system prompt (and the tool definitions that travel beside the messages), then one message of data, then
recent turns, then the question. What never changes comes first, so that a provider's prompt cache hits.

The data (slots, summary, memories, documents) goes in as a `user` message. Models are trained to give system text their
rules' authority, and these words came from users, tools and documents; a planted "ignore your rules" must not gain a rank by having been
remembered (P6). As user-role text, quoted and framed as data, it has the least authority that a chat format offers.

Order of preference when room is short: what is never cut (system prompt, tools, question), slots, memories, the last three exchanges,
the summary, documents, older turns.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Any

from memory.chat import OPENAI_CHAT, ChatOverhead, Count, Message, as_json, message_tokens, tools_tokens, turn_message
from memory.entry import Memory
from memory.errors import InvalidInput, OverBudget
from memory.ids import TurnId
from memory.policy import PromptPolicy
from memory.rendering import (
    CLOSING,
    ELLIPSIS,
    OPENING,
    Wording,
    cut_points,
    document_line,
    grapheme_points,
    memory_line,
    state_lines,
    summary_line,
    wording,
)
from memory.turns import Role, TaskState, Turn
from memory.window import ALWAYS_RECENT, Exchange, exchanges, preference

_SECTIONS = ("system", "tools", "slots", "summary", "memories", "documents", "recent", "query")
_DATA_SECTIONS = ("slots", "summary", "memories", "documents")
_MOST_CHARS_PER_TOKEN = 32
"""A text longer than this many characters a token of room is first cut to it, so that trimming a megabyte costs no more than a page."""


@dataclass(frozen=True, slots=True)
class Recollection:
    """A recalled memory, with the outdated entry that it replaced where that is to be shown (L6)."""

    memory: Memory
    predecessor: Memory | None = None


@dataclass(frozen=True, slots=True)
class Document:
    id: str
    text: str


@dataclass(frozen=True, slots=True)
class PackRequest:
    """`policy` has the call's own choices merged in. `memories` and `documents` come best first, `turns` oldest first.

    `system=None` takes the policy's. `question=None`: the last user turn is the question, and the turns after it (an agent's
    steps) follow it. `important` names turns that the IMPORTANCE window prefers. `zone` is the user's, for dates. `overhead=None` takes
    the counter's own, OpenAI's where it has none.
    """

    policy: PromptPolicy
    system: str | None = None
    tools: Sequence[Mapping[str, Any]] = ()
    state: TaskState = field(default_factory=TaskState)
    summary: str | None = None
    memories: Sequence[Recollection] = ()
    documents: Sequence[Document] = ()
    turns: Sequence[Turn] = ()
    question: str | None = None
    important: Collection[TurnId] = frozenset()
    language: str | None = None
    zone: tzinfo = UTC
    overhead: ChatOverhead | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """What a section lost: `items` left out or shortened, and the tokens that they would have cost beyond what was sent."""

    section: str
    items: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Packed:
    """`total` counts everything that is sent and is never above `budget` (budget_tokens less output_reserve); `by_section` adds up to
    it. `system` includes the frame around the data, `query` the opening of the reply. `memories` are those that are in the prompt.
    `prefix_hash` changes only when the system prompt or the tool definitions do.
    """

    messages: list[Message]
    tools: list[Mapping[str, Any]]
    total: int
    budget: int
    by_section: dict[str, int]
    memories: tuple[Recollection, ...]
    cut: tuple[Cut, ...]
    prefix_hash: str


def pack(request: PackRequest, count: Count) -> Packed:
    """The prompt for `request`, counted with `count` (the target model's tokenizer). Deterministic.

    OverBudget if what is never cut does not fit; InvalidInput("query") where there is no question.
    """
    return _Packing(request, count).run()


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of the data message: what it costs, the memory that it shows, and whether it is listed as cut already (shortened)."""

    text: str
    tokens: int
    recollection: Recollection | None = None
    listed: bool = False


class _Packing:
    """One run of `pack`: what has been placed, what it cost, and what was cut."""

    def __init__(self, request: PackRequest, count: Count) -> None:
        self.request = request
        self.policy = request.policy
        self.overhead = _overhead(request, count)
        self.count = _counted_once(count)
        self.budget = self.policy.budget_tokens - self.policy.output_reserve
        self.tokens = dict.fromkeys(_SECTIONS, 0)
        self.lost: dict[str, list[int]] = {}
        self.lines: dict[str, list[_Line]] = {section: [] for section in _DATA_SECTIONS}
        self.framed = False
        self.recent_room: int | None = None

    def run(self) -> Packed:
        request = self.request
        system = self.policy.system if request.system is None else request.system
        prefix = [{"role": "system", "content": system}] if system else []
        question, before, after = self._question()
        self.tokens["system"] = sum(self._message(message) for message in prefix)
        self.tokens["tools"] = tools_tokens(request.tools, self.count, self.overhead)
        self.tokens["query"] = self._message(question) + self.overhead.reply
        if self._room() < 0:
            raise OverBudget(-self._room(), max(self.budget, 0))
        self.words: Wording = wording(request.language, question["content"])

        earlier, refused_earlier = exchanges(before)
        later, refused_later = exchanges(after)
        self._refuse([*refused_earlier, *refused_later])
        # an agent's steps since the question, newest first, then what the window lets in of the talk before it
        wanted = [*reversed(later), *preference(earlier, self.policy, request.important)]
        core, rest = wanted[: len(later) + ALWAYS_RECENT], wanted[len(later) + ALWAYS_RECENT :]

        self._place_lines("slots", self._state())
        self._place_memories()
        kept, going_on = self._place_exchanges(core)
        self._place_summary()
        self._place_documents()
        self._settle_data()
        more, _ = self._place_exchanges(rest, going_on)
        chosen = {id(exchange) for exchange in (*kept, *more)}
        self._refuse(turn for group in (earlier, later) for e in group if id(e) not in chosen for turn in e.turns)

        messages: list[Message] = list(prefix)
        if self.framed:
            messages.append({"role": "user", "content": self._data_text()})
        messages += [turn_message(turn) for e in earlier if id(e) in chosen for turn in e.turns]
        messages.append(question)
        messages += [turn_message(turn) for e in later if id(e) in chosen for turn in e.turns]
        return Packed(
            messages=messages,
            tools=list(request.tools),
            total=sum(self.tokens.values()),
            budget=self.budget,
            by_section=dict(self.tokens),
            memories=tuple(line.recollection for line in self.lines["memories"] if line.recollection),
            cut=tuple(Cut(section, *self.lost[section]) for section in _SECTIONS if section in self.lost),
            prefix_hash=_prefix_hash(prefix, request.tools),
        )

    # --- what must stay ---

    def _question(self) -> tuple[Message, Sequence[Turn], Sequence[Turn]]:
        turns = self.request.turns
        if self.request.question is not None:
            return {"role": "user", "content": self.request.question}, turns, ()
        for position in range(len(turns) - 1, -1, -1):
            if turns[position].role is Role.USER:
                return turn_message(turns[position]), turns[:position], turns[position + 1 :]
        raise InvalidInput("query", "give a query, or append a user turn to the session first")

    def _room(self) -> int:
        return self.budget - sum(self.tokens.values())

    def _message(self, message: Message) -> int:
        return message_tokens(message, self.count, self.overhead)

    def _lose(self, section: str, items: int, tokens: int) -> None:
        entry = self.lost.setdefault(section, [0, 0])
        entry[0] += items
        entry[1] += tokens

    # --- turns ---

    def _refuse(self, turns: Iterable[Turn]) -> None:
        for turn in turns:
            self._lose("recent", 1, self._message(turn_message(turn)))

    def _place_exchanges(self, wanted: Sequence[Exchange], going_on: bool = True) -> tuple[list[Exchange], bool]:
        """Take `wanted` in order while there is room. One that could not have fitted by itself is passed over; any other that
        does not fit ends the selection, so that no hole is torn into the talk; IMPORTANCE has holes by its nature and goes on."""
        kept: list[Exchange] = []
        if self.recent_room is None:
            self.recent_room = self._room()
        for exchange in wanted if going_on else ():
            cost = sum(self._message(turn_message(turn)) for turn in exchange.turns)
            if cost <= self._room():
                kept.append(exchange)
                self.tokens["recent"] += cost
            elif self.policy.window != "importance" and cost <= self.recent_room:
                return kept, False
        return kept, going_on

    # --- data ---

    def _state(self) -> list[str]:
        return list(state_lines(self.request.state, self.words))

    def _line(self, text: str, recollection: Recollection | None = None, listed: bool = False) -> _Line:
        return _Line(text, self.count(text + "\n"), recollection, listed)

    def _section_room(self, section: str) -> int:
        """Tokens that a next line of `section` may have: within its cap and the budget, after its title and the frame."""
        room = self._room()
        if not self.framed:
            room -= self._frame_tokens()
        title = 0 if self.lines[section] else self.count(self._title(section) + "\n")
        return min(self._cap(section) - self.tokens[section], room) - title

    def _cap(self, section: str) -> int:
        cap = int(getattr(self.policy.sections, section))
        return min(cap, int(self.policy.sections.memories_share * self.budget)) if section == "memories" else cap

    def _place(self, section: str, line: _Line) -> None:
        if not self.framed:
            self.framed = True
            self.tokens["system"] += self._frame_tokens()
        if not self.lines[section]:
            self.tokens[section] += self.count(self._title(section) + "\n")
        self.lines[section].append(line)
        self.tokens[section] += line.tokens

    def _place_lines(self, section: str, texts: Sequence[str]) -> None:
        for text in texts:
            line = self._line(text)
            if line.tokens <= self._section_room(section):
                self._place(section, line)
            else:
                self._lose(section, 1, line.tokens)

    def _place_memories(self) -> None:
        """Each with its predecessor if both fit, else alone: an outdated entry is never shown without what holds now."""
        for recollection in self.request.memories:
            zone = self.request.zone
            alone = memory_line(recollection.memory, zone)
            if recollection.predecessor is None:
                options = [self._line(alone, recollection)]
            else:
                both = f"{alone}\n{memory_line(recollection.predecessor, zone)}"
                options = [self._line(both, recollection), self._line(alone, Recollection(recollection.memory), True)]
            room = self._section_room("memories")
            fitting = next((line for line in options if line.tokens <= room), None)
            if fitting:
                self._place("memories", fitting)
            kept = fitting.tokens if fitting else 0
            if fitting is not options[0]:
                self._lose("memories", 1, options[0].tokens - kept)

    def _place_summary(self) -> None:
        if self.request.summary and self.request.summary.strip():
            self._place_text("summary", self.request.summary, summary_line)

    def _place_documents(self) -> None:
        for document in self.request.documents:
            if document.text.strip():
                self._place_text("documents", document.text, lambda text, key=document.id: document_line(key, text))  # type: ignore[misc]

    def _place_text(self, section: str, text: str, render: Callable[[str], str]) -> None:
        """Whole, or up to the last sentence that fits, or (where not even one fits) up to the last whole character."""
        room = self._section_room(section)
        whole = self._line(render(text))
        if whole.tokens <= room:
            self._place(section, whole)
            return
        shortened = self._shortened(text, room, render)
        if shortened:
            self._place(section, shortened)
        self._lose(section, 1, whole.tokens - (shortened.tokens if shortened else 0))

    def _shortened(self, text: str, room: int, render: Callable[[str], str]) -> _Line | None:
        if room <= 0:
            return None
        head = text[: room * _MOST_CHARS_PER_TOKEN]
        for find_points in (cut_points, grapheme_points):
            points = find_points(head)

            def too_long(point: int) -> bool:
                return self.count(render(text[:point].rstrip() + ELLIPSIS) + "\n") > room

            best = bisect_left(points, True, key=too_long)
            if best and text[: points[best - 1]].strip():
                # the search has measured this very text, so it fits whatever the tokenizer; that longer texts have no fewer
                # tokens is only assumed, and an exception costs nothing but length
                return self._line(render(text[: points[best - 1]].rstrip() + ELLIPSIS), listed=True)
        return None

    def _title(self, section: str) -> str:
        return str(getattr(self.words, section))

    def _data_text(self, sections: Collection[str] = _DATA_SECTIONS) -> str:
        parts = [OPENING, self.words.frame]
        for section in _DATA_SECTIONS:
            if section in sections and self.lines[section]:
                parts += [self._title(section), *(line.text for line in self.lines[section])]
        return "\n".join([*parts, CLOSING])

    def _frame_tokens(self) -> int:
        return self._message({"role": "user", "content": self._data_text(())})

    def _settle_data(self) -> None:
        """Replace the sum of the lines' counts by the count of the text as it is sent: tokenizers do not add up exactly. Where that
        shows a section above its cap or the whole above the budget, the section's last line goes."""
        while self.framed:
            if not any(self.lines.values()):
                self.framed = False
                self.tokens["system"] -= self._frame_tokens()
                self.tokens.update(dict.fromkeys(_DATA_SECTIONS, 0))
                return
            before = self._frame_tokens()
            over = None
            for position, section in enumerate(_DATA_SECTIONS):
                upto = self._message({"role": "user", "content": self._data_text(_DATA_SECTIONS[: position + 1])})
                self.tokens[section], before = upto - before, upto
                if self.lines[section] and self.tokens[section] > self._cap(section):
                    over = section
            if over is None and self._room() < 0:
                over = next(section for section in reversed(_DATA_SECTIONS) if self.lines[section])
            if over is None:
                return
            line = self.lines[over].pop()
            self._lose(over, 0 if line.listed else 1, line.tokens)


def _overhead(request: PackRequest, count: Count) -> ChatOverhead:
    own: ChatOverhead = getattr(count, "overhead", OPENAI_CHAT)
    return request.overhead or own


def _counted_once(count: Count) -> Count:
    """The same roles, titles and turns are asked for again and again while one prompt is packed."""
    known: dict[str, int] = {}

    def counted(text: str) -> int:
        tokens = known.get(text)
        if tokens is None:
            tokens = known[text] = count(text)
        return tokens

    return counted


def _prefix_hash(prefix: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> str:
    return hashlib.blake2b(as_json([prefix, list(tools)]).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
