"""`gen cron …` as it can be typed."""

from gencode.interfaces.cli.option_types import Commands, add, add_group, add_policy

CRON_EXAMPLES = """\
examples:
  gen cron add "0 9 * * 1-5" "Which tests failed last night, and why?" --to file:mornings
  gen cron add "every 30m" "Look for new warnings in the log" --agent Explore
  gen cron list --all
  gen cron remove 9f3a
  gen cron run
"""


def add_cron(commands: Commands) -> None:
    """Everything that can be typed about work that is planned."""
    cron = add_group(
        commands, "cron", "plan prompts and tasks, and run them when they are due", CRON_EXAMPLES
    )
    listing = add(cron, "list", "cron:listed", "what is planned in this folder, and what became of it")
    listing.add_argument("--all", action="store_true", help="in every folder")
    plan = add(cron, "add", "cron:added", "plan a prompt, or a task of an agent")
    plan.add_argument(
        "schedule", metavar="SCHEDULE", help='"0 9 * * 1-5", "@daily", "every 10m", "in 2h" or a time'
    )
    plan.add_argument("planned", metavar="PROMPT", help="what is to be done then; - reads it from stdin")
    plan.add_argument("--agent", dest="subagent", metavar="NAME", help="as a task of this agent")
    plan.add_argument(
        "--session", dest="conversation", metavar="ID", help="in this conversation; else in a new one"
    )
    plan.add_argument("--to", metavar="CHANNEL:CHAT", help="also send what came of it there")
    plan.add_argument("--zone", metavar="ZONE", help="the time zone; yours when it is not said")
    plan.add_argument("--label", metavar="TEXT", help="a few words to call it by")
    plan.add_argument("--model", metavar="M", help="who answers; else as the settings say then")
    add_policy(plan)
    remove = add(cron, "remove", "cron:removed", "remove what is planned")
    remove.add_argument("ids", metavar="ID", nargs="+", help="a job; the beginning of its id is enough")
    run = add(cron, "run", "cron:run", "run what is due, here and now, until Ctrl-C")
    add_policy(run)
