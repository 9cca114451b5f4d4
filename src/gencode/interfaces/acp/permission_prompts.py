"""Asks the user of an editor for permissions and answers, through the editor's own dialogs and forms."""

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
from gencode.core.text import exact_line, visible, visible_line
from gencode.interfaces.acp.editor_client import EditorClient
from gencode.interfaces.acp.tool_call_updates import AcpToolCall, fenced
from gencode.interfaces.chat.question_text import (
    INSTEAD,
    INSTEAD_ASKS,
    INSTEAD_SAYS,
    NOT_ANSWERED,
    answer_from_words,
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

EDITOR_FAILED = "The editor could not ask the user"
NO_ANSWER = "-"
ONLY_CHOICES = (
    "This editor can only ask questions with options to choose from; ask this in your reply instead"
)


class CallDisplay(Protocol):
    """Shows tool calls in a session."""

    async def show_question(self, question: Question) -> AcpToolCall:
        """Show the call that needs approval, before the editor asks for it."""
        ...


class EditorPerson:
    """The user of one editor, asked by permission requests and forms."""

    def __init__(self, editor: EditorClient, session: str, display: CallDisplay) -> None:
        self._editor = editor
        self._session = session
        self._display = display

    async def answer(self, question: Question) -> Answer:
        """Ask a question and wait for the answer; declined if the editor cannot ask it."""
        try:
            if not question.inquiries:
                return await self._permission(question)
            if self._editor.can_show_forms:
                return await self._form(question)
            return await self._one_by_one(question)
        except (RequestError, ConnectionError, ValidationError):
            return Answer(False, why=EDITOR_FAILED, by=DecidedBy.NOBODY)

    async def confirm(self, text: str) -> bool:
        """Whether the user confirms what a command of theirs would stop."""
        call = ToolCallUpdate(tool_call_id=f"{self._session}-confirm", title=exact_line(text), kind="other")
        options = [_option("y", "Yes", "allow_once"), _option("n", "No", "reject_once")]
        return await self._chosen(call, options) == "y"

    async def _permission(self, question: Question) -> Answer:
        shown = await self._display.show_question(question)
        words = [f"{headline(question)}:", fenced(call_text(question)), reason(question)]
        if rules := rules_text(question):
            words.append(f"An approval for more than this call will allow: {rules}")
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
        if self._editor.can_show_forms:
            options.append(_option(INSTEAD, INSTEAD_SAYS, "reject_once"))
        chosen = await self._chosen(call, options)
        if chosen == INSTEAD:
            return Answer(False, why=await self._instead())
        return found[chosen].answer if chosen in found else Answer(False)

    async def _instead(self) -> str:
        """What the user wants instead of a call they declined; empty where they say nothing."""
        field = ElicitationStringPropertySchema(type="string", title=INSTEAD_ASKS)
        form = ElicitationFormSessionMode(
            session_id=self._session, requested_schema=ElicitationSchema(properties={"instead": field})
        )
        said = await self._editor.client.create_elicitation(message=INSTEAD_ASKS, mode=form)
        given = said.content or {} if isinstance(said, AcceptElicitationResponse) else {}
        return _text_of(given.get("instead")).strip()

    async def _form(self, question: Question) -> Answer:
        """Ask with one form that has a field for each question."""
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
        return answer_from_words(
            [_text_of(given.get(str(number))) for number in range(len(question.inquiries))]
        )

    async def _one_by_one(self, question: Question) -> Answer:
        """Ask each question as a permission request with its options: for editors without forms."""
        if not all(inquiry.options for inquiry in question.inquiries):
            return Answer(False, why=ONLY_CHOICES, by=DecidedBy.NOBODY)
        words = [await self._picked(question, inquiry) for inquiry in question.inquiries]
        return answer_from_words(words)

    async def _picked(self, question: Question, inquiry: Inquiry) -> str:
        """The option that was chosen; where several are allowed, ask until the user is done."""
        left = [label for label, _ in inquiry_choices(inquiry)]
        picked: list[str] = []
        while left:
            enough = "Done" if picked else f"No answer ({empty_answer_text(inquiry)})"
            options = [_option(str(number), label, "allow_once") for number, label in enumerate(left)]
            title = f"{asker_path(question)} asks: {visible_line(inquiry.question)}"
            call = ToolCallUpdate(
                tool_call_id=f"{question.task}-asks",
                title=title,
                kind="other",
                content=[tool_content(text_block(_explained(question, inquiry, picked)))],
            )
            chosen = await self._chosen(call, [*options, _option(NO_ANSWER, enough, "reject_once")])
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
    """A field for one of the options, several of them, or free text."""
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


def _text_of(value: object) -> str:
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
