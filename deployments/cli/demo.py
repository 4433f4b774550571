"""`strata demo`: a user speaks in two sessions; what is remembered, why, and what the next prompt holds. Ends with 0 only if
memory did what it should."""

import secrets
import time
from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from deployments.cli.client import Api, SessionApi, demo_key, open_session

COLOURS = {
    "stored": "green",
    "confirmed": "cyan",
    "superseded": "yellow",
    "waiting": "blue",
    "rejected": "bright_black",
}

FIRST = (
    ("user", "你好！今天天气真不错。"),
    ("user", "我叫林晓，住在杭州，对花生过敏。"),
    ("user", "我喜欢喝咖啡。"),
    ("assistant", "好的，您似乎是一位注重效率的人。"),
    ("user", "By the way, I work as a nurse and I like window seats."),
    ("user", "帮我查一下快递到哪了？"),
    ("user", "我现在不喝咖啡了，改喝茶了。"),
)
QUESTION = "下午想喝点什么，有什么推荐？"
FOOD = "Can you recommend a dessert for me?"
UNRELATED = "法国大革命是哪一年开始的？"


def play(url: str, key: str | None, console: Console) -> int:
    tenant = Api(url, demo_key(key))
    user = f"demo-{secrets.token_hex(4)}"
    checks: list[tuple[str, bool]] = []

    console.rule("[bold]Session 1: the user speaks")
    session = open_session(tenant, user, time_zone="Asia/Shanghai")
    for role, text in FIRST:
        answer = session.call("POST", session.path("turns"), {"turns": [{"role": role, "content": text}]})
        console.print(f"[bold]{role}[/bold]  {text}", highlight=False)
        show_verdicts(answer["verdicts"], console)

    kept = session.call("GET", "/v1/memories")["items"]
    table = Table("status", "kind", "memory", title="What is remembered")
    for memory in kept:
        style = "" if memory["status"] == "active" else "dim strike"
        table.add_row(memory["status"], memory["kind"], memory["content"], style=style)
    console.print(table)
    active = [memory["content"] for memory in kept if memory["status"] == "active"]
    checks.append(
        (
            "small talk, questions and the assistant's guess were not stored",
            not any("天气" in c or "快递" in c or "效率" in c for c in active),
        )
    )

    console.rule("[bold]Session 2, later: what does the model need now?")
    later = open_session(tenant, user, time_zone="Asia/Shanghai")
    time.sleep(0.2)
    drink = show_context(later, QUESTION, console)
    told = _data(drink)
    checks.append(
        (
            "the Chinese preference of session 1 is in session 2's prompt",
            any("茶" in m["content"] and m["status"] == "active" for m in drink["memories"]),
        )
    )
    checks.append(
        (
            "the outdated preference is there, marked",
            any("咖啡" in m["content"] and m["status"] == "outdated" for m in drink["memories"]) and "outdated" in told,
        )
    )
    food = show_context(later, FOOD, console)
    checks.append(
        (
            "a question in English finds the allergy told in Chinese",
            any("花生" in m["content"] for m in food["memories"]),
        )
    )
    other = show_context(later, UNRELATED, console)
    checks.append(("an unrelated question recalls nothing", not other["memories"]))
    checks.append(
        (
            "every prompt is within its budget",
            all(a["tokens"]["total"] <= a["tokens"]["budget"] for a in (drink, food, other)),
        )
    )

    console.rule("[bold]Forgotten means gone")
    receipt = later.call("DELETE", "/v1/memories", {"confirm": "all"})
    checks.append(("after `delete all` nothing is left", not later.call("GET", "/v1/memories")["items"]))
    console.print(f"deleted {receipt.get('count')} entries, receipt {receipt.get('id')}", highlight=False)

    console.rule()
    for name, passed in checks:
        console.print(f"{'[green]yes[/green]' if passed else '[bold red]NO [/bold red]'}  {name}", highlight=False)
    return 0 if all(passed for _, passed in checks) else 1


def show_verdicts(verdicts: list[dict[str, Any]], console: Console) -> None:
    for verdict in verdicts:
        kind = f" {verdict['kind']}" if verdict["kind"] else ""
        line = Text("      ").append(verdict["verdict"] + kind, style=COLOURS[verdict["verdict"]])
        console.print(line.append(f" {verdict['candidate']} ").append(f"({verdict['reason']})", style="dim"))


def show_context(session: SessionApi, question: str, console: Console) -> dict[str, Any]:
    """Asks for the context, prints it. Without a question it is the session's last turn."""
    body = {"system": "You are the shop's assistant.", "budget_tokens": 2000, "output_reserve": 500}
    answer: dict[str, Any] = session.call("POST", "/v1/context", body | ({"query": question} if question else {}))
    if question:
        console.print(f"[bold]user[/bold]  {question}", highlight=False)
    for memory in answer["memories"]:
        line = Text("      ").append(memory["status"], style="green" if memory["status"] == "active" else "yellow")
        why = f"{memory['score']:.2f} {memory['why']}"
        console.print(line.append(f" {memory['content']} ").append(why, style="dim"))
    if not answer["memories"]:
        console.print("      [dim]nothing recalled[/dim]")
    text = "\n\n".join(f"{message['role']}: {message['content']}" for message in answer["messages"])
    tokens = answer["tokens"]
    title = f"the prompt: {tokens['total']} of {tokens['budget']} tokens"
    console.print(Panel(Text(text), title=title, border_style="dim"))
    return answer


def _data(answer: dict[str, Any]) -> str:
    return "\n".join(str(message["content"]) for message in answer["messages"])
