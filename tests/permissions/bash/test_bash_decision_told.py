"""A decision names the part, what made it so, and what would lift it; nothing is offered in vain."""

import pytest

from gencode.core.rules import Action, Decision, Remedy, Rule
from gencode.permissions.explanation import lifting
from tests.permissions.bash.judged import judge


def lifts(command: str, *rules: str, mode: str = "default") -> str:
    return lifting(judge(command, *rules, mode=mode))


def test_a_rule_that_matches_is_named_with_its_part() -> None:
    assert judge("ls; gradle publish", "deny Bash(gradle publish:*)") == Decision(
        Action.DENY,
        "Bash: 'gradle publish': the rule deny Bash(gradle publish:*) matches.",
        "deny Bash(gradle publish:*)",
        "main",
        Remedy.REMOVE_RULE,
        removes="deny Bash(gradle publish:*)",
    )


def test_a_rule_for_a_path_is_named_with_the_word() -> None:
    assert judge("head private/notes.md", "deny Read(private/**)").why == (
        "Bash: 'head private/notes.md': the rule deny Read(private/**) matches 'private/notes.md'."
    )


def test_what_is_not_covered_is_told_with_the_narrowest_rule() -> None:
    assert judge("gradle test --info && ls") == Decision(
        Action.ASK,
        "Bash: 'gradle test --info': gradle may change files, and no rule allows it.",
        "",
        "main",
        offers=(Rule("Bash", "gradle test --info", Action.ALLOW),),
    )


def test_what_is_allowed_says_by_what() -> None:
    assert judge("ls && make all | wc", "allow Bash(make:*)") == Decision(
        Action.ALLOW,
        "Bash: 'make all': the rule allow Bash(make:*) matches. 2 more parts are allowed too.",
        "allow Bash(make:*)",
        "main",
    )
    assert judge("ls").why == "Bash: 'ls': it only reads."
    assert judge("make", mode="dontAsk").why == "Bash: 'make': the mode dontAsk allows what no rule forbids."


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo x > y", "it writes a file, and only a rule for all commands allows that"),
        ("eval ls", "what it runs cannot be known: eval keeps or runs a text as a command"),
        (
            "timeout --x 5 ls",
            "what it runs cannot be known: timeout has the option --x, which is not known here",
        ),
        ("cat .env", "'.env' may hold secrets"),
        ("cp x .git/config", "'.git/config' changes how programs behave"),
        ("FOO=1 ls", "it sets FOO, and no rule allows it"),
        ("env", "env has no command to run, and no rule allows it"),
    ],
)
def test_the_reason_is_told(command: str, said: str) -> None:
    assert said in judge(command).why


def test_a_possible_match_says_what_is_not_known() -> None:
    rules = ["allow Bash", "deny Bash(rm x)", "deny Read(private/**)"]
    assert "might match: one of its words is only known when it runs." in judge("rm $x", *rules).why
    assert "might match: '$x' is only known when it runs." in judge("cat $x", *rules).why
    assert "might match, and what it runs cannot be known: " in judge("eval y", *rules).why
    assert "might match: 'a' is below a folder that cd leads to." in judge("cd -; cat a", *rules).why


def test_plan_mode_says_what_would_be_more_than_reading() -> None:
    assert judge("make", mode="plan") == Decision(
        Action.DENY,
        "Bash: 'make': only reading is allowed in this mode, and make may change files.",
        "",
        "main",
        Remedy.OTHER_MODE,
    )
    assert lifts("cat .env", mode="plan") == "nothing allows this in plan mode"


def test_a_command_that_cannot_be_read_says_why() -> None:
    decision = judge('echo "open', "allow Bash")
    assert decision.why.startswith("Bash: the command cannot be read: ")
    assert lifting(decision) == "write the command in another way"
    assert lifts('echo "open', mode="plan") == "another permission mode than plan"
    assert judge('echo "open', "deny Bash").rule == "deny Bash(*)"


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        ("make", '--allow "Bash(make)"'),
        ("gradle publish", '--allow "Bash(gradle publish)"'),
        ("rm -rf dist", '--allow "Bash(rm -rf dist)"'),
        ("npm run build -- --prod", '--allow "Bash(npm run build -- --prod)"'),
        ("timeout 5 make", '--allow "Bash(make)"'),
        ("sudo make", '--allow "Bash(sudo make)"'),
        ("bash run.sh", '--allow "Bash(bash run.sh)"'),
        ("env", '--allow "Bash(env)"'),
        ("make && gradle test", '--allow "Bash(make)" --allow "Bash(gradle test)"'),
        ("a; b; c; d", '--allow "Bash(a)" --allow "Bash(b)" --allow "Bash(c)" --allow "Bash(d)"'),
        ("cat .env", '--allow "Bash(cat .env)"'),
        ("cp x .git/config", '--allow "Bash(cp x .git/config)"'),
        ("make; cat .env", '--allow "Bash(make)" --allow "Bash(cat .env)"'),
    ],
)
def test_flags_for_exactly_this_command_are_offered(command: str, flags: str) -> None:
    decision = judge(command)
    assert lifting(decision) == flags
    assert judge(command, *(f"allow {rule.spelled}" for rule in decision.offers)).action == "allow"


@pytest.mark.parametrize(
    ("command", "rules"),
    [
        ("rm -rf dist", ("Bash(rm -rf dist)",)),
        ("echo $(touch x)", ("Bash(touch x)",)),
        ("rm -rf $(cat list)", ()),
        ("touch $(date +%N)", ()),
        ("touch `date +%N`", ()),
        ("chmod +x $f", ()),
        ("rm -rf *", ()),
        ("rm {a,b}", ("Bash(rm a b)",)),
        ("rm build 'my files'", ()),
        ("xargs make", ()),
        ("make && rm $x", ()),
        ('echo "open', ()),
    ],
)
def test_a_person_is_offered_rules_for_exactly_these_words_or_none(
    command: str, rules: tuple[str, ...]
) -> None:
    assert tuple(rule.spelled for rule in judge(command).lasting) == rules


@pytest.mark.parametrize(
    "command",
    [
        *("echo x > .env", "cat .e*", "cat '.env '", "x=.env", "cat < .env"),
        *("python3 -c 'print(1)'", "python $script", "xargs make", "FOO=1 make", "make 'a b'", "make > x"),
    ],
)
def test_no_flag_is_offered_that_allows_more_than_the_command(command: str) -> None:
    decision = judge(command)
    assert (decision.offers, decision.remedy) == ((), Remedy.NO_RULE_FOR_WORDS)


def test_a_long_part_is_cut_and_nothing_invisible_is_shown_as_it_is() -> None:
    why = judge(f"make {'x' * 500}\n").why
    assert len(why) < 300
    assert (
        judge("make \u202e").why
        == "Bash: the command cannot be read: it has a character that shows as something else ('\\u202e')."
    )
