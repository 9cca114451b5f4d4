"""worktrees: one that is still there, and the commands that merge it, save it or remove it."""

import shlex

from msgspec import Struct

from gencode.workspaces.worktrees.agent_work import patching


class Leftover(Struct, frozen=True, rename="camel"):
    """A worktree that was not removed. `changed` are the files that differ from where it began, None where
    that could not be seen. `merged`: all of it is in the checkout it came from. `gone`: its repository is.
    """

    path: str
    repository: str
    branch: str
    changed: int | None
    merged: bool
    gone: bool
    missing: bool = False
    """The folder itself was deleted by somebody; what was committed is still on the branch."""
    away: bool = False
    """It was made for a task from elsewhere, and not all of it could be handed in."""
    dirty: bool = False
    """Something in it is not committed."""
    tip: str = ""
    """Its last commit, where the checkout has all that is in it and not the commit itself."""
    listed: bool = True
    """Git still knows of it as a worktree."""
    mixed_since: str = ""
    """The commit after which the work is its own, where what is before has open changes of a person in it."""
    ignored: str = ""
    """Files that git ignores, where all else is merged: they would go with it."""
    strays: bool = False
    """Commits were made in it that are on no branch and not merged, where all else is."""
    aside: str = ""
    """The commit it is at, where it is not at its branch and more is in it, or may be, than there."""
    besides: bool = False
    """Something is on the branch that is not in that commit."""
    branched: bool = True
    """Its branch is there."""
    at_work: tuple[str, ...] | None = None
    """The tasks that are at work in it; None where nobody looked."""
    hidden: bool = False
    """What is not committed is not seen by git there: its index was told not to look."""
    inside: tuple[str, ...] = ()
    """Repositories that were made in it. Git would merge only that they are there."""
    submodules: tuple[str, ...] = ()
    """Submodules with something in them. Git would merge only at which commit they are."""
    modules: str = ""
    """Where git keeps the commits of those, for this worktree only."""
    filters: tuple[str, ...] = ()
    """Filters that files of it have, where it is merged: they were not run in it, and would change them."""
    settled: bool = False
    """All is merged but what is only in it, and cannot be."""
    others: tuple[str, ...] = ()
    """Worktrees that were made from it: theirs is merged into it, so it is to stay for as long."""
    astray: bool = False
    """What lies in it as its `.git` does not lead to its repository any more."""
    own_branch: str = ""
    """Where nothing is known about it: the branch that was made with it."""
    half: bool = False
    """Where nothing is known about it: its making was cut, and nothing is in it but what is in its commit."""

    @property
    def only_there(self) -> str:
        """What is in it and nowhere else, even when all that can be merged is; mostly nothing."""
        modules = ", ".join(self.submodules) or self.modules
        found = [f"repositories that were made in it: {', '.join(self.inside)}"] * bool(self.inside)
        found += [f"what is in submodules: {modules}"] * bool(modules)
        found += [f"what is {self.ignored}"] * bool(self.ignored)
        return ", ".join(found)

    @property
    def taking_over(self) -> str:
        """The command that merges it, with what is not committed; never what a person has not committed."""
        command, in_worktree = self._taking
        return f"{self._mending}{command}" if in_worktree else command

    @property
    def _mending(self) -> str:
        """What lets git work in it again, where it does not."""
        there = f"git -C {shlex.quote(self.repository)}"
        return f"{there} worktree repair && " if self.astray else ""  # with a path it says that it failed

    @property
    def _taking(self) -> tuple[str, bool]:
        """How to take over what is in it, and whether git has to work in it for that."""
        path, there = shlex.quote(self.path), f"git -C {shlex.quote(self.repository)}"
        if self.strays:
            return f"git -C {path} reflog (shows them; git -C {path} branch NAME COMMIT keeps one)", True
        if self.settled:
            return self._saving, not (self.inside or self.submodules or self.modules)
        but = " ".join(shlex.quote(f":(top,exclude,literal){name}") for name in self.inside)
        add = f"git -C {path} add -A{f' -- :/ {but}' if but else ''}"
        add = f"git -C {path} read-tree HEAD && {add}" if self.hidden else add
        commit = f"{add} && git -C {path} commit -m 'What the agent left' && "
        before = commit if self.dirty else ""
        before += f"git -C {path} merge {self.branch} && " if self.aside and self.besides else ""
        reads = bool(self.aside and before)
        what = f'"$(git -C {path} rev-parse HEAD)"' if reads else self.aside[:12] or self.branch
        merge = f"{there} merge {what}"
        if self.mixed_since:
            merge = patching(self.repository, self.mixed_since, what)
        return f"{before}{merge}", bool(before)

    @property
    def _saving(self) -> str:
        """How to see what is only there, and what to do when that is not needed, or no more."""
        path, needed = shlex.quote(self.path), "when you have what you need"
        if self.inside:
            inner = shlex.quote(f"{self.path}/{self.inside[0]}")
            return f"git -C {inner} log (shows what is in it; {needed}: rm -rf {inner})"
        if self.submodules or self.modules:
            inner = [shlex.quote(f"{self.path}/{name}") for name in self.submodules]
            kept = [shlex.quote(self.modules)] if self.modules else []
            look = [f"ls -A {' '.join(inner or kept)}", *(f"git -C {each} status" for each in inner)]
            clear = f"rm -rf {' '.join([*inner, *kept])}"  # git removes no worktree that has them
            clear += f" && mkdir {' '.join(inner)}" if inner else ""
            return f"{' && '.join(look)} (shows what is in it; {needed}: {clear})"
        look = f"git -C {path} ls-files --others --ignored --exclude-standard"
        return f"{look} (shows them; {needed}: {self.removing})" if self.removing else look

    @property
    def removing(self) -> str:
        """The command that removes what is merged; it refuses where something was done since.

        None where it has to stay.
        """
        if self.others:
            return ""
        there = f"git -C {shlex.quote(self.repository)}"
        path = shlex.quote(self.path)
        folder = f"{self._mending}{there} {_without(self.filters)}worktree remove {path}"
        folder = f"{self._mending}git -C {path} read-tree HEAD && {folder}" if self.hidden else folder
        branch = f"{there} branch -d {self.branch}"
        if self.tip:  # git takes only commits that it has for merged
            branch = f"{there} update-ref -d refs/heads/{self.branch} {self.tip}"
        return " && ".join([folder] * self.listed + [branch] * self.branched)

    @property
    def clearing(self) -> str:
        """What to do with one of which nothing is known, or whose repository is gone; it refuses, too."""
        path = shlex.quote(self.path)
        if not self.repository or self.gone:
            return f"look into it, then rm -r {path}"
        there = f"git -C {shlex.quote(self.repository)}"
        look = "look into it"
        if self.strays:
            keep = f"git -C {path} branch NAME keeps them"
            look = f"git -C {path} log (its commits are on no branch; {keep})"
        remove = f"{there} worktree remove{' --force' if self.half else ''} {path}"
        branch = f" && {there} branch -d {shlex.quote(self.own_branch)}" if self.own_branch else ""
        return f"{look}, then {remove}{branch}"


def _without(filters: tuple[str, ...]) -> str:
    """Settings for a git that is to see files as it keeps them, as the agent did."""
    off = ("clean=", "process=", "required=false")
    return "".join(f"-c {shlex.quote(f'filter.{name}.{each}')} " for name in filters for each in off)
