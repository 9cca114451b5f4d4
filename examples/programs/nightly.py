"""A nightly job: an agent answers the same question every night and writes a dated report.

    python nightly.py FOLDER "Which TODO notes name nobody?"

In crontab:  15 2 * * *  cd ~/project && python nightly.py reports "Which tests are marked as flaky?"

Nobody is there to approve anything, so it runs `unattended`, with a budget and a time limit. The exit code
is 0 only when the agent completed, so cron mails you the rest.
"""

import asyncio
import sys
from datetime import date
from pathlib import Path

from gencode import Budget, GenCode, Outcome

SETTINGS = {"permission_mode": "unattended", "task_seconds": 900.0, "deny": ["Bash(git push:*)"]}


async def asked(question: str) -> Outcome:
    """What the agent came to."""
    async with GenCode.open(settings=SETTINGS) as gen:
        return await gen.task("Explore", question, budget=Budget(tokens=200_000))


def main(folder: Path, question: str) -> int:
    outcome = asyncio.run(asked(question))
    folder.mkdir(parents=True, exist_ok=True)
    report = folder / f"{date.today():%Y-%m-%d}.md"
    lines = [f"# {question}", outcome.result, f"(task {outcome.agent_id}, {outcome.status})"]
    lines += [f"- refused: {each.tool} {each.summary}" for each in outcome.evidence.refused]
    report.write_text("\n\n".join(lines) + "\n")
    print(f"{report}: {outcome.status}")
    return 0 if outcome.success else 1


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
