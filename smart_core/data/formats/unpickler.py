"""A pickle interpreter that builds numbers, text, bytes, lists, tuples, dicts and what a table allows.

It never imports, never reads an attribute, and calls only the functions of its table, chosen by exact (module, name).
Globals on its stack are plain names, so no pickle can reach an object's methods.
"""

from __future__ import annotations

import codecs
import io
import pickletools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from smart_core.data.formats.limits import DAMAGED
from smart_core.errors import LogitFileError
from smart_core.formatting import printable

_RESAVE = "save the arrays with numpy.savez instead"


@dataclass(frozen=True)
class Name:
    """A global that the pickle refers to: text only, it cannot be called or inspected."""

    module: str
    name: str


Table = Mapping[tuple[str, str], Callable[..., object] | None]
"""(module, name) -> the function that is called in its place; None for names that are never called."""

_MARK = object()
_OPCODES = {opcode.code.encode("latin-1"): opcode for opcode in pickletools.opcodes}
_VALUES = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
}
_CONSTANTS: dict[str, object] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_PUTS = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})
_GETS = frozenset({"GET", "BINGET", "LONG_BINGET"})


class Interpreter:
    """Runs one pickle with a table of allowed globals."""

    def __init__(
        self, stream: io.BytesIO, file: str, table: Table, persistent: Callable[[object], object] | None = None
    ) -> None:
        self._file, self._stream, self._table, self._persistent = file, stream, table, persistent
        self._stack: list[Any] = []
        self._memo: dict[str, Any] = {}  # numbers as keys could all have one hash

    def run(self) -> Any:
        """Return the object that the pickle builds."""
        while True:
            opcode = _OPCODES.get(self._stream.read(1))
            if opcode is None:
                raise LogitFileError("is not a complete pickle", DAMAGED, file=self._file)
            if opcode.name == "STOP":
                return self._stack.pop()
            if opcode.name == "STRING":
                argument: Any = self._python2_string()
            else:
                argument = None if opcode.arg is None else opcode.arg.reader(self._stream)
            self._execute(opcode.name, argument)

    def _execute(self, name: str, argument: Any) -> None:
        stack = self._stack
        if name in _VALUES:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _GETS:
            stack.append(self._memo[str(argument)])
        elif name in _PUTS:
            self._memo[str(argument)] = stack[-1]
        elif name == "MEMOIZE":
            self._memo[str(len(self._memo))] = stack[-1]
        elif name == "MARK":
            stack.append(_MARK)
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            size = int(name[-1])
            stack[-size:] = [tuple(stack[-size:])]
        elif name == "TUPLE":
            stack.append(tuple(self._since_mark()))
        elif name == "EMPTY_LIST":
            stack.append([])
        elif name == "LIST":
            stack.append(self._since_mark())
        elif name in ("APPEND", "APPENDS"):
            items = self._since_mark() if name == "APPENDS" else [stack.pop()]
            _expect(stack[-1], list).extend(items)
        elif name == "EMPTY_DICT":
            stack.append({})
        elif name == "DICT":
            items = self._since_mark()
            stack.append({})
            self._set_items(items)
        elif name in ("SETITEM", "SETITEMS"):
            self._set_items(self._since_mark() if name == "SETITEMS" else [stack.pop(), stack.pop()][::-1])
        elif name == "POP":
            stack.pop()
        elif name == "POP_MARK":
            self._since_mark()
        elif name == "GLOBAL":
            module, _, attribute = argument.partition(" ")
            self._push_name(module, attribute)
        elif name == "STACK_GLOBAL":
            attribute, module = stack.pop(), stack.pop()
            self._push_name(_expect(module, str), _expect(attribute, str))
        elif name == "REDUCE":
            self._call()
        elif name == "BUILD":
            self._build()
        elif name == "BINPERSID" and self._persistent is not None:
            stack.append(self._persistent(stack.pop()))
        elif name not in ("PROTO", "FRAME"):
            raise self._error(f"has the instruction {name}, which no array needs")

    def _since_mark(self) -> list[Any]:
        """Pop and return everything above the topmost mark, and pop the mark."""
        place = len(self._stack) - 1
        while self._stack[place] is not _MARK:
            place -= 1
            if place < 0:
                raise ValueError("a mark is missing")
        items = self._stack[place + 1 :]
        del self._stack[place:]
        return items

    def _set_items(self, items: list[Any]) -> None:
        target = _expect(self._stack[-1], dict)
        for key, value in zip(items[::2], items[1::2], strict=True):
            # numbers as keys could all have one hash, and a nested tuple could take exponential time to hash
            target[str(_expect(key, str | int | float | bytes))] = value

    def _push_name(self, module: str, attribute: str) -> None:
        if (module, attribute) not in self._table:
            name = printable(f"{module}.{attribute}")
            raise self._error(f"asks for {name}, which is neither an array nor a container")
        self._stack.append(Name(module, attribute))

    def _call(self) -> None:
        arguments = _expect(self._stack.pop(), tuple)
        name = _expect(self._stack.pop(), Name)
        function = self._table[name.module, name.name]
        if function is None:
            raise self._error(f"calls {name.module}.{name.name}")
        self._stack.append(function(*arguments))

    def _build(self) -> None:
        state = self._stack.pop()
        target = self._stack[-1]
        if isinstance(target, dict):
            return  # the attributes of an OrderedDict carry no arrays
        if not getattr(type(target), "buildable", False):
            raise self._error(f"changes a {type(target).__name__}")
        target.build(state)

    def _error(self, what: str) -> LogitFileError:
        return LogitFileError(f"is a pickle that {what}", _RESAVE, file=self._file)

    def _python2_string(self) -> str:
        """Python 2 wrote the bytes of an array as an escaped string, which need not be ASCII."""
        line = self._stream.readline().strip()
        if len(line) < 2 or line[:1] not in b"'\"" or line[-1:] != line[:1]:
            raise ValueError("a string without quotes")
        return codecs.escape_decode(line[1:-1])[0].decode("latin-1")


def _expect(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"the pickle misuses a {type(value).__name__}")
    return value
