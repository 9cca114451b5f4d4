"""Formats numbers: tokens, money, durations, turns and bars of budgets."""

from datetime import datetime

from msgspec import Struct

from gencode.core.budget import Budget
from gencode.core.ids import moment
from gencode.core.messages import Usage
from gencode.core.text import counted as counted

FULL, EMPTY = "█", "░"


class BudgetBar(Struct, frozen=True):
    """How much of one budget is spent, in its own unit."""

    kind: str
    used: float
    limit: float

    @property
    def share(self) -> float:
        """How much of it is spent, from 0 to 1."""
        return min(self.used / self.limit, 1.0) if self.limit > 0 else 1.0


def number(amount: float) -> str:
    """A count in few characters, however large it is."""
    if amount < 1_000:
        return f"{amount:.0f}"
    if amount < 999_500:
        return f"{amount / 1_000:.1f}k" if amount < 99_950 else f"{amount / 1_000:.0f}k"
    if amount < 999_950_000:
        return f"{amount / 1_000_000:.1f}M"
    return f"{amount / 1e9:.1f}B" if amount < 999.95e9 else f"{amount:.0e}"


def tokens(usage: Usage, *, unit: bool = True) -> str:
    """All tokens of some work; without the `unit` where there is little room."""
    return f"{number(usage.input_tokens + usage.output_tokens)}{' tokens' if unit else ''}"


def money(usd: float | None) -> str:
    """What some work cost; nothing where that is not known."""
    if usd is None:
        return ""
    if 0 < usd < 0.1:
        return f"${usd:.4f}" if usd >= 0.0001 else "<$0.0001"
    return f"${usd:.2f}" if usd < 1_000_000 else f"${number(usd)}"


def bars(budget: Budget, spent: Usage, turns: int, spawns: int) -> list[BudgetBar]:
    """One bar for every bound that a budget has."""
    used = {
        "turns": float(turns),
        "tokens": float(spent.input_tokens + spent.output_tokens),
        "usd": spent.usd or 0.0,
        "spawns": float(spawns),
    }
    limits = {"turns": budget.turns, "tokens": budget.tokens, "usd": budget.usd, "spawns": budget.spawns}
    return [BudgetBar(kind, used[kind], float(limit)) for kind, limit in limits.items() if limit is not None]


def bar_text(bar: BudgetBar, width: int = 8) -> str:
    """A bar in characters, with its numbers."""
    full = round(bar.share * width)
    amount = f"{money(bar.used)}/{money(bar.limit)}" if bar.kind == "usd" else _counted(bar)
    return f"{FULL * full}{EMPTY * (width - full)} {amount}"


def _counted(bar: BudgetBar) -> str:
    if bar.kind == "seconds":
        return f"{_time(bar.used)}/{_time(bar.limit)} seconds"
    unit = "agents" if bar.kind == "spawns" else bar.kind
    return f"{number(bar.used)}/{number(bar.limit)} {unit}"


def _time(amount: float) -> str:
    """Seconds with as much behind the point as matters."""
    return f"{amount:.3g}" if amount < 10 else f"{amount:,.1f}".removesuffix(".0")


def seconds(elapsed: float, *, whole: bool = False) -> str:
    """A duration as a person reads it; of what goes on, in whole seconds."""
    if elapsed < 60:
        return f"{int(elapsed)} s" if whole else f"{elapsed:.1f} s"
    return f"{int(elapsed) // 60} min {int(elapsed) % 60} s"


def ordinal(number: int) -> str:
    """A place in a queue: 1st, 2nd, 3rd, 4th."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def local_time(at: str) -> str:
    """A moment of the journal in local time, for lists; their head names the zone."""
    return moment(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def local_zone() -> str:
    """The name of the local time zone."""
    return datetime.now().astimezone().tzname() or "local"


def turns(number: int) -> str:
    """A number of turns."""
    return counted(number, "turn")
