"""Three workers and two clients killed and stalled at random, under load; then the stores are compared (P25, P26, P28, P34, P37)."""

import asyncio
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing import connection as waiting

from memory.policy import MergePolicy, Policy
from tests.faults import stories
from tests.faults.audit import Audit, audit, left_of_user
from tests.faults.load import RETRIED, User, acknowledged, client, request, work
from tests.faults.processes import Child, run
from tests.faults.world import Place, World, fresh, opened

TENANTS, WORKERS, CLIENTS, USERS = 2, 3, 2, 3
"""How many tenants, workers and clients; and how many users a client acts for at once."""
SETTLE_S = 120.0


@dataclass
class Report:
    operations: Counter[str] = field(default_factory=Counter)
    deaths: Counter[str] = field(default_factory=Counter)
    found: Audit = field(default_factory=Audit)
    lost: list[str] = field(default_factory=list)
    """Acknowledged and not there, or there and never asked for."""
    left: dict[str, int] = field(default_factory=dict)
    """What stores still hold of erased users."""

    @property
    def good(self) -> bool:
        return not self.found.faults and not self.lost and not self.left

    def __str__(self) -> str:
        found = self.found
        lines = [
            f"operations  {_counts(self.operations)}",
            f"kills       {_counts(self.deaths)}",
            f"compared    {found.rows} rows, {found.entries} entries in the index",
            f"found       missing {found.missing}, orphans {found.orphans}, undead {found.undead}, tombstones {found.tombstones}",
            f"            {found.missing}/{found.orphans}/{found.undead}/{found.tombstones}",
        ]
        if rest := {name: n for name, n in found.faults.items() if name not in str(lines)}:
            lines.append(f"besides     {rest}")
        if self.lost:
            lines.append(f"lost        {len(self.lost)}: {'; '.join(self.lost[:5])}")
        if self.left:
            lines.append(f"left        of erased users: {self.left}")
        return "\n".join(lines)


class Chaos:
    """One run on the stores of `place`."""

    def __init__(self, place: Place, seconds: float, seed: int) -> None:
        self._place, self._seconds = place, seconds
        self._dice = random.Random(seed)
        self._users: dict[int, list[User]] = {}
        self._clients: dict[int, Child] = {}
        self._workers: dict[int, Child] = {}
        self._all: list[User] = []
        self._keys: dict[str, str] = {}
        self.report = Report()

    def run(self) -> Report:
        names = [fresh("c") for _ in range(TENANTS)]
        self._keys = run(declare, self._place, names).value
        try:
            for number in range(WORKERS):
                self._start_worker(number)
            for number in range(CLIENTS):
                self._users[number] = []
                self._start_client(number)
            self._rage(time.monotonic() + self._seconds)
            for number, child in self._clients.items():
                child.send(signal.SIGKILL)
                child.process.join()
                self._hear(number)
        finally:
            for child in (*self._workers.values(), *self._clients.values()):
                child.close()
        ended = run(settle, self._place, self._keys, self._all).value
        self.report.found, self.report.lost, self.report.left = ended
        return self.report

    # --- processes

    def _start_worker(self, number: int) -> None:
        self._workers[number] = Child(work, self._place)

    def _start_client(self, number: int) -> None:
        """It goes on where the one before was killed; for a user that was erased there is a new one."""
        going_on = [user for user in self._users[number] if not user.erased and not user.locked_out]
        while len(going_on) < USERS:
            user = User(self._dice.choice(sorted(self._keys)), fresh("u"))
            self._all.append(user)
            going_on.append(user)
        self._users[number] = going_on
        self._clients[number] = Child(
            client, self._place, going_on, self._keys, self._dice.randrange(1 << 30), told=True
        )

    def _rage(self, until: float) -> None:
        while time.monotonic() < until:
            self._listen(self._dice.uniform(0.2, 0.9))
            victims = [("worker", number) for number in self._workers] * 2 + [("client", n) for n in self._clients]
            kind, number = self._dice.choice(victims)
            if kind == "worker":
                self._hurt_worker(number)
            else:
                self._clients[number].send(signal.SIGKILL)
                self.report.deaths["client killed"] += 1
                self._restart_client(number)

    def _hurt_worker(self, number: int) -> None:
        child = self._workers[number]
        if self._dice.random() < 0.3:  # stalled past its lease; then it goes on as if nothing had been
            child.send(signal.SIGSTOP)
            self._listen(self._dice.uniform(1.2, 2.5))
            child.send(signal.SIGCONT)
            self.report.deaths["worker stalled"] += 1
        else:
            child.send(signal.SIGKILL)
            child.close()
            self.report.deaths["worker killed"] += 1
            self._start_worker(number)

    def _restart_client(self, number: int) -> None:
        self._clients[number].process.join()
        self._hear(number)
        self._clients[number].close()
        self._start_client(number)

    # --- what clients say

    def _listen(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (rest := until - time.monotonic()) > 0:
            ready = waiting.wait([child.answers for child in self._clients.values()], rest)
            for number, child in list(self._clients.items()):
                if child.answers in ready:
                    self._hear(number)
                    if not child.process.is_alive():  # all its users were erased
                        self._restart_client(number)

    def _hear(self, number: int) -> None:
        answers, users = self._clients[number].answers, self._users[number]
        try:
            while answers.poll():
                said = answers.recv()
                if isinstance(said, str):
                    raise AssertionError(f"a client failed:\n{said}")
                if said is None:  # it came to its end
                    return
                if said[0] == "asking":
                    users[said[1]].under_way = said[2]
                else:
                    _, place, operation, status, body = said
                    self.report.operations[operation.kind if status not in RETRIED else "put off"] += 1
                    acknowledged(users[place], operation, status, body)
        except (EOFError, OSError):  # killed
            pass


async def declare(place: Place, names: list[str]) -> dict[str, str]:
    async with opened(place) as world:
        policy = Policy(merge=MergePolicy(same_fact=1.0))
        return {name: (await world.strata.tenant(name, policy, stories.GRANTS)).key for name in names}


async def settle(place: Place, keys: dict[str, str], users: list[User]) -> tuple[Audit, list[str], dict[str, int]]:
    """Whatever was under way is asked again; everything is worked off, swept and compared with what the clients were told."""
    stories.quiet()
    async with opened(place) as world:
        await asyncio.gather(*(_finish(world, keys, user) for user in users))
        await stories.drain(world)
        await world.sweep()
        await stories.drain(world)
        found, left, lost = Audit(), Counter[str](), []
        for tenant in keys:
            one = await audit(world.strata, tenant)
            found += one
            for user in (user for user in users if user.tenant == tenant):
                there, told = Counter(one.contents.get(user.name, [])), Counter(user.entries.values())
                if there != told:
                    lost.append(f"{user.name}: not there {list(told - there)}, never told of {list(there - told)}")
                if user.erased:
                    left.update(await left_of_user(world.strata, tenant, user.name))
        return found, lost, dict(left)


async def _finish(world: World, keys: dict[str, str], user: User) -> None:
    from tests.end_to_end.harness import Tenant

    until = time.monotonic() + SETTLE_S
    while user.under_way is not None:
        assert time.monotonic() < until, f"{user.under_way.kind} is put off for ever"
        answer = await request(world.strata, Tenant(world.strata, user.tenant, keys[user.tenant]), user.under_way)
        acknowledged(user, user.under_way, answer.status_code, answer.json() if answer.content else None)
        await asyncio.sleep(0.2)


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counter.items())) or "none"
