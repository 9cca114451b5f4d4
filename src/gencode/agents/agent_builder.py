"""Builds an agent from the fields of its file, in the same way for every dialect."""

from pathlib import PurePath
from typing import Any, cast, get_args

from gencode.agents.agent_fields import MOST_WARNINGS, Fields
from gencode.agents.dialect import ALL, AgentFile, AllTools, Dialect, ParsedFile, mode_called
from gencode.agents.file_errors import FileFinding
from gencode.agents.permission_rules import with_permissions, without_refused
from gencode.agents.tool_lists import EVERY, RequestedTools, ToolSelector, denials, listed, requested_tools
from gencode.core.budget import Budget, allowed, amount_of
from gencode.core.errors import UserMistake
from gencode.core.rules import Action, Mode, Rule, merge, parse_mode, parse_rule, written_in
from gencode.core.spec import AgentSpec, Effort, Isolation, same_name
from gencode.core.structs import replace
from gencode.core.text import one_line

MOST_TURNS = 10_000
MAX_TOKENS = range(1, 10_000_001)
RESULT_CAPS = range(100, 100_001)
MOST_FINDINGS = 100
NO_AGENT = "it has neither name nor description, so it is no agent"

_EFFORTS: dict[str, Effort] = {effort: effort for effort in get_args(Effort)}
_MORE_EFFORT = ("xhigh", "max")
"""What other products know above the most there is here."""
_LESS_EFFORT = ("minimal",)
_NO_EFFORT = ("none", "off", "inherit", "default")
_MEMORIES = ("user", "project", "local")
_QUIET = frozenset(
    ("name-differs", "name-missing", "unknown-field", "model-mapped", "tool-retired", "budget-unpriced")
)
"""Warnings that the linter shows and a listing leaves out, for files of other products."""
_LINTERS = "empty-body"
INHERIT = "inherit"


def build_agent(
    parsed: ParsedFile, dialect: Dialect, path: str, *, builtin: bool = False
) -> tuple[AgentSpec, AgentFile]:
    """The agent of a file, alone and with what was noticed.

    UserMistake with the file, the reason and the line where possible.
    """
    parsed = dialect.prepare(parsed)
    fields = Fields(parsed.fields, dialect.fields, path, parsed.lines, dialect.strict)
    fields.findings += parsed.repaired
    if not ({"name", "description", "when-to-use"} & fields.values.keys() or dialect.nameless):
        fields.refuse("name", NO_AGENT)
    try:
        wanted = (dialect.wanted or requested_tools)(fields)
        if wanted.allow and any(each.casefold() in dialect.every for each in wanted.allow):
            wanted = wanted._replace(allow=None)
        making = _SpecBuilder(fields, dialect)
        rules = making.rules()
        wanted = without_refused(wanted, fields)
        spec = making.spec(wanted, parsed.body, builtin)
        spec = dialect.finish(replace(spec, rules=merge(rules, spec.rules)), fields)
        spec = with_permissions(spec, fields) if "permission" in fields.values else spec
        spec = replace(spec, extra=fields.extra, warnings=_told(fields.findings, dialect))
    except UserMistake:
        fields.check()
        raise
    fields.check()
    return spec, AgentFile(
        path=path,
        dialect=dialect.name,
        spec=spec,
        stage=parsed.stage,
        findings=tuple(fields.findings[:MOST_FINDINGS]),
        tools=_written(wanted.allow),
        disallowed=list(wanted.deny),
        model=_model_written(fields.values.get("model")),
    )


def _written(allow: tuple[str, ...] | None) -> list[str] | AllTools:
    return ALL if allow is None or EVERY in allow else list(allow)


def _model_written(value: Any) -> str | list[str] | None:
    if isinstance(value, list):
        return [str(each) for each in cast("list[Any]", value)]
    return None if value is None else str(value)


def _told(findings: list[FileFinding], dialect: Dialect) -> tuple[str, ...]:
    quiet = () if dialect.strict else _QUIET
    told = [each.message for each in findings if each.code != _LINTERS and each.code not in quiet]
    rest = len(told) - MOST_WARNINGS
    return (*told[:MOST_WARNINGS], *([f"and {rest} more warnings"] if rest > 0 else []))


class _SpecBuilder:
    """One file on its way to a spec."""

    def __init__(self, fields: Fields, dialect: Dialect) -> None:
        self._fields = fields
        self._dialect = dialect

    def spec(self, wanted: RequestedTools, body: str, builtin: bool) -> AgentSpec:
        fields, plain = self._fields, AgentSpec("", "")
        name = fields.name(self._dialect.called(PurePath(fields.path)))
        if same_name(name) == "main" and not builtin:
            fields.say("name-taken", "the name main is that of the conversation itself, so it cannot be used")
        description = self._description()
        dialect = self._dialect
        chooser = ToolSelector(
            fields.path, dialect.families, servers=dialect.servers, modules=dialect.modules
        )
        tooling = chooser.choose(wanted, self._mode())
        if tooling.refused and dialect.strict:
            fields.refuse(
                "tools", f"there is no tool {one_line(tooling.refused, 64)!r} that it could take away"
            )
        fields.findings += tooling.findings
        choice = tooling.choice
        if dialect.registered and EVERY in (wanted.allow or ()):
            choice = replace(choice, also=(EVERY,))
        prompt = fields.visible("text", "\n\n".join(filter(None, (fields.text("prompt"), body))))
        if not prompt:
            fields.say("empty-body", "it has no text, so its description is all it is told")
        return AgentSpec(
            name=name,
            description=description,
            prompt=prompt,
            tools=choice,
            model=self._model(),
            mode=tooling.mode,
            max_turns=fields.number("max-turns", range(1, MOST_TURNS + 1), plain.max_turns),
            result_cap=fields.number("result-cap", RESULT_CAPS, None) or plain.result_cap,
            rules=tooling.rules,
            source=fields.path,
            builtin=builtin,
            effort=self._effort(),
            override=fields.truth("override"),
            dialect=self._dialect.name,
            sends=self._sends(tooling.sends),
            background=fields.truth("background"),
            isolation=self._isolation(),
            output_schema=self._schema(),
            budget=self._budget(),
            initial_prompt=fields.visible("initial prompt", fields.text("initial-prompt")),
            skills=tuple(listed(fields.values.get("skills")) or ()),
            mcp_servers=self._servers(),
            memory=self._one_of("memory", _MEMORIES),
            hooks=self._hooks(),
            colour=fields.word("colour"),
            hidden=fields.truth("hidden"),
            instructions=fields.truth("instructions", default=True),
            temperature=fields.decimal("temperature", 0, 2),
            max_tokens=fields.number("max-tokens", MAX_TOKENS, None),
            display_name=fields.visible("display name", fields.word("display-name")),
        )

    def _description(self) -> str:
        fields = self._fields
        when = fields.visible("description", fields.text("when-to-use"))
        if not when:
            return fields.description()
        if "description" not in fields.values:
            return when
        return f"{fields.description()}\n{when}".strip()

    def _mode(self) -> Mode | None:
        fields = self._fields
        word = fields.word("permission-mode")
        if not word:
            unusable = fields.values.get("permission-mode") is not None
            return Mode.PLAN if unusable else None
        if self._dialect.strict:
            try:
                return parse_mode(word)
            except UserMistake as error:
                fields.wrong("permission-mode", str(error))
                return Mode.PLAN
        mode, known = mode_called(word, self._dialect.modes)
        if not known:
            said = f"there is no permission mode {one_line(word, 64)!r}; it was read as {mode}"
            fields.say("mode-unknown", said, fields.line("permission-mode"))
        elif mode is Mode.DONT_ASK:
            said = f"{one_line(word, 64)} lets it act without asking, once a person grants it"
            fields.say("mode-wide", said, fields.line("permission-mode"))
        return mode

    def _model(self) -> str:
        fields = self._fields
        value = fields.values.get("model")
        if isinstance(value, list) and not self._dialect.strict:
            several = [each for each in cast("list[Any]", value) if isinstance(each, str)]
            fields.values["model"] = _first_known(several)
        word = fields.word("model")
        if self._dialect.strict:
            return word or INHERIT
        from gencode.agent.model_names import is_known, model_called  # only files of others need these

        name = model_called(word)
        line = fields.line("model")
        if not is_known(word):
            said = f"the model {one_line(word, 64)!r} is not known here; its parent's is used"
            fields.say("model-unknown", said, line)
        elif name.casefold() != word.casefold() and name != INHERIT:
            fields.say("model-mapped", f"the model {one_line(word, 64)} was read as {name}", line)
        return name

    def _effort(self) -> Effort | None:
        fields = self._fields
        word = fields.word("effort").casefold()
        if word in _MORE_EFFORT:
            said = f"effort {word} was read as high, which is the most there is here"
            fields.say("effort-read", said, fields.line("effort"))
            return "high"
        if word in _LESS_EFFORT:
            return "low"
        problem_only = word in _NO_EFFORT and not self._dialect.strict
        if word and word not in _EFFORTS and not problem_only:
            known = ", ".join(_EFFORTS)
            fields.wrong("effort", f"effort must be one of {known}, not {one_line(word, 64)!r}")
        return _EFFORTS.get(word)

    def rules(self) -> tuple[Rule, ...]:
        """`permissions` with allow, ask and deny. In files of others anything else there speaks of tools."""
        fields = self._fields
        if self._dialect.strict and "permission" in fields.values:
            fields.refuse(
                "permission", "there is no field permission; write permissions with allow, ask, deny"
            )
        value = fields.values.get("permissions")
        if value is None:
            return ()
        actions = tuple(map(str, Action))
        lists: dict[str, Any] = {}
        rest: Any = value
        if isinstance(value, dict):
            parts = cast("dict[str, Any]", value)
            strict = self._dialect.strict
            called = {key: key if strict else key.strip().casefold() for key in parts}
            lists = {called[key]: each for key, each in parts.items() if called[key] in actions}
            rest = {key: each for key, each in parts.items() if called[key] not in actions}
        if rest and self._dialect.strict:
            odd = one_line(next(iter(cast("Any", rest))), 64) if isinstance(rest, dict) else ""
            said = f"permissions has no part {odd!r}, only" if odd else "permissions must hold"
            fields.refuse("permissions", f"{said} {', '.join(actions)}")
        if rest:
            if "permission" in fields.values:
                fields.refuse("permissions", "permission and permissions are both given; keep one of them")
            fields.values["permission"] = rest
        return tuple(self._rule(text, action) for action in Action for text in self._ruled(lists, action))

    def _ruled(self, lists: dict[str, Any], action: Action) -> list[str]:
        """The rules of an action. What would narrow is taken from every shape."""
        value = lists.get(action)
        if action is Action.ALLOW or self._dialect.strict:
            return self._fields.texts("permissions", value)
        return denials(value)

    def _rule(self, text: str, action: Action) -> Rule:
        try:
            return parse_rule(text, action, written_in(self._fields.path))
        except UserMistake as error:
            self._fields.refuse("permissions", str(error))

    def _sends(self, named: tuple[str, ...] | None) -> tuple[str, ...] | None:
        value = self._fields.values.get("sends")
        if value is None:
            return named
        if isinstance(value, dict):
            value = list(cast("dict[str, Any]", value))
        found = None if type(value) in (int, float) else listed(value)
        if found is None:
            self._fields.wrong("sends", "sends must be names of agents")
        names = tuple(found or ())
        if EVERY in names:
            return named
        both = names if named is None else tuple(each for each in named if each in names)
        if named and names and not both:
            said = "sends and Task(…) name different agents, so it may start none"
            self._fields.say("sends-none", said, self._fields.line("sends"))
        return both

    def _isolation(self) -> Isolation:
        known: dict[str, Isolation] = {"process": "process", "worktree": "worktree"}
        return known.get(self._one_of("isolation", tuple(known)), "")

    def _one_of(self, field: str, known: tuple[str, ...]) -> str:
        word = self._fields.word(field)
        if word and word not in known:
            self._fields.wrong(field, f"{field} must be one of {', '.join(known)}")
            self._fields.keep(field)
            return ""
        return word

    def _schema(self) -> dict[str, Any] | None:
        fields = self._fields
        value = fields.values.get("output-schema")
        if isinstance(value, str):
            import msgspec

            try:
                value = msgspec.json.decode(value.encode(errors="replace"))
            except (msgspec.DecodeError, RecursionError):
                value = None
                fields.wrong("output-schema", "output-schema is not JSON")
        if value is not None and not isinstance(value, dict):
            fields.wrong("output-schema", "output-schema must be a JSON Schema")
            return None
        return cast("dict[str, Any] | None", value)

    def _budget(self) -> Budget:
        parts = self._fields.mapping("budget") or {}
        known = Budget.__struct_fields__
        found: dict[str, Any] = {}
        for part, value in parts.items():
            if part not in known:
                self._fields.wrong(
                    "budget", f"budget has no part {one_line(part, 64)!r}, only {', '.join(known)}"
                )
                continue
            found[part] = amount_of(part, value)
            if found[part] is None:  # no limit at all would be the widest reading
                self._fields.refuse("budget", f"budget.{part} must be {allowed(part)}")
        return Budget(**found)

    def _servers(self) -> tuple[Any, ...]:
        """Names of servers, and servers of its own as `{name: how to reach it}`."""
        value = self._fields.values.get("mcp-servers")
        if isinstance(value, dict):
            return tuple({name: how} for name, how in cast("dict[str, Any]", value).items())
        if isinstance(value, list):
            several = cast("list[str | dict[str, Any] | None]", value)
            return tuple(each for each in several if isinstance(each, str | dict))
        return tuple(listed(value) or ())

    def _hooks(self) -> dict[str, Any]:
        fields = self._fields
        value = fields.values.get("hooks")
        if value in (None, {}, []):
            return {}
        from gencode.agent.hook_settings import GUARD, parse_hooks

        if not isinstance(value, dict):  # whatever it guards must not go unguarded
            value = {GUARD: value}
        events = cast("dict[str, Any]", value)
        found = parse_hooks(events, of_agent=True)
        if found.lost and self._dialect.strict:
            fields.refuse("hooks", found.lost[0])
        for finding in found.findings:
            fields.say("hooks-shape", finding, fields.line("hooks"))
        return events


def _first_known(names: list[str]) -> str | None:
    from gencode.agent.model_names import is_known

    return next(filter(is_known, names), names[0] if names else None)
