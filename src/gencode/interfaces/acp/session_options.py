"""What can be chosen for a session in an editor: permission modes and models (surfaces, ACP).

Full autonomy has to be named: an editor steps through the modes that it is offered, so `dontAsk` is offered
only where it already counts.
"""

from typing import TYPE_CHECKING

from acp.schema import (
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
)

from gencode.agent.models import TIERS
from gencode.core.errors import UserMistake
from gencode.core.rules import Mode, parse_mode
from gencode.core.visible import visible_line
from gencode.interfaces.chat.info_pages import CYCLE, MODES

if TYPE_CHECKING:
    from gencode.app import GenCode

MODE, MODEL = "mode", "model"
OFFERED = (*CYCLE, Mode.UNATTENDED)
NOT_OFFERED = "Full autonomy has to be named: type /mode dontAsk."


def modes(gen: "GenCode") -> SessionModeState:
    """The modes there are, and the one that counts."""
    now = gen.root.policy.mode
    listed = [SessionMode(id=str(mode), name=str(mode), description=MODES[mode]) for mode in _offered(now)]
    return SessionModeState(current_mode_id=str(now), available_modes=listed)


def options(gen: "GenCode", model: str) -> list[SessionConfigOptionSelect]:
    """The same modes as an option, and the models; `model` is the name that was chosen."""
    now = gen.root.policy.mode
    of_mode = [_option(str(mode), MODES[mode]) for mode in _offered(now)]
    of_model = [_option(name, said) for name, said in models(gen, model)]
    return [
        SessionConfigOptionSelect(
            id=MODE,
            name="Permission mode",
            description="What agents may do without asking",
            category="mode",
            type="select",
            current_value=str(now),
            options=of_mode,
        ),
        SessionConfigOptionSelect(
            id=MODEL,
            name="Model",
            description="Who answers, from the next turn on",
            category="model",
            type="select",
            current_value=model,
            options=of_model,
        ),
    ]


def models(gen: "GenCode", chosen: str) -> list[tuple[str, str]]:
    """The model that answers, and the tiers that stand for one; each with what it is."""
    found = {chosen: _resolved(gen, chosen)}
    for tier in TIERS:
        if name := _resolved(gen, tier):
            found.setdefault(tier, name)
    return list(found.items())


def switch(gen: "GenCode", mode: str) -> Mode:
    """Go on in another mode; UserMistake for one that is not offered."""
    wanted = parse_mode(mode)
    if wanted not in _offered(gen.root.policy.mode):
        raise UserMistake(NOT_OFFERED)
    gen.root.switch(wanted)
    return wanted


def _offered(now: Mode) -> tuple[Mode, ...]:
    return OFFERED if now in OFFERED else (*OFFERED, now)


def _resolved(gen: "GenCode", name: str) -> str:
    try:
        return gen.models.resolve(name).name
    except UserMistake:
        return ""


def _option(value: str, said: str) -> SessionConfigSelectOption:
    return SessionConfigSelectOption(
        value=value, name=visible_line(value, 80), description=visible_line(said)
    )
