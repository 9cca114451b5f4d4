"""How fast models are asked by several processes: one pause for all, and never faster than agreed."""

import asyncio
import os
from collections.abc import AsyncGenerator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gencode.agent.ports import Request
from gencode.core.errors import ProviderError
from gencode.core.messages import EndPart, Part, TextPart
from gencode.providers.database_pacing import PacedProvider
from tests.postgres import Postgres

pytestmark = pytest.mark.needs("postgres")

MODEL = "vendor/model"
REQUEST = Request("model", "", (), ())


class Refusing:
    """A provider that answers, or says that it was asked too much."""

    def __init__(self, *troubles: ProviderError) -> None:
        self._troubles = list(troubles)

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        if self._troubles:
            raise self._troubles.pop(0)
        yield TextPart("hi")
        yield EndPart("model")


async def asked(provider: PacedProvider) -> list[Part]:
    return [part async for part in provider.stream(REQUEST)]


async def test_what_one_process_is_refused_makes_all_wait(postgres: Postgres) -> None:
    from gencode.stores.pg_fleet import FleetStore

    url = postgres.new_schema()
    one, other = await FleetStore.open(url), await FleetStore.open(url)
    calm = await asked(PacedProvider(Refusing(), other.pace, MODEL))
    assert calm == [TextPart("hi"), EndPart("model")]
    limited = ProviderError("too much", retryable=True, retry_after=100.0, limited=True)
    with pytest.raises(ProviderError, match="too much"):
        await asked(PacedProvider(Refusing(limited), one.pace, MODEL))
    waits, mine = await other.pace.take(MODEL)
    assert (mine, 90 < waits <= 100) == (False, True)
    waiting = asyncio.ensure_future(asked(PacedProvider(Refusing(), other.pace, MODEL)))
    done, _ = await asyncio.wait([waiting], timeout=0.3)
    assert not done
    waiting.cancel()
    assert await asked(PacedProvider(Refusing(), other.pace, "vendor/another")) == calm
    await one.close()
    await other.close()


@pytest.mark.parametrize(
    "trouble",
    [
        ProviderError("busy", retryable=True),
        ProviderError("no", limited=True),
        ProviderError("tomorrow", retryable=True, limited=True, retry_after=86_400.0),
    ],
)
async def test_other_trouble_is_nobody_elses(postgres: Postgres, trouble: ProviderError) -> None:
    from gencode.stores.pg_fleet import FleetStore

    store = await FleetStore.open(postgres.new_schema())
    with pytest.raises(ProviderError):
        await asked(PacedProvider(Refusing(trouble), store.pace, MODEL))
    assert await store.link.fetch("SELECT 1 FROM gen_pace") == []
    await store.close()


@settings(
    max_examples=int(os.environ.get("GEN_EXAMPLES", "4")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    rate=st.floats(0.5, 50),
    askers=st.integers(1, 3),
    each=st.integers(1, 6),
    pause=st.sampled_from([0.0, 3.0]),
)
def test_places_in_line_are_never_closer_than_the_rate_allows(
    postgres: Postgres, rate: float, askers: int, each: int, pause: float
) -> None:
    asyncio.run(check_places(postgres.new_schema(), rate, askers, each, pause))


async def check_places(url: str, rate: float, askers: int, each: int, pause: float) -> None:
    from gencode.stores.pg_fleet import FleetStore

    stores = [await FleetStore.open(url) for _ in range(askers)]
    if pause:
        await stores[0].pace.refuse(MODEL, pause)
    taken = await asyncio.gather(*(store.pace.take(MODEL, rate) for store in stores for _ in range(each)))
    [row] = await stores[0].link.fetch(
        "SELECT extract(epoch FROM next_at - clock_timestamp())::float8 FROM gen_pace"
    )
    mine = [waits for waits, kept in taken if kept]
    assert all(0 <= waits <= 10 for waits in mine)
    assert all(waits > 10 for waits, kept in taken if not kept)
    slower = min(rate, 1.01) if pause else rate
    if pause:
        assert all(waits >= pause - 1 for waits in mine)
    assert row[0] >= (pause - 1 if pause else -1) + (len(mine) / slower if len(mine) > 1 else 0) - 1
    for store in stores:
        await store.close()


async def test_every_further_refusal_makes_it_slower_and_longer(postgres: Postgres) -> None:
    from gencode.stores.pg_fleet import FleetStore

    store = await FleetStore.open(postgres.new_schema())
    seen: list[tuple[int, float, float]] = []
    for _ in range(4):
        await store.pace.refuse(MODEL, 0.0)
        [row] = await store.link.fetch(
            "SELECT refusals, rate, extract(epoch FROM paused_until - now())::float8 FROM gen_pace"
        )
        seen.append((row[0], round(row[1], 2), round(row[2])))
        await store.pace.refuse(MODEL, 0.0)  # what was on its way says nothing new
        await store.link.fetch("UPDATE gen_pace SET paused_until = clock_timestamp() - interval '1 ms'")
    assert seen == [(1, 1.0, 1), (2, 0.5, 2), (3, 0.25, 4), (4, 0.13, 8)]
    await store.link.fetch("UPDATE gen_pace SET calm_at = clock_timestamp()")
    await store.pace.refuse(MODEL, 0.0)
    [row] = await store.link.fetch("SELECT refusals, rate FROM gen_pace")
    assert (row[0], row[1]) == (1, 1.0)
    await store.close()
