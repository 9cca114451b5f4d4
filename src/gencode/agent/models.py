"""Resolves model names: tiers, aliases, providers and inheritance."""

from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from msgspec import Struct

from gencode.agent.ports import Provider, Request
from gencode.core.errors import ProviderError, UnknownName, UserMistake
from gencode.core.messages import Part
from gencode.core.spec import AgentSpec, Effort
from gencode.core.structs import replace

TIERS = ("fast", "balanced", "powerful")
OFFLINE = "offline-search"
OWN = "own"
"""The name of a provider that the embedding program supplies."""
_TEXT_ONLY = (OFFLINE, "deepseek/", "local/")
ALIASES = {"haiku": "fast", "sonnet": "balanced", "opus": "powerful"}

MakeProvider = Callable[[str], Provider]
"""Makes the provider for what follows `PROVIDER/` or `scripted:` in a model's name."""
_elsewhere: ContextVar[bool] = ContextVar("elsewhere", default=False)


@contextmanager
def elsewhere(*, far: bool) -> Generator[None]:
    """Within it, if `far`, models count that cannot be called from here: a worker will call them."""
    token = _elsewhere.set(far or _elsewhere.get())
    try:
        yield
    finally:
        _elsewhere.reset(token)


class Absent:
    """Stands for a model that only another machine can call."""

    def __init__(self, why: str) -> None:
        self._why = why

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """It cannot be called."""
        raise ProviderError(f"{request.model} cannot be called from here: {self._why}")
        yield


class Model(Struct, frozen=True, gc=False):
    """A model that can answer: the name that was asked for, the resolved name, and its provider."""

    asked: str
    name: str
    provider: Provider
    binding: bool = False
    warnings: tuple[str, ...] = ()
    why: str = ""
    effort: Effort | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    """How many tokens a reply has at most; None is the provider's own limit."""
    mark: str = ""
    """Tells it apart from others of the same name: a program's own has only the name of its class."""

    @property
    def whose(self) -> str:
        """Identifies the provider for the cache: its mark, or else its address."""
        return self.mark or getattr(self.provider, "address", "")

    @property
    def lasting(self) -> str:
        """The name by which another or a later process resolves the same model."""
        return "offline" if self.name == OFFLINE else self.name

    @property
    def absent(self) -> bool:
        """Whether only another machine can call it."""
        return isinstance(self.provider, Absent)

    @property
    def sees(self) -> bool:
        """Whether it accepts images; False only if it is known to accept text only."""
        return sees(self.name)

    def for_agent(self, spec: AgentSpec) -> "Model":
        """This model with the settings of an agent's file; for others the parent's settings stay."""
        return replace(
            self,
            effort=spec.effort or self.effort,
            temperature=self.temperature if spec.temperature is None else spec.temperature,
            max_tokens=spec.max_tokens or self.max_tokens,
        )


def sees(model: str) -> bool:
    """Whether a model accepts images; False only if it is known to accept text only."""
    return not model.startswith(_TEXT_ONLY)


class ModelRegistry:
    """Resolves model names. `makers` are the known providers; `tiers` and `max_tokens` are settings."""

    def __init__(
        self,
        makers: Mapping[str, MakeProvider],
        tiers: Mapping[str, str],
        max_tokens: int | None = None,
    ) -> None:
        self._makers = makers
        self._tiers = tiers
        self._max_tokens = max_tokens
        self._made: dict[str, Provider] = {}

    def names(self) -> list[str]:
        """Every complete name that can be resolved, for lists and suggestions."""
        providers = [f"{name}/MODEL" for name in self._makers if name not in ("offline", "scripted")]
        return ["inherit", *TIERS, *ALIASES, "offline", "scripted:FILE", *providers]

    def resolve(self, asked: str, parent: Model | None = None, *, from_file: bool = False) -> Model:
        """The model for a name. A child of a binding parent (offline, scripted) always gets its parent's.

        An unknown name is an error, except in an agent's file: there it means the parent's model, with a
        warning.
        """
        if parent is not None and parent.binding and not from_file:
            self._check_form(asked)
        if parent is not None and (parent.binding or asked in ("", "inherit")):
            return replace(parent, asked=asked or "inherit", warnings=(), why="")
        if parent is not None and not from_file and self._unset(asked):
            note = f"no model is set for the tier {asked!r}, so it used its parent's model {parent.name}"
            return replace(parent, asked=asked, warnings=(note,), why="")
        try:
            found = self._known(asked, far=_elsewhere.get() and not from_file)
            return replace(found, max_tokens=self._max_tokens if parent is None else parent.max_tokens)
        except UserMistake as mistake:
            if parent is None or not from_file:
                raise
            warning = f"the model {asked!r} of the agent's file was not used: {mistake}"
            return replace(parent, asked=asked, warnings=(warning,), why="")

    def again(self, name: str) -> Model:
        """The model of an earlier run, by the name it had then."""
        return self.resolve("offline" if name == OFFLINE else name)

    def _check_form(self, asked: str) -> None:
        """UserMistake for a name that no model can have; whether a model is set up is not checked."""
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

    def _unset(self, asked: str) -> bool:
        """Whether this is a tier without a model in the settings."""
        tier = ALIASES.get(asked.casefold(), asked.casefold())
        return tier in TIERS and tier not in self._tiers

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
            from gencode.agent.model_names import model_called

            meant = model_called(name)
            known = meant != name and meant.partition("/")[0] in self._makers
            raise UnknownName("model", asked, self.names(), meant if known else "")
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
