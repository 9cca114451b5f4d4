"""A review bot: three agents read the same change side by side, and one Markdown report comes out.

    python review_bot.py [BASE] > review.md

Run it in a git repository, for example in CI of a pull request. BASE is what the change is compared with
(main). Without a model it uses the offline search, which finds places and judges nothing.
"""

import asyncio
import subprocess
import sys

from gencode import Budget, GenCode, Outcome

LOOKS = {
    "Security": "Look for injection, secrets, unsafe paths and missing checks of input.",
    "Tests": "Look for changed behaviour without a test, and tests that cannot fail.",
    "Callers": "Find every caller of what changed, and say which of them breaks.",
}
LONGEST = 40_000
"""So many characters of the difference are given to the agents; they read the rest themselves."""


def difference(base: str) -> str:
    """What changed since the base, or everything that is not committed."""
    for command in (["git", "diff", f"{base}...HEAD"], ["git", "diff", "HEAD"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip():
            return done.stdout
    return ""


async def review(gen: GenCode, look: str, change: str) -> Outcome:
    """One agent with one question; it may spend 100,000 tokens and change nothing."""
    prompt = f"Review this change. {LOOKS[look]}\n\n```diff\n{change[:LONGEST]}\n```"
    return await gen.task("Review", prompt, description=look, budget=Budget(tokens=100_000, turns=20))


def report(found: dict[str, Outcome]) -> str:
    """The report, with what each agent read and cost."""
    lines = ["# Review\n"]
    for look, outcome in found.items():
        seen = outcome.evidence
        lines.append(f"## {look}\n\n{outcome.result or outcome.error or 'Nothing was said.'}\n")
        lines.append(
            f"<sub>{outcome.status}: {seen.tool_calls} calls, {len(seen.files_read)} files read</sub>\n"
        )
    return "\n".join(lines)


async def main() -> int:
    change = difference(sys.argv[1] if len(sys.argv) > 1 else "main")
    if not change:
        print("There is no change to review.", file=sys.stderr)
        return 1
    async with GenCode.open(settings={"permission_mode": "plan"}) as gen:
        found = await asyncio.gather(*(review(gen, look, change) for look in LOOKS))
    print(report(dict(zip(LOOKS, found, strict=True))))
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
