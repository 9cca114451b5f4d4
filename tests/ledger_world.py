"""A world of tasks that spend from budgets: random trees, calls, kills and limits on the stores of a ledger.

After every step `World.check` compares the ledger with the journals and with what is in flight here.
"""

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from gencode.budgets.ledger import Account, BudgetSpent, Granted, Hold, Shortage, Wait
from gencode.budgets.limits import NANO, cost_of, in_units, limited
from gencode.core.budget import Budget
from gencode.core.events import CostEstimated, MessageAdded, TaskCreated, TaskEnded, TaskStarted
from gencode.core.messages import AssistantMessage, Usage
from gencode.core.status import DIED, EndReason, Status
from gencode.core.task import Task
from gencode.journal.store import Lease, Store, TaskQuery

ROUNDS = int(os.environ.get("GEN_EXAMPLES", "3"))
KINDS: tuple[str, ...] = ("turns", "tokens", "usd", "spawns")
MOST_AGENTS = 14
DEAREST = 40
"""So many tokens a call costs at most, but for one that is alone, which may cost thrice as many."""


@dataclass
class Flight:
    """A call that is made: what it holds (nothing where no budget bounds it), and what it will cost."""

    need: dict[str, int]
    cost: int
    bounded: bool
    path: tuple[str, ...]


@dataclass
class Agent:
    """A task at work in one of the processes."""

    lease: Lease
    process: int
    flight: Flight | None = None
    waits: Hold | None = None


@dataclass
class Watched:
    """What an account may come to: its limit, or what it had come to when that was set, and one call."""

    limit: int
    allowed: int
    before: set[str] = field(default_factory=set[str])
    """Those whose calls were in flight then; what these cost does not count."""
    dearest: int = 0
    """What one call has cost at most since then."""


class World:
    """Some processes with a store each, on one database."""

    def __init__(self, stores: Sequence[Store], seed: int) -> None:
        self.stores = stores
        self.random = random.Random(seed)
        self.agents: dict[str, Agent] = {}
        self.dead: dict[str, Agent] = {}
        self.ended: list[str] = []
        self.sessions: list[str] = []
        self.paid: dict[str, str] = {}
        """The sessions of the tops of trees."""
        self.watched: dict[tuple[str, str], Watched] = {}
        self.granted = self.refused = self.waited = 0

    @property
    def store(self) -> Store:
        """That of anybody."""
        return self.random.choice(self.stores)

    async def run(self, steps: int) -> None:
        """So many steps, then everything in flight lands and everybody who waits proceeds."""
        for number in range(2):
            self.sessions.append(f"session-{number}")
        await self.limit(self.sessions[0])
        await self.start()
        deeds = (
            *(self.start, self.start, self.start, *[self.call] * 14, *[self.land] * 6),
            *(self.break_off, self.give_up, self.end, self.resume, self.kill, self.recover, self.limit),
            self.lower,
        )
        for _ in range(steps):
            await self.random.choice(deeds)()
            await self.check()
        await self.drain()

    def budget(self) -> Budget:
        """Some budget, perhaps none."""
        if self.random.random() < 0.5:
            return Budget()
        found: dict[str, int | float] = {}
        for kind in self.random.sample(KINDS, self.random.randint(1, 2)):
            least, most = {"turns": (3, 20), "tokens": (50, 600), "usd": (50, 600), "spawns": (0, 15)}[kind]
            amount = self.random.randint(least, most)
            found[kind] = amount / 1000 if kind == "usd" else amount
        return Budget(**found)  # pyright: ignore[reportArgumentType]

    async def start(self) -> None:
        """Somebody begins a task, or an agent sends one."""
        if len(self.agents) >= MOST_AGENTS:
            return
        parent = self.random.choice([*self.agents, None])
        process = self.random.randrange(len(self.stores))
        top = parent is None
        fact = TaskCreated(
            parent=parent, conversation=top and self.random.random() < 0.3, budget=self.budget()
        )
        session = self.random.choice([*self.sessions, ""]) if top and not fact.conversation else ""
        try:
            lease = await self.stores[process].create(
                fact, f"p{process}", [TaskStarted(model="m")], session=session
            )
        except BudgetSpent:
            self.refused += 1
            return
        self.agents[lease.task] = Agent(lease, process)
        self.paid[lease.task] = session
        for kind, limit in limited(fact.budget).items():
            self.watched[lease.task, kind] = Watched(limit, limit)

    async def call(self) -> None:
        """An agent asks its model, or asks again whether it may."""
        agent = self.idle()
        if agent is None:
            return
        ledger = self.stores[agent.process].ledger
        hold = agent.waits
        if hold is None:
            tokens = self.random.randint(1, DEAREST)
            need = {"turns": 1, "tokens": tokens, "usd": tokens * NANO // 1000}
            hold = Hold(agent.lease.task, agent.lease.path, need, agent.lease.owner)
            left = await ledger.left(hold.path)
            if left is None:
                agent.flight = Flight({}, self.random.randint(1, DEAREST), False, hold.path)
                return
        verdict = await ledger.hold(hold)
        agent.waits = None
        if isinstance(verdict, Granted):
            self.granted += 1
            most = hold.need["tokens"] * (3 if verdict.alone else 1)
            need = dict(hold.need) if verdict.bounded else {}
            agent.flight = Flight(need, self.random.randint(1, most), verdict.bounded, hold.path)
        elif isinstance(verdict, Wait):
            self.waited += 1
            agent.waits = hold
            assert self.held_on(verdict.account, hold.task), "somebody has to land for whom it can wait"
            assert hold.task not in verdict.holders
            assert set(verdict.holders) == self.held_on(verdict.account, hold.task)
        else:
            self.refused += 1
            await self.check_short(verdict, hold)

    async def land(self) -> None:
        """A reply comes."""
        if (agent := self.flying()) is not None:
            await self.write(agent, MessageAdded(AssistantMessage("ok", usage=usage(self.landed(agent)))))

    async def break_off(self) -> None:
        """A reply breaks off; what it cost is known, about, and it may be asked for again."""
        if (agent := self.flying()) is not None:
            await self.write(agent, CostEstimated(usage(self.landed(agent))))

    async def give_up(self) -> None:
        """A call is refused and cost nothing."""
        if (agent := self.flying()) is not None:
            path = agent.lease.path
            self.landed(agent)
            held = Hold(agent.lease.task, path, {}, agent.lease.owner)
            await self.stores[agent.process].ledger.release(held)

    async def end(self) -> None:
        """An agent ends, perhaps in the middle of a call."""
        if not self.agents:
            return
        agent = self.agents.pop(self.random.choice([*self.agents]))
        flight = agent.flight
        estimate = [CostEstimated(usage(self.landed(agent)))] if flight is not None else []
        ended = TaskEnded(Status.COMPLETED, reason=EndReason.FINISHED)
        await self.stores[agent.process].append(agent.lease, [*estimate, ended], last=True)
        self.ended.append(agent.lease.task)

    async def resume(self) -> None:
        """A task that has ended goes on in some process, perhaps with another budget."""
        if not self.ended or len(self.agents) >= MOST_AGENTS:
            return
        task = self.random.choice(self.ended)
        process = self.random.randrange(len(self.stores))
        anew = self.budget() if self.random.random() < 0.3 else None
        anew = None if anew == Budget() else anew
        store = self.stores[process]
        lease = await store.take(task, f"p{process}")
        try:
            await store.append(lease, [TaskStarted(budget=anew)])
        except BudgetSpent:
            self.refused += 1
            await store.release(lease)
            return
        self.ended.remove(task)
        self.agents[task] = Agent(lease, process)
        if anew is not None:
            await self.watch(task, anew)

    async def kill(self) -> None:
        """A process dies with all it has in flight."""
        if self.random.random() < 0.7:
            return
        process = self.random.randrange(len(self.stores))
        for task in [each for each, agent in self.agents.items() if agent.process == process]:
            self.dead[task] = self.agents.pop(task)

    async def recover(self) -> None:
        """Somebody closes a task whose process has died; its call counts as what it was to cost at most."""
        if not self.dead:
            return
        task, agent = self.dead.popitem()
        store = self.store
        flight = agent.flight
        lease = await store.take(task, "p9", instead_of=agent.lease.owner)
        if flight is not None:
            flight.cost = min(flight.cost, flight.need.get("tokens", flight.cost))
        facts = [CostEstimated(usage(self.landed(agent)))] if flight is not None else []
        died = TaskEnded(Status.INTERRUPTED, reason=DIED.reason)
        await store.append(lease, [*facts, died], last=True)
        self.ended.append(task)

    async def limit(self, account: str | None = None) -> None:
        """A budget is set, raised, lowered or lifted, from anywhere."""
        known = [*self.agents, *self.ended, *self.dead, *self.sessions]
        account = account or self.random.choice(known)
        budget = self.budget()
        try:
            await self.store.ledger.limit(account, budget)
        except BudgetSpent as short:
            assert short.shortage.account != account
            return
        await self.watch(account, budget)

    async def lower(self) -> None:
        """A limit is lowered to little more than what is spent, whatever is set aside for others."""
        kinds = [(account, kind) for account, kind in self.watched if kind != "spawns"]
        found = [(await self.store.ledger.balance(account), kind) for account, kind in kinds]
        aside = [(each.account, kind) for each, kind in found if each is not None and each.aside.get(kind)]
        if aside:
            account, kind = self.random.choice(aside)
            more = self.random.randint(1, 3) if kind == "turns" else self.random.randint(1, 60) * scale(kind)
            lower = min(account.limits[kind], account.spent.get(kind, 0) + more)
            budget = in_units({**account.limits, kind: lower})
            await self.store.ledger.limit(account.id, budget)
            await self.watch(account.id, budget)

    async def watch(self, account: str, budget: Budget) -> None:
        """See to it that an account keeps to a new budget."""
        spent = (await self.account(account)).spent
        flying = {task for task, agent in (self.agents | self.dead).items() if agent.flight is not None}
        for kind in KINDS:
            self.watched.pop((account, kind), None)
        for kind, limit in limited(budget).items():
            self.watched[account, kind] = Watched(limit, max(limit, spent.get(kind, 0)), set(flying))

    async def drain(self) -> None:
        """Everything lands, and everybody who waits proceeds or hears that the limit is reached."""
        while self.dead:
            await self.recover()
        for _ in range(10_000):
            waiting = [agent for agent in self.agents.values() if agent.waits is not None]
            flying = [agent for agent in self.agents.values() if agent.flight is not None]
            for agent in flying:
                cost = usage(self.landed(agent))
                await self.write(agent, MessageAdded(AssistantMessage("ok", usage=cost)))
            if not waiting and not flying:
                break
            for agent in waiting:
                await self.ask(agent)
            assert flying or any(each.flight or not each.waits for each in waiting), "nobody proceeds"
        await self.check()

    async def ask(self, agent: Agent) -> None:
        """Whether one that waits may go by now."""
        if (hold := agent.waits) is not None:
            verdict = await self.stores[agent.process].ledger.hold(hold)
            if not isinstance(verdict, Wait):
                agent.waits = None
            if isinstance(verdict, Granted):
                agent.flight = Flight(dict(hold.need), 1, verdict.bounded, hold.path)

    async def write(self, agent: Agent, *facts: MessageAdded | CostEstimated) -> None:
        """Commit facts of an agent."""
        await self.stores[agent.process].append(agent.lease, facts)

    def idle(self) -> Agent | None:
        """An agent that may ask its model."""
        found = [agent for agent in self.agents.values() if agent.flight is None]
        return self.random.choice(found) if found else None

    def flying(self) -> Agent | None:
        """An agent whose call is in flight."""
        found = [agent for agent in self.agents.values() if agent.flight is not None]
        return self.random.choice(found) if found else None

    def landed(self, agent: Agent) -> int:
        """What the call of an agent cost, which is no more in flight."""
        flight, agent.flight = agent.flight, None
        assert flight is not None
        for (account, kind), watched in self.watched.items():
            cost = {"turns": 1, "spawns": 0}.get(kind, flight.cost * scale(kind))
            if account in flight.path and agent.lease.task in watched.before:
                watched.allowed += cost
            elif account in flight.path:
                watched.dearest = max(watched.dearest, cost)
            watched.before.discard(agent.lease.task)
        return flight.cost

    def held_on(self, account: str, but: str = "") -> set[str]:
        """Those whose calls hold something on an account, as far as is known here."""
        agents = (self.agents | self.dead).items()
        return {
            task
            for task, agent in agents
            if agent.flight is not None and agent.flight.bounded and account in agent.flight.path
        } - {but}

    async def account(self, account: str) -> Account:
        """An account as the ledger has it; one that has none was never limited."""
        balance = await self.store.ledger.balance(account)
        assert balance is not None
        return balance.account

    async def check_short(self, short: Shortage, hold: Hold) -> None:
        """The limit is reported only when nothing is held, and nothing is left but what others have aside."""
        assert not self.held_on(short.account, hold.task)
        if short.spent >= short.limit:
            return
        below = hold.path[: hold.path.index(short.account)]
        known = [await self.account(each) for each in below if (each, short.kind) in self.watched]
        own = [each for each in known if each.open]
        assert not own or own[-1].unspent(short.kind) == 0, "what was set aside for it was left"
        found = [await self.account(task) for task, _ in self.watched]
        aside = [
            each.unspent(short.kind)
            for each in found
            if each.open and short.account in each.path and short.kind in each.limits
        ]
        assert any(aside), "something is left for nobody"

    async def check(self) -> None:
        """The ledger is what the journals and the calls in flight say, and no limit was exceeded by two."""
        tasks = {task.id: task for task in await self.store.tasks(TaskQuery())}
        for (account, kind), watched in self.watched.items():
            found = await self.account(account)
            assert found.limits[kind] == watched.limit
            assert {each: found.spent.get(each, 0) for each in KINDS} == self.folded(account, tasks)
            holds = [agent.flight for agent in (self.agents | self.dead).values() if agent.flight is not None]
            mine = [flight for flight in holds if flight.bounded and account in flight.path]
            assert found.calls == len(mine)
            for each in ("turns", "tokens", "usd"):
                assert found.held.get(each, 0) == sum(flight.need[each] for flight in mine)
            assert found.spent.get(kind, 0) <= watched.allowed + watched.dearest, "over by more than a call"

    def folded(self, account: str, tasks: dict[str, Task]) -> dict[str, int]:
        """What the journals say was spent from an account."""
        found = dict.fromkeys(KINDS, 0)
        for task in tasks.values():
            if account in self.path(task, tasks):
                for kind, amount in cost_of(task).items():
                    found[kind] += amount
                found["spawns"] += task.id != account
        return found

    def path(self, task: Task, tasks: dict[str, Task]) -> list[str]:
        """A task and those above it, and its session as far as it is known here."""
        path = [task.id]
        while (parent := tasks[path[-1]].parent) is not None:
            path.append(parent)
        return [*path, self.paid.get(path[-1], "")]


def scale(kind: str) -> int:
    """How much of a kind one token is."""
    return NANO // 1000 if kind == "usd" else 1


def usage(tokens: int) -> Usage:
    """What a call of so many tokens cost."""
    return Usage(tokens, 0, usd=tokens / 1000)
