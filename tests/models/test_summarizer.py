"""The summarizer: a tiny causal model of the real class, and a real HTTP server that speaks (or garbles) the OpenAI API."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from pydantic import ValidationError

from memory.errors import ConfigError, DeadlineExceeded, InvalidInput, Overloaded, TooLarge, Unavailable
from models.summarizer import Summarizer, SummarizerSettings
from tests.models.tiny import save_chat_model, save_embedder

MESSAGES = [
    {"role": "system", "content": "Summarise in one sentence."},
    {"role": "user", "content": "我喜欢喝茶，住在北京。"},
]
TEMPLATE = "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{% endfor %}{% if add_generation_prompt %}[me]{% endif %}"


# --- in this process -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> str:
    return str(save_chat_model(tmp_path_factory.mktemp("chat"), TEMPLATE))


async def test_a_local_model_answers_and_greedily_always_the_same(folder):
    chat = Summarizer.load(SummarizerSettings(model=folder, max_new_tokens=12))
    first = await chat.complete(MESSAGES, 30.0)
    assert 0 < len(first) <= 12 * 2
    assert await chat.complete(MESSAGES, 30.0) == first
    await chat.close()


async def test_the_models_own_chat_template_is_used_where_it_has_one(folder, tmp_path):
    with_template = Summarizer.load(SummarizerSettings(model=folder))
    assert with_template._chat._prompt(MESSAGES).endswith("[user]我喜欢喝茶，住在北京。[me]")
    plain = Summarizer.load(SummarizerSettings(model=str(save_chat_model(tmp_path))))
    assert plain._chat._prompt(MESSAGES).endswith("user: 我喜欢喝茶，住在北京。\nassistant: ")


async def test_a_local_model_stops_at_the_deadline_and_is_free_again(folder):
    chat = Summarizer.load(SummarizerSettings(model=folder, max_new_tokens=3000))
    start = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        await chat.complete(MESSAGES, 0.3)
    assert time.monotonic() - start < 6.0
    quick = asyncio.get_running_loop().run_in_executor(chat._chat._thread, lambda: None)
    await asyncio.wait_for(quick, 6.0)  # the abandoned generation does not run on
    await chat.close()


async def test_a_prompt_over_the_models_window_is_refused(folder):
    chat = Summarizer.load(SummarizerSettings(model=folder, max_prompt_tokens=20))
    with pytest.raises(TooLarge):
        await chat.complete(MESSAGES, 5.0)


@pytest.mark.parametrize("kind", ["missing", "embedder", "damaged", "no room"])
def test_what_is_no_chat_model_stops_the_start(tmp_path, kind):
    settings: dict[str, Any] = {"model": str(tmp_path)}
    if kind == "embedder":
        save_embedder(tmp_path)
    elif kind == "damaged":
        save_chat_model(tmp_path)
        (tmp_path / "model.safetensors").write_bytes(b"cut")
    elif kind == "no room":
        save_chat_model(tmp_path)
        settings["max_new_tokens"] = 4096
    with pytest.raises(ConfigError) as refused:
        Summarizer.load(SummarizerSettings(**settings))
    assert "\n" not in str(refused.value)


# --- behind a URL --------------------------------------------------------------------------------------------------

Reply = tuple[int, dict[str, str], bytes]


class Server:
    """A real HTTP server. `replies` are given in turn, the last for good; each may also be a function that makes one."""

    def __init__(self) -> None:
        self.replies: list[Reply | Callable[[], Reply]] = []
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                headers = {name.lower(): value for name, value in self.headers.items()}
                outer.requests.append((self.path, headers, body))
                reply = outer.replies[min(len(outer.requests), len(outer.replies)) - 1]
                status, more, content = reply() if callable(reply) else reply
                try:
                    self.send_response(status)
                    for name, value in more.items():
                        self.send_header(name, value)
                    self.send_header("content-length", str(len(content) + int(more.get("x-missing", "0"))))
                    self.end_headers()
                    self.wfile.write(content)
                except (BrokenPipeError, ConnectionResetError):
                    pass

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def says(content: object, finish: str = "stop", **message: object) -> Reply:
    answer = {"choices": [{"message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}]}
    return 200, {"content-type": "application/json"}, json.dumps(answer).encode()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.stop()


def endpoint(server: Server, **options: Any) -> Summarizer:
    return Summarizer.load(SummarizerSettings(model="some-model", url=server.url, **options))


async def test_an_endpoint_is_asked_in_the_openai_shape(server, monkeypatch):
    monkeypatch.setenv("CHAT_KEY", "k-123")
    server.replies = [says("  用户喜欢喝茶，住在北京。 ")]
    chat = endpoint(server, api_key="env:CHAT_KEY", max_new_tokens=99)
    assert await chat.complete(MESSAGES, 5.0) == "用户喜欢喝茶，住在北京。"
    ((path, headers, body),) = server.requests
    assert path == "/v1/chat/completions"
    assert headers["authorization"] == "Bearer k-123"
    assert body == {"model": "some-model", "messages": MESSAGES, "max_tokens": 99, "temperature": 0.0}
    await chat.close()


@pytest.mark.parametrize(
    "hiccup",
    [
        (503, {}, b"busy"),
        (429, {"retry-after": "0"}, b""),
        (500, {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, b""),
        (200, {}, b"<html>gateway</html>"),
        (200, {}, b'{"choices": []}'),
        (200, {}, b"[1, 2]"),
        says(None),
        (200, {"x-missing": "50"}, b'{"choices": [{"mess'),  # the connection is cut in mid-answer
    ],
)
async def test_what_may_pass_is_tried_again(server, hiccup):
    server.replies = [hiccup, says("fine")]
    chat = endpoint(server)
    assert await chat.complete(MESSAGES, 20.0) == "fine"
    assert len(server.requests) == 2
    await chat.close()


async def test_tries_are_limited(server):
    server.replies = [(503, {}, b"busy")]
    chat = endpoint(server, attempts=3)
    with pytest.raises(Unavailable):
        await chat.complete(MESSAGES, 30.0)
    assert len(server.requests) == 3
    await chat.close()


@pytest.mark.parametrize(
    "final",
    [
        (401, {}, b'{"error": {"message": "bad key k-123"}}'),
        (404, {}, b"no such model"),
        (400, {}, b"prompt too long: Summarise in"),
        (302, {"location": "http://127.0.0.1:1/elsewhere"}, b""),
        says("I can't help with that.", finish="content_filter"),
        says(None, refusal="No."),
        says(""),
        says("  \n "),
        (200, {}, b'{"choices": "' + b"x" * (5 << 20) + b'"}'),
    ],
)
async def test_p33_what_will_not_pass_is_an_error_at_once_and_never_an_empty_summary(server, final, caplog):
    server.replies = [final]
    chat = endpoint(server)
    with pytest.raises(Unavailable) as failed:
        await chat.complete(MESSAGES, 20.0)
    assert len(server.requests) == 1
    assert failed.value.detail == "the summarizer cannot be reached at the moment; nothing was changed."
    assert "Summarise" not in caplog.text
    assert "k-123" not in caplog.text
    await chat.close()


@pytest.mark.parametrize("asked", [{}, {"retry-after": "30"}])
async def test_the_deadline_is_around_all_tries(server, asked):
    def slow() -> Reply:
        time.sleep(0 if asked else 9)
        return (503, asked, b"")

    server.replies = [slow]
    chat = endpoint(server, attempts=10)
    start = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        await chat.complete(MESSAGES, 0.4)
    assert time.monotonic() - start < 6.0
    await chat.close()


async def test_a_server_that_is_not_there(server):
    server.stop()
    chat = endpoint(server, attempts=2)
    with pytest.raises(Unavailable):
        await chat.complete(MESSAGES, 10.0)
    await chat.close()


async def test_only_so_many_may_wait(server):
    server.replies = [lambda: (time.sleep(0.3), says("late"))[1]]
    chat = endpoint(server, max_waiting=2)
    two = [asyncio.create_task(chat.complete(MESSAGES, 5.0)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await chat.complete(MESSAGES, 5.0)
    assert await asyncio.gather(*two) == ["late", "late"]
    await chat.close()


async def test_no_time_left_asks_nobody(server):
    with pytest.raises(DeadlineExceeded):
        await endpoint(server).complete(MESSAGES, 0.0)
    assert server.requests == []


async def test_texts_that_cannot_be_sent_are_refused_without_quoting_them(server):
    chat = endpoint(server, max_prompt_tokens=16)
    with pytest.raises(InvalidInput) as refused:
        await chat.complete([{"role": "user", "content": "secret \ud800"}], 5.0)
    assert "secret" not in repr(refused.value)
    with pytest.raises(TooLarge):
        await chat.complete([{"role": "user", "content": "x" * 1000}], 5.0)
    assert server.requests == []


@pytest.mark.parametrize(
    ("reference", "content"), [("env:NO_SUCH_KEY", None), ("file:{}/none", None), ("file:{}/key", " \n")]
)
def test_a_secret_that_is_not_there_stops_the_start(server, tmp_path, reference, content):
    if content is not None:
        (tmp_path / "key").write_text(content)
    with pytest.raises(ConfigError, match="api_key"):
        endpoint(server, api_key=reference.format(tmp_path))


async def test_a_secret_from_a_file(server, tmp_path):
    (tmp_path / "key").write_text("k-456\n")
    server.replies = [says("fine")]
    chat = endpoint(server, api_key=f"file:{tmp_path}/key")
    await chat.complete(MESSAGES, 5.0)
    assert server.requests[0][1]["authorization"] == "Bearer k-456"
    await chat.close()


@pytest.mark.parametrize(
    "wrong", [{"api_key": "sk-plain"}, {"url": "ftp://host/v1"}, {"url": "host/v1"}, {"modle": "x"}, {"attempts": 0}]
)
def test_settings_refuse_values_where_references_belong_and_unknown_keys(wrong):
    with pytest.raises(ValidationError):
        SummarizerSettings(**{"model": "m", **wrong})
