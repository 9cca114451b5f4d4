"""Characters that do harm on a screen."""

HOSTILE = [
    ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
    ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
    ("\x9b2J", "\\x9b2J"),
    ("abc\rxyz", "abc\\x0dxyz"),
    ("back\x08space\x7f", "back\\x08space\\x7f"),
    ("user\u202egnp.exe", "user\\u202egnp.exe"),
    ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
    ("line\u2028end", "line\\u2028end"),
    ("tag\U000e0041", "tag\\U000e0041"),
    ("half\ud83d", "half\\ud83d"),
]
JOINED = [
    "👩‍💻 👩🏽‍🚀 🏳️‍🌈 🏴‍☠️ ❤️‍🔥 🐈‍⬛ 👨‍👩‍👧‍👦 👩‍❤️‍💋‍👨 🏃‍♀️‍➡️ 🙂‍↔️",  # emoji
    "می‌خواهم، خانه‌ها، API‌ها و `foo()`‌ها، ۵‌ام، ه‍ ",  # Persian
    "क्‍ष क्‌ष, র‍্যাব, ශ්‍රී ලංකා, ന്‍ ന്‌, ಕ್‌ಷ, త్‌",  # Indic scripts
    "ܒ‌ܒ ߒ‍ߓ ᠨᠢᠭᠡ‍ ᠠ᠋ ᠭ᠎ᠠ",  # Syriac, N'Ko, Mongolian
    "葛󠄀城 ≨︀ 、︀ ခ︀",  # forms of Chinese characters, of signs of mathematics, of Shan letters
    "🏴󠁧󠁢󠁥󠁮󠁧󠁿 🏴󠁧󠁢󠁳󠁣󠁴󠁿 🏴󠁧󠁢󠁷󠁬󠁳󠁿",  # flags that are made of tags
]
STRAY = [
    ("adm\u200din x\u200cy", "adm\\u200din x\\u200cy"),
    ("rm\u200d -rf \u200c/", "rm\\u200d -rf \\u200c/"),
    ("👩\u200d", "👩\\u200d"),
    ("\u200d💻", "\\u200d💻"),
    ("👩\u200c💻", "👩\\u200c💻"),
    ("a\ufe0f\u200d💻", "a\\ufe0f\\u200d💻"),
    ("👩\u200d\u200d💻", "👩\\u200d\\u200d💻"),
    ("م\u200c\u200cخ", "م\\u200c\\u200cخ"),
    ("م\u200bخ\u200fم\u202e", "م\\u200bخ\\u200fم\\u202e"),
    (
        "a\U000e0100 a\ufe00 葛\ufe05 葛\U000e0100\U000e0101",
        "a\\U000e0100 a\\ufe00 葛\\ufe05 葛\U000e0100\\U000e0101",
    ),
    ("a\u180b", "a\\u180b"),
    ("🏴\U000e0068\U000e0069\U000e007f", "🏴\\U000e0068\\U000e0069\\U000e007f"),
    ("🏴\U000e0067\U000e0062\U000e0065\U000e006e", "🏴\\U000e0067\\U000e0062\\U000e0065\\U000e006e"),
]
