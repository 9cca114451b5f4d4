"""cron: add, list and remove scheduled jobs."""

from typing import Annotated, Literal

from gencode.agent.messaging import Messaging
from gencode.agent.toolbox import Param, Tool, ToolContext, tool
from gencode.core.errors import ToolError
from gencode.schedule.recurrence import WAYS
from gencode.schedule.scheduled_jobs import JobCalendar, JobRequest, ScheduledJob

MAIN = "main"


def cron(messaging: Messaging | None) -> Tool:
    """The tool cron over the schedule of a session."""

    @tool(effect="write", name="cron", on_request=True)
    async def run(
        ctx: ToolContext,
        action: Literal["add", "list", "remove"],
        schedule: Annotated[
            str, Param('"0 9 * * 1-5", "@daily", "every 10m", "in 2h", "at 2026-11-30T09:00"', also=("when",))
        ] = "",
        prompt: Annotated[str, Param("What to do then, in full", also=("message", "task"))] = "",
        agent: Annotated[str, "Run it as a task of this agent; default: you get it as a message"] = "",
        session: Annotated[Literal["new", "here"], "A new conversation each time, or this one"] = "new",
        to: Annotated[str, "Also send the result to this channel:chat"] = "",
        label: Annotated[str, "A short name for it"] = "",
        timezone: Annotated[str, Param("Such as Europe/Zurich; default: the user's", also=("tz",))] = "",
        job_id: Annotated[str, Param("The job to remove", also=("id", "jobId"))] = "",
    ) -> str:
        """Schedule a prompt or a task (add), or list or remove the jobs scheduled in this folder.

        A job runs while a GenCode process is open. Nobody can approve anything then: calls that need approval
        are refused.
        """
        if messaging is None:
            raise ToolError("Scheduling is not available in this run.")
        calendar = messaging.calendar
        match action:
            case "list":
                return await _listed(calendar)
            case "remove":
                gone = await calendar.remove(job_id, everywhere=False)
                return f"The job {gone.id} ({gone.title}) was removed."
            case "add":
                plan = JobRequest(
                    when=schedule,
                    prompt=prompt,
                    zone=timezone,
                    agent=agent or ("" if ctx.agent == MAIN else ctx.agent),
                    task=bool(agent),
                    session=ctx.task if session == "here" and not agent else "",
                    label=label,
                    to=to,
                )
                if not schedule.strip():
                    raise ToolError(f"The schedule is missing; {WAYS}.")
                made = await calendar.add(plan, by=ctx.task)
                return f"The job {made.id} is scheduled ({made.when}); it runs next at {made.next_told}."

    return run


async def _listed(calendar: JobCalendar) -> str:
    found = await calendar.listed()
    return "\n".join(map(_line, found)) or "No jobs are scheduled in this folder."


def _line(job: ScheduledJob) -> str:
    who = f", task of {job.agent}" if job.task else ""
    last = f", last run {job.last_status}" if job.last_status else ""
    missed = f", {job.missed} missed" if job.missed else ""
    head = f"{job.id} {job.when} ({job.zone}): {job.title}{who}"
    return f"{head}; next {job.next_told}, {job.runs} runs{missed}{last}"
