"""`strata chat`: type turns, watch verdicts and the context that a model would get."""

from rich.console import Console

from deployments.cli.client import Api, demo_key, open_session
from deployments.cli.demo import show_context, show_verdicts

HELP = "Type a turn. /ctx QUESTION shows the context for a question, /mem lists what is remembered, /quit ends."


def talk(url: str, key: str | None, user: str, console: Console) -> int:
    session = open_session(Api(url, demo_key(key)), user)
    console.print(f"[dim]{HELP}[/dim]")
    while True:
        try:
            line = console.input("[bold]you[/bold]  ").strip()
        except (EOFError, KeyboardInterrupt):
            console.print()
            return 0
        if line in ("/quit", "/q"):
            return 0
        if line == "/mem":
            for memory in session.call("GET", "/v1/memories")["items"]:
                console.print(
                    f"  {memory['status']:9} {memory['kind']:11} {memory['content']}", highlight=False, markup=False
                )
        elif line.startswith("/ctx"):
            show_context(session, line.removeprefix("/ctx").strip(), console)
        elif line:
            answer = session.call("POST", session.path("turns"), {"turns": [{"role": "user", "content": line}]})
            show_verdicts(answer["verdicts"], console)
            show_context(session, "", console)
