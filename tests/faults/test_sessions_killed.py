"""The bundled Valkey killed under a running Strata: 503 while it is away, and everything as it was once it is back (P40)."""

from pathlib import Path

import psutil

from storage.sessions import valkey_server
from tests.faults import stories
from tests.faults.world import Place, fresh, opened

PATIENCE_S = 30.0


async def test_a_killed_valkey_is_a_503_and_comes_back_with_what_it_had(home: Path, tiny: Path):
    async with opened(Place(home, tiny)) as world:
        shop = await world.strata.tenant(fresh("t"), grants=stories.GRANTS)
        talk = await shop.open("wei")
        turns = {"turns": [{"role": "user", "content": "I'm allergic to kiwi."}]}
        said = await talk.call("POST", f"/v1/sessions/{talk.id}/turns", json=turns)

        (server,) = [
            one for one in psutil.process_iter(["cmdline"]) if str(home) in " ".join(one.info["cmdline"] or ())
        ]
        server.kill()
        server.wait(PATIENCE_S)
        for method, path, body in (
            ("POST", "/v1/context", {"query": "kiwi"}),
            ("POST", f"/v1/sessions/{talk.id}/turns", turns),
        ):
            answer = await world.strata.call(method, path, talk.token, json=body)
            assert answer.status_code == 503, answer.text
        assert (await world.strata.call("GET", "/healthz", "")).status_code == 200
        found = await talk.search("kiwi", min_score=0.0)  # what needs no session is answered
        assert [item["content"] for item in found] == ["The user is allergic to kiwi."]

        valkey_server.ensure_running(home)
        page = await talk.call("GET", f"/v1/sessions/{talk.id}/turns")
        assert [turn["id"] for turn in page["items"]] == [turn["id"] for turn in said["turns"]]
        await talk.say("I live in Berlin.")
