"""Resolves model names: tiers, aliases, providers and inheritance."""

from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from msgspec import Struct
from msgspec.structs import replace

from gencode.agent.ports import Provider, Request
from gencode.core.errors import ProviderError, UnknownName, UserMistake
from gencode.core.messages import Part
from gencode.core.spec import AgentSpec, Effort

TIERS = ("fast", "balanced", "powerful")
OFFLINE = "offline-search"
OWN = "own"
"""What a provider that a program brought along is asked for as."""
_TEXT_ONLY = (OFFLINE, "deepseek/", "local/")
ALIASES = {"haiku": "fast", "sonnet": "balanced", "opus": "powerful"}

MakeProvider = Callable[[str], Provider]
"""Makes the provider for what stands behind `PROVIDER/` or `scripted:` in a model's name."""
_elsewhere: ContextVar[bool] = ContextVar("elsewhere", default=False)


@contextmanager
def elsewhere(*, far: bool) -> Generator[None]:
    """Within it, if it is `far`, models count that cannot be asked from here: a worker will ask them."""
    token = _elsewhere.set(far or _elsewhere.get())
    try:
        yield
    finally:
        _elsewhere.reset(token)


class Absent:
    """Stands for a model that another machine may ask, and this one cannot."""

    def __init__(self, why: str) -> None:
        self._why = why

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """It has nothing to say."""
        raise ProviderError(f"{request.model} cannot be asked from here: {self._why}")
        yield


class Model(Struct, frozen=True, gc=False):
    """A model that can answer: the name that was asked for, the name it has, who speaks for it."""

    asked: str
    name: str
    provider: Provider
    binding: bool = False
    warnings: tuple[str, ...] = ()
    why: str = ""
    effort: Effort | None = None
    temperature: float | None = None
    mark: str = ""
    """Tells it apart from others of the same name: a program's own has only that of its class."""

    @property
    def whose(self) -> str:
        """Who answers under its name: what sets it apart, or else the address it is asked at."""
        return self.mark or getattr(self.provider, "address", "")

    @property
    def lasting(self) -> str:
        """The name under which another process, or a later one, gets this very model."""
        return "offline" if self.name == OFFLINE else self.name

    @property
    def absent(self) -> bool:
        """Whether it can be asked from another machine only."""
        return isinstance(self.provider, Absent)

    @property
    def sees(self) -> bool:
        """Whether it may be shown pictures; False where it is known to take text only."""
        return sees(self.name)

    def for_agent(self, spec: AgentSpec) -> "Model":
        """This model, asked as an agent's file says; what it does not say stays as its sender has it."""
        if spec.effort is None and spec.temperature is None:
            return self
        warmth = self.temperature if spec.temperature is None else spec.temperature
        return replace(self, effort=spec.effort or self.effort, temperature=warmth)


def sees(model: str) -> bool:
    """Whether the model of this name may be shown pictures; False where it is known to take text only."""
    return not model.startswith(_TEXT_ONLY)


class ModelRegistry:
    """Resolves names. `makers` are the providers there are; `tiers` come from the settings."""

    def __init__(self, makers: Mapping[str, MakeProvider], tiers: Mapping[str, str]) -> None:
        self._makers = makers
        self._tiers = tiers
        self._made: dict[str, Provider] = {}

    def names(self) -> list[str]:
        """Every name that resolves without further words, for lists and for nearest-name errors."""
        providers = [f"{name}/MODEL" for name in self._makers if name not in ("offline", "scripted")]
        return ["inherit", *TIERS, *ALIASES, "offline", "scripted:FILE", *providers]

    def resolve(self, asked: str, parent: Model | None = None, *, from_file: bool = False) -> Model:
        """The model for a name. A child of a binding parent (offline, scripted) always gets its parent's.

        An unknown name is an error, except in an agent's file: there it means inherit, with a warning.
        """
        if parent is not None and parent.binding and not from_file:
            self._check_form(asked)
        if parent is not None and (parent.binding or asked in ("", "inherit")):
            return replace(parent, asked=asked or "inherit", warnings=(), why="")
        try:
            return self._known(asked, far=_elsewhere.get() and not from_file)
        except UserMistake as mistake:
            if parent is None or not from_file:
                raise
            warning = f"the model {asked!r} of the agent's file was not used: {mistake}"
            return replace(parent, asked=asked, warnings=(warning,), why="")

    def again(self, name: str) -> Model:
        """The model that a task was seated with earlier, by the name it had then."""
        return self.resolve("offline" if name == OFFLINE else name)

    def _check_form(self, asked: str) -> None:
        """Refuse a name that no model could have; a model that is not set up is none of its business."""
        maker = asked.partition("/")[0]
        named = asked.casefold() in ("", "inherit", "offline", *TIERS, *ALIASES)
        if not (named or asked.startswith("scripted:") or ("/" in asked and maker in self._makers)):
            raise UnknownName("model", asked, self.names())

    def target(self, asked: str) -> str:
        """What a tier or alias stands for; any other name stands for itself."""
        tier = ALIASES.get(asked.casefold(), asked.casefold())
        if tier not in TIERS:
            return asked
        if tier not in self._tiers:
            raise UserMistake(
                f'No model is set for the tier {tier!r}: name one in settings.toml, [models] {tier} = "…".'
            )
        return self._tiers[tier]

    def _known(self, asked: str, *, far: bool) -> Model:
        name = self.target(asked)
        if name.casefold() == "offline":
            return Model(asked, OFFLINE, self._provider("offline", ""), binding=True)
        if name.startswith("scripted:"):
            return Model(
                asked, name, self._provider("scripted", name.removeprefix("scripted:")), binding=True
            )
        maker, slash, model = name.partition("/")
        if not slash or not model or maker in ("offline", "scripted") or maker not in self._makers:
            raise UnknownName("model", asked, self.names())
        try:
            return Model(asked, name, self._provider(maker, model))
        except UserMistake as mistake:
            if not far:
                raise
            return Model(asked, name, Absent(str(mistake)))

    def _provider(self, maker: str, model: str) -> Provider:
        key = f"{maker}/{model}"
        if key not in self._made:
            self._made[key] = self._makers[maker](model)
        return self._made[key]
