from msgspec.structs import replace
from gencode.core.rules import Action, Decision, Mode
from gencode.runtime.gate import Gate
from gencode.mcp.tool import ServerTool
import pytest
from tests.mcp.conftest import fleet
from tests.mcp.fleet import Fleet, offer
from tests.mcp.test_in_a_conversation import *

@pytest.fixture(autouse=True)
def patched(monkeypatch):
    old = Gate.judge
    def judge(self, call):
        decision = old(self, call)
        tool = self.toolbox[call.name] if call.name in self.toolbox else None
        if decision.action is Action.ALLOW and isinstance(tool, ServerTool) and (doubt := tool.doubt()):
            nobody = self.background or self.asker is None or any(p.mode is Mode.UNATTENDED for p in self.chain)
            return Decision(Action.DENY if nobody else Action.ASK, doubt, lifts="a person's yes")
        return decision
    monkeypatch.setattr(Gate, "judge", judge)

async def test_asked_in_dont_ask(fleet: Fleet):
    table = fleet.odd(tools=offer("one"))
    before = await fleet.open(odd=table)
    await told(fleet, before, None, DO_ONE, mode="dontAsk")
    await before.close()
    fleet.tell(tools=offer("one", description="Something else."))
    servers = await fleet.open(odd=table)
    person = Person(True)
    assert [e for _, e in await told(fleet, servers, person, DO_ONE, DO_ONE, mode="dontAsk")] == [False, False]
    assert len(person.questions) == 1
    print(person.questions[0].decision)
