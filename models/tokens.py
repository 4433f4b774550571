"""Token counters: how many tokens a text is for the model that will read it (W2, P30).

Counted, never estimated from characters: Chinese runs from 0.5 to 2 tokens a character depending on the tokenizer.
OpenAI's encodings are embedded and work offline; open models count with their own tokenizer.
"""

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from threading import Lock

from bpe_openai._bindings import tokenizer_for_encoding

from memory.chat import OPEN_MODEL_CHAT, OPENAI_CHAT, ChatOverhead
from memory.errors import InvalidInput

_O200K = "o200k_base"
_CL100K = "cl100k_base"
_CL100K_NAMES = re.compile(r"gpt-4(?![.o])|gpt-?4-|gpt-3\.?5|text-embedding-(3-|ada-002)|cl100k")
_PROVIDERS = ("openai/", "azure/", "azure_openai/")
_HF_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+", re.ASCII)
_LOADED_TOKENIZERS = 8
_REMEMBERED_TEXTS = 8192


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """Calling it with any text gives its number of tokens (0 for the empty text). Safe in threads; never raises on a str.

    What looks like a special token (`<|endoftext|>`, `</s>`) is counted as the plain text that it is. A lone surrogate, which
    no provider accepts, counts as the replacement character.
    """

    name: str
    overhead: ChatOverhead = field(repr=False)
    _count: Callable[[str], int] = field(repr=False)

    def __call__(self, text: str) -> int:
        try:
            return self._count(text)
        except UnicodeEncodeError:
            return self._count(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def counter_for(model: str, *, download: bool = False) -> TokenCounter:
    """The counter of `model`: an OpenAI name, a Hugging Face id (`org/name`) or a local folder with a tokenizer in it.

    gpt-4 and gpt-3.5 (also -turbo) and the embedding models of that time count in cl100k; every other plain name in o200k. An id or
    folder is loaded once, on first use, and the latest 8 are kept. Nothing is fetched from a model hub unless `download` is set, so
    that a request never waits for one. Cannot be loaded: InvalidInput("model").
    """
    plain = model
    for provider in _PROVIDERS:
        plain = plain.removeprefix(provider)
    if _is_folder(plain):
        return _hugging_face(str(Path(plain).resolve()), download)
    if "/" in plain or "\\" in plain:
        if not _HF_ID.fullmatch(plain):
            raise _unloadable()
        return _hugging_face(plain, download)
    return _openai(_CL100K if _CL100K_NAMES.match(plain.lower()) else _O200K)


def _is_folder(model: str) -> bool:
    # a bare word is a model's name even where a folder happens to be called so
    if not ("/" in model or "\\" in model):
        return False
    try:
        return Path(model).is_dir()
    except (OSError, ValueError):
        return False


@lru_cache(maxsize=2)
def _openai(encoding: str) -> TokenCounter:
    # The binding's own `count`: the package's Encoding refuses texts of 10^6 characters and builds lists only to measure them.
    # Without a memo: at 2 microseconds a sentence, hashing it costs as much as counting it.
    return TokenCounter(encoding, OPENAI_CHAT, tokenizer_for_encoding(encoding).count)


@lru_cache(maxsize=_LOADED_TOKENIZERS)
def _hugging_face(source: str, download: bool) -> TokenCounter:
    try:
        count = _fast(source, download) or _slow(source, download)
    except Exception as error:
        # tokenizers raises bare Exception on a broken file; its message may quote the file
        raise _unloadable() from error
    return TokenCounter(source, OPEN_MODEL_CHAT, _Memo(count))


def _fast(source: str, download: bool) -> Callable[[str], int] | None:
    """By `tokenizer.json` alone: no import of transformers (seconds) into the process that answers requests."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError
    from tokenizers import Tokenizer

    folder = Path(source)
    if folder.is_dir():
        file = folder / "tokenizer.json"
        if not file.is_file():
            return None
    else:
        try:
            file = Path(hf_hub_download(source, "tokenizer.json", local_files_only=not download))
        except (EntryNotFoundError, LocalEntryNotFoundError):
            return None
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True  # look-alikes in a text are split like any other text
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def _slow(source: str, download: bool) -> Callable[[str], int]:
    """By transformers, for tokenizers that have no `tokenizer.json`; imported only once there is something to load."""
    folder = Path(source)
    if folder.is_dir():
        if not (folder / "tokenizer_config.json").is_file():
            raise FileNotFoundError("tokenizer_config.json")
    else:
        from huggingface_hub import hf_hub_download

        hf_hub_download(source, "tokenizer_config.json", local_files_only=not download)
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=not download, trust_remote_code=False)
    return lambda text: len(
        tokenizer.encode(text, add_special_tokens=False, truncation=False, padding=False, split_special_tokens=True)
    )


def _unloadable() -> InvalidInput:
    return InvalidInput(
        "model",
        "no tokenizer can be loaded for it here; use an OpenAI model's name, a Hugging Face id that has been downloaded, or a folder "
        "that holds tokenizer.json",
    )


class _Memo:
    """Counts of the latest texts, by digest: the same turns are counted for every prompt. Holds no text (an erased one must be gone)."""

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        self._known: OrderedDict[bytes, int] = OrderedDict()
        self._lock = Lock()

    def __call__(self, text: str) -> int:
        key = hashlib.blake2b(text.encode(), digest_size=16).digest()
        with self._lock:
            if (known := self._known.get(key)) is not None:
                self._known.move_to_end(key)
                return known
        count = self._count(text)
        with self._lock:
            self._known[key] = count
            if len(self._known) > _REMEMBERED_TEXTS:
                self._known.popitem(last=False)
        return count
