"""Names as a hostile or careless hand would write them into a file."""

from __future__ import annotations

SCRIPT = "<script>alert(1)</script>"

HOSTILE_NAMES = (
    SCRIPT,
    '"><img src=x onerror=alert(1)>',
    "<a href='javascript:alert(1)'>click</a>",
    "[click](javascript:alert(1))",
    "![x](http://127.0.0.1/x.png)",
    "**bold** _under_ `code` # head",
    "$\\input{/etc/passwd}$ \\write18{id}",
    "%{x} %{customdata[0]} {0} {name} %s %n",
    "\x1b[31mred\x1b[0m\x1b]0;title\x07",
    "line\nbreak\r\nand\ttab",
    "nul\x00inside",
    "\u202egnp.exe\u202c\u200b\ufeff",
    "=1+1",
    '=HYPERLINK("http://127.0.0.1";"x")',
    "+1+cmd|' /C calc'!A0",
    "@SUM(1)",
    "-2+3",
    "../../../etc/passwd",
    "/etc/passwd",
    "C:\\Windows\\x",
    "&lt;b&gt;&#60;script&#62;",
    "{{7*7}} ${7*7} <%= 7*7 %>",
    "',\"];--",
    "",
    "   ",
    "e\u0301\u0327" * 20,
    "\U0001f600" * 10,
    "x" * 300,
    "__proto__",
    "\ud800",
)
"""Script, markup, formulas, terminal escapes, control characters, paths, templates, and half a surrogate pair."""
