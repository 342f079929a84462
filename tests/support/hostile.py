"""Labels that a hostile config, record or file may hold, and what no output may show of them."""

from __future__ import annotations

# Printable letters that are drawn as nothing.
FILLERS = "\u3164\u115f\u1160\uffa0\u034f\u2800\ufe0f\U000e0100"
# A clipboard is set by OSC 52; text turns around by bidirectional controls.
LABELS = {
    "rich markup": "[/] [bold red]PASS[/bold red] [link=https://evil.example]x[/link]",
    "an open tag": "[bold",
    "escape sequences": "\x1b[2J\x1b[32mPASS\x1b[0m",
    "a clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "C1 controls": "\x9b31m\x9d52;c;ZXZpbA==\x9c\x85",
    "another direction": "a\u202egnp.exe\u2066b\u2069\u200f",
    "lines": "first\r\nsecond\u2028third\u2029fourth\x0b\x0c",
    "nothing seen": "a\u200b\u2060\ufeff\xadb\U000e0041\x00\x7f",
    "fillers": f"a{FILLERS}b",
    "HTML": "<script>alert(1)</script><img src=x onerror=alert(1)>&lt;",
    "Markdown": "**b** `c` [x](javascript:alert(1)) ![y](z) | # h\n```\n$a$ ~~s~~",
    "addresses": "https://evil.example www.evil.example ftp://x.example a@evil.example @everyone",
    "a template": "{{ 7 * 7 }} {% raw %} ${HOME} %s %(x)s {0}",
    "a formula": '=HYPERLINK("https://evil.example", 1)',
    "JSON": '"}],"x":1</script>\\u0022',
    "much": "m" * 20_000,
}


def unseen(text: str) -> set[str]:
    """The letters of a text that a reader cannot see, line ends aside."""
    letters = set(text) - {"\n"}
    return {letter for letter in letters if letter in FILLERS or not letter.isprintable()}
