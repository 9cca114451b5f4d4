"""The input with the keys of vim."""

from pathlib import Path

from gencode.testing import says
from tests.interfaces.tui.driving import seated, turns

TEXT = "one two three\nfour\nfive six"
CASES = (
    ("gg x", "ne two three\nfour\nfive six"),
    ("gg 3 x", " two three\nfour\nfive six"),
    ("gg d w", "two three\nfour\nfive six"),
    ("gg w d $", "one \nfour\nfive six"),
    ("gg w D", "one \nfour\nfive six"),
    ("gg w c w N escape", "one N three\nfour\nfive six"),
    ("gg 2 d w", "three\nfour\nfive six"),
    ("gg w d 2 w", "one four\nfive six"),
    ("gg d d", "four\nfive six"),
    ("gg 2 d d", "five six"),
    ("gg d j", "five six"),
    ("d d", "one two three\nfour"),
    ("gg d G", ""),
    ("gg d d p", "four\none two three\nfive six"),
    ("gg y y G p", TEXT + "\none two three"),
    ("gg Y j P", "one two three\none two three\nfour\nfive six"),
    ("gg y w j $ p", "one two three\nfourone \nfive six"),
    ("gg x p", "noe two three\nfour\nfive six"),
    ("gg d d u", TEXT),
    ("gg d d u ctrl+r", "four\nfive six"),
    ("gg A ! escape", "one two three!\nfour\nfive six"),
    ("gg w i X escape", "one Xtwo three\nfour\nfive six"),
    ("gg a X escape", "oXne two three\nfour\nfive six"),
    ("gg o X escape", "one two three\nX\nfour\nfive six"),
    ("G O X escape", "one two three\nfour\nX\nfive six"),
    ("2 G I X escape", "one two three\nXfour\nfive six"),
    ("gg $ x", "one two thre\nfour\nfive six"),
    ("gg e x", "on two three\nfour\nfive six"),
    ("b x", "one two three\nfour\nfive ix"),
    ("0 x", "one two three\nfour\nive six"),
    ("gg l l k h x", "oe two three\nfour\nfive six"),
    ("gg S N escape", "N\nfour\nfive six"),
    ("z q ; gg d escape d", TEXT),
)


async def test_the_keys_of_vim_edit_the_prompt(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("heard")]), also={"vim": True}) as setup:
        composer = setup.app.main.composer
        for keys, wanted in CASES:
            composer.set_text(TEXT)
            await setup.press("escape", *keys.replace("gg", "g g").split())
            assert (keys, composer.text) == (keys, wanted)


async def test_a_prompt_is_written_and_sent_and_commands_begin_in_normal_mode_too(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("heard")]), also={"vim": True}) as setup:
        await setup.assert_sees("INSERT")
        await setup.press(*"where is itt", "escape")
        await setup.assert_sees("NORMAL")
        await setup.press("x", "2", "d")
        await setup.assert_sees("NORMAL 2d")
        await setup.press("escape", "enter")
        await setup.assert_sees("› where is it")
        await setup.assert_sees("heard")
        await setup.press("escape", *"/help", "enter")
        await setup.assert_sees("Commands and keys")
