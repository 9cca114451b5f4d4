"""The person at an editor: asked by its own dialogs, on behalf of agents at any depth (surfaces, ACP)."""

from collections.abc import Sequence
from typing import Any, Protocol, cast

from acp.exceptions import RequestError
from acp.helpers import text_block, tool_content
from acp.schema import (
    AcceptElicitationResponse,
    AllowedOutcome,
    ElicitationFormSessionMode,
    ElicitationMultiSelectPropertySchema,
    ElicitationSchema,
    ElicitationStringPropertySchema,
    EnumOption,
    PermissionOption,
    PermissionOptionKind,
    TitledMultiSelectItems,
    ToolCallUpdate,
)
from pydantic import ValidationError

from gencode.core.questions import Answer, Inquiry, Question
from gencode.core.rules import DecidedBy
from gencode.core.visible import exact_line, visible, visible_line
from gencode.interfaces.acp.call_display import Shown, fenced
from gencode.interfaces.acp.editor import Editor
from gencode.interfaces.chat.question_text import (
    NOT_ANSWERED,
    answer_from,
    asker_path,
    call_text,
    choices,
    deadline_line,
    empty_answer_text,
    headline,
    inquiry_choices,
    reason,
    rules_text,
)

UNREACHED = "The editor could not ask the person"
LEFT_OPEN = "-"
NO_WORDS = (
    "This editor can only offer answers to choose from; ask in your reply, where the person answers in words"
)


class Desk(Protocol):
    """Where a session shows the call that a question is about."""

    async def asked(self, question: Question) -> Shown:
        """The call, shown to the editor before it is asked about."""
        ...


class EditorPerson:
    """Asks through the permission requests and forms of one editor."""

    def __init__(self, editor: Editor, session: str, desk: Desk) -> None:
        self._editor = editor
        self._session = session
        self._desk = desk

    async def answer(self, question: Question) -> Answer:
        """Ask one question and wait; a no when the editor cannot ask it."""
        try:
            if not question.inquiries:
                return await self._permission(question)
            if self._editor.can_fill_forms:
                return await self._form(question)
            return await self._one_by_one(question)
        except (RequestError, ConnectionError, ValidationError):
            return Answer(False, why=UNREACHED, by=DecidedBy.NOBODY)

    async def confirmed(self, text: str) -> bool:
        """Whether a person says yes to what a command of theirs would hit."""
        call = ToolCallUpdate(tool_call_id=f"{self._session}-confirm", title=exact_line(text), kind="other")
        options = [_option("y", "do it", "allow_once"), _option("n", "no", "reject_once")]
        return await self._chosen(call, options) == "y"

    async def _permission(self, question: Question) -> Answer:
        shown = await self._desk.asked(question)
        words = [f"{headline(question)}:", fenced(call_text(question)), reason(question)]
        if rules := rules_text(question):
            words.append(f"A yes for more than this once allows: {rules}")
        content = [*shown.content, tool_content(text_block("\n\n".join(words)))]
        call = ToolCallUpdate(
            tool_call_id=shown.id,
            title=shown.title,
            kind=shown.kind,
            status="pending",
            content=content,
            locations=list(shown.locations) or None,
            raw_input=shown.raw,
        )
        found = {choice.key: choice for choice in choices(question)}
        options = [_option(key, choice.says, _kind(choice.answer)) for key, choice in found.items()]
        chosen = await self._chosen(call, options)
        return found[chosen].answer if chosen in found else Answer(False)

    async def _form(self, question: Question) -> Answer:
        """One form with a field for each thing an agent wants to know."""
        fields: dict[str, Any] = {}
        for number, inquiry in enumerate(question.inquiries):
            fields[str(number)] = _field(inquiry)
        form = ElicitationFormSessionMode(
            session_id=self._session, requested_schema=ElicitationSchema(properties=fields)
        )
        said = await self._editor.client.create_elicitation(message=_asks(question), mode=form)
        if not isinstance(said, AcceptElicitationResponse):
            return Answer(False, why=NOT_ANSWERED)
        given = said.content or {}
        return answer_from([_worded(given.get(str(number))) for number in range(len(question.inquiries))])

    async def _one_by_one(self, question: Question) -> Answer:
        """Each with a choice of its answers; an editor that cannot fill in forms has no other way."""
        if not all(inquiry.options for inquiry in question.inquiries):
            return Answer(False, why=NO_WORDS, by=DecidedBy.NOBODY)
        words = [await self._picked(question, inquiry) for inquiry in question.inquiries]
        return answer_from(words)

    async def _picked(self, question: Question, inquiry: Inquiry) -> str:
        """The answer that was chosen; where several may be, until a person says that it is enough."""
        left = [label for label, _ in inquiry_choices(inquiry)]
        picked: list[str] = []
        while left:
            enough = "that is all" if picked else f"no answer, which {empty_answer_text(inquiry)}"
            options = [_option(str(number), label, "allow_once") for number, label in enumerate(left)]
            title = f"{asker_path(question)} asks: {visible_line(inquiry.question)}"
            call = ToolCallUpdate(
                tool_call_id=f"{question.task}-asks",
                title=title,
                kind="other",
                content=[tool_content(text_block(_explained(question, inquiry, picked)))],
            )
            chosen = await self._chosen(call, [*options, _option(LEFT_OPEN, enough, "reject_once")])
            if not chosen.isdecimal() or int(chosen) >= len(left):
                break
            picked.append(left.pop(int(chosen)))
            if not inquiry.many:
                break
        return ", ".join(picked)

    async def _chosen(self, call: ToolCallUpdate, options: Sequence[PermissionOption]) -> str:
        response = await self._editor.client.request_permission(
            session_id=self._session, tool_call=call, options=list(options)
        )
        outcome = response.outcome
        return outcome.option_id if isinstance(outcome, AllowedOutcome) else ""


def _option(key: str, says: str, kind: PermissionOptionKind) -> PermissionOption:
    return PermissionOption(option_id=key, name=exact_line(says), kind=kind)


def _kind(answer: Answer) -> PermissionOptionKind:
    if not answer.allow:
        return "reject_once"
    return "allow_once" if answer.reach == "call" else "allow_always"


def _asks(question: Question) -> str:
    ends = [deadline_line(question, inquiry) for inquiry in question.inquiries]
    asked = [
        f"{visible(inquiry.question)}\n{end}".rstrip()
        for inquiry, end in zip(question.inquiries, ends, strict=True)
    ]
    several = "\n".join(f"- {each}" for each in asked)
    return f"{asker_path(question)} asks: {asked[0] if len(asked) == 1 else several}"


def _field(inquiry: Inquiry) -> Any:
    """A field that takes one of the answers, several of them, or words."""
    title = visible_line(inquiry.question)
    label = visible_line(inquiry.header) or title
    listed = [
        EnumOption(
            const=each.label, title=visible_line(each.label), description=visible_line(each.description)
        )
        for each in inquiry.options
    ]
    if listed and inquiry.many:
        items = TitledMultiSelectItems(any_of=listed)
        return ElicitationMultiSelectPropertySchema(type="array", title=label, description=title, items=items)
    return ElicitationStringPropertySchema(
        type="string", title=label, description=title, one_of=listed or None
    )


def _worded(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, cast("list[object]", value)[:100]))
    return "" if value is None else str(value)


def _explained(question: Question, inquiry: Inquiry, picked: Sequence[str]) -> str:
    lines = [f"- {label}{f': {more}' if more else ''}" for label, more in inquiry_choices(inquiry)]
    if end := deadline_line(question, inquiry):
        lines.append(f"\n{end}")
    if picked:
        lines.append(f"\nChosen so far: {', '.join(picked)}")
    return "\n".join(lines)
