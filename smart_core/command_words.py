"""The engine's sentences in the words of the command line: options in place of the arguments of Python."""

from __future__ import annotations

import re

_END = r"(?=[ ,;]|\.?$)"


def on_the_command_line(sentence: str, sides: bool = True) -> str:
    """`val=` -> `--val`, `test=` -> `--test`, `roles=` -> `--role ROLE=ARRAY`; without `sides` there are no such two.

    What no option does is left out.
    """
    if not sides:
        sentence = sentence.replace("give the files as val= and test=, or ", "")
    sentence = sentence.replace(", or say what they are with values=", "")
    sentence = re.sub(rf"\b(val|test)={_END}", r"--\1", sentence)
    sentence = re.sub(rf"\broles={_END}", "--role ROLE=ARRAY", sentence)
    sentence = re.sub(r"name (the|another) array (logits|labels)\b", r"name \1 array with --role \2=ARRAY", sentence)
    return re.sub(r"name one of them (logits)\.$", r"say which with --role \1=ARRAY.", sentence)
