"""A causal language model in this process."""

import asyncio
import logging
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, StoppingCriteriaList
from transformers.utils import logging as transformers_logging

from memory.errors import ConfigError, DeadlineExceeded, StrataError, TooLarge, Unavailable
from models.chat import NAME, Message
from models.devices import choose_device
from models.settings import SummarizerSettings

log = logging.getLogger(__name__)


class LocalChat:
    """One generation at a time, in a thread of its own. A caller whose time is up stops it at the next token."""

    def __init__(self, settings: SummarizerSettings, tokenizer: Any, network: Any) -> None:
        self._settings = settings
        self._tokenizer = tokenizer
        self._device = choose_device(settings.device)
        self._network = network.to(self._device).eval()
        positions = int(getattr(network.config, "max_position_embeddings", None) or 1 << 30)
        self._prompt_tokens = min(settings.max_prompt_tokens, positions - settings.max_new_tokens)
        if self._prompt_tokens < 1:
            raise ConfigError(
                "summarizer.max_new_tokens", f"leaves no room for a prompt in {positions} positions; lower it"
            )
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="summarizer")

    @classmethod
    def load(cls, settings: SummarizerSettings) -> "LocalChat":
        """A local folder or a Hugging Face id, from safetensors or from `gguf_file`. One that cannot be loaded is a ConfigError."""
        options: dict[str, Any] = {"local_files_only": Path(settings.model).is_dir()}
        if settings.gguf_file is not None:
            options["gguf_file"] = settings.gguf_file
        level = transformers_logging.get_verbosity()
        transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
        transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        broken = ConfigError(
            "summarizer.model", f"{settings.model} cannot be loaded as a causal language model; check it"
        )
        try:
            tokenizer = AutoTokenizer.from_pretrained(settings.model, **options)
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                settings.model, dtype=getattr(torch, settings.dtype), output_loading_info=True, **options
            )
        except Exception as bad:  # a damaged file shows as almost anything
            raise broken from bad
        finally:
            transformers_logging.set_verbosity(level)
        network, report = loaded
        if report["missing_keys"] or report["mismatched_keys"]:
            raise broken
        torch.set_num_threads(settings.threads)
        return cls(settings, tokenizer, network)

    async def complete(self, messages: Sequence[Message], timeout_s: float) -> str:
        """As Summarizer.complete."""
        stop = threading.Event()
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_s):
                return await loop.run_in_executor(self._thread, self._generate, messages, stop)
        except TimeoutError:
            raise DeadlineExceeded(NAME) from None
        finally:
            stop.set()

    async def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _generate(self, messages: Sequence[Message], stop: threading.Event) -> str:
        if stop.is_set():  # its caller went while it was waiting for the thread
            return ""
        try:
            return self._answer(messages, stop)
        except StrataError:
            raise
        except Exception as error:  # the type alone: a message may quote the prompt
            log.error("%s failed: %s", NAME, type(error).__name__)
            raise Unavailable(NAME) from None

    @torch.inference_mode()
    def _answer(self, messages: Sequence[Message], stop: threading.Event) -> str:
        ids = self._tokenizer(self._prompt(messages), add_special_tokens=False, verbose=False)["input_ids"]
        if len(ids) > self._prompt_tokens:
            raise TooLarge("messages", f"send at most {self._prompt_tokens} tokens")
        prompt = torch.tensor([ids], device=self._device)
        sampling: dict[str, Any] = {"do_sample": False}
        if self._settings.temperature > 0:
            sampling = {"do_sample": True, "temperature": self._settings.temperature}
        end = self._tokenizer.eos_token_id
        output = self._network.generate(
            input_ids=prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=self._settings.max_new_tokens,
            pad_token_id=self._tokenizer.pad_token_id if self._tokenizer.pad_token_id is not None else end,
            stopping_criteria=StoppingCriteriaList([_Stop(stop)]),
            **sampling,
        )
        return str(self._tokenizer.decode(output[0, len(ids) :], skip_special_tokens=True))

    def _prompt(self, messages: Sequence[Message]) -> str:
        if self._tokenizer.chat_template:
            return str(self._tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True))
        return "".join(f"{message['role']}: {message['content']}\n" for message in messages) + "assistant: "


class _Stop:
    """Ends a generation that nobody waits for."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    def __call__(self, ids: torch.Tensor, scores: torch.Tensor, **_: Any) -> torch.Tensor:
        return torch.full((ids.shape[0],), self._stop.is_set(), device=ids.device)
