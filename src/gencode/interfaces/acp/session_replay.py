"""An earlier conversation told again, entry by entry, for an editor that opens it (surfaces, ACP)."""

from acp.helpers import update_plan

from gencode.interfaces.acp.call_display import PLAN, fenced, plan_entries
from gencode.interfaces.acp.session_updates import Narrator
from gencode.interfaces.chat.chat_session import ChatSession
from gencode.interfaces.render.transcript import Call, HandedBack, Remark, Reply, Said, Thought, Transcript

MOST_RETOLD = 5_000


async def replay(chat: ChatSession, narrator: Narrator) -> None:
    """Tell the conversation that is open in `chat` from its beginning, and go on from there."""
    script = await chat.transcript(chat.session or "", MOST_RETOLD)
    narrator.lead(chat, script)
    out = narrator.out
    if script.dropped:
        out.note(
            f"{script.dropped} earlier entries are not shown; they are kept: gen sessions show {script.task}"
        )
    for at, entry in enumerate(script.entries, start=script.dropped):
        match entry:
            case Said(text, "user"):
                out.say("user_message_chunk", text)
                out.end()
            case Said(text, sender):
                out.note(f"{sender}: {text[:2_000]}")
            case Thought(text):
                out.say("agent_thought_chunk", text)
            case Reply(text):
                out.say("agent_message_chunk", fenced(text) if entry.verbatim else text)
                out.end()
            case Remark(text):
                out.note(text)
            case Call(tool=tool, state="done") if tool == PLAN:
                pass
            case HandedBack():
                pass  # each stands in the call that sent its agent
            case Call():
                narrator.retell(at, entry)
    _last_plan(script, narrator)
    await out.flush()


def _last_plan(script: Transcript, narrator: Narrator) -> None:
    plans = [entry for entry in script.entries if isinstance(entry, Call) and entry.tool == PLAN]
    if plans and plans[-1].state == "done":
        narrator.out.show(update_plan(plan_entries(plans[-1].input)))
