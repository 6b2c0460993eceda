"""No pickle runs code: each hostile program is refused and the canary file is not touched."""

from __future__ import annotations

import contextlib
import copyreg
import io
import os
import pickle
import struct
import time
import zipfile

import numpy as np
import pytest

from smart_core.data import load
from smart_core.errors import LogitFileError
from tests.data.files import example, npy, npz, pickled, torch_bytes

Z, Y = example()
PROTOCOLS = range(6)


class Reduce:
    """Pickles as a call of `function(*arguments)`."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def calls(canary):
    command = f"touch {canary}"
    return {
        "os.system": Reduce(os.system, command),
        "eval": Reduce(eval, f"open({str(canary)!r}, 'w').close()"),
        "exec": Reduce(exec, f"open({str(canary)!r}, 'w').close()"),
        "open": Reduce(open, str(canary), "w"),
        "getattr": Reduce(getattr, "x", "upper"),
        "import": Reduce(__import__, "os"),
        "numpy.load": Reduce(np.load, str(canary)),
        "numpy.fromfile": Reduce(np.fromfile, str(canary)),
        "numpy.memmap": Reduce(np.memmap, str(canary), "float32", "w+", 0, (4,)),
        "numpy.save": Reduce(np.save, str(canary), 1),
        "numpy.savetxt": Reduce(np.savetxt, str(canary), [1]),
        "numpy.genfromtxt": Reduce(np.genfromtxt, str(canary)),
        "numpy.lib.DataSource": Reduce(np.lib.npyio.DataSource, str(canary)),
        "numpy.testing": Reduce(np.testing.measure, command),
        "numpy.vectorize": Reduce(np.vectorize, print),
        "pickle.loads": Reduce(pickle.loads, pickle.dumps(1)),
        "object array": np.array([Reduce(os.system, command)], dtype=object),
        "bytearray": Reduce(bytearray, 10**9),
        "set": {1, 2},
        "complex": 1j,
    }  # fmt: skip


def nested(bad):
    return {
        "alone": bad,
        "in a dict": {"logits": Z, "labels": Y, "extra": bad},
        "as a value among arrays": ((Z, Y), (Z, [bad])),
        "deep": {"a": [({"b": (bad,)},)]},
    }


def refuse_and_spare(content, canary, name="a.pkl", words=None):
    """Assert that the file is refused for the reason in `words` and that no code ran."""
    with pytest.raises(LogitFileError, match=words) as caught:
        load(content, name=name)
    assert not canary.exists()
    assert str(caught.value).startswith(f"{name}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("call", calls("x"))
def test_calls_are_refused(call, protocol, tmp_path):
    canary = tmp_path / "canary"
    for tree in nested(calls(canary)[call]).values():
        refuse_and_spare(pickled(tree, protocol), canary, words="asks for|has the instruction")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("thing", [os.system, eval, np.fromfile, np.matrix, Reduce])
def test_a_name_without_bytes_is_refused(thing, protocol, tmp_path):
    tree = {"logits": Z, "labels": Y, "extra": thing}
    refuse_and_spare(pickled(tree, protocol), tmp_path / "canary", words="asks for")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_ordinary_unpickler_would_run_the_code(protocol, tmp_path):
    canary = tmp_path / "canary"
    pickle.loads(pickled(nested(calls(canary)["os.system"])["deep"], protocol))
    assert canary.exists()


def program(canary):
    """Programs that no pickler writes."""
    system = f"S'touch {canary}'\n".encode()
    short = lambda text: b"\x8c" + bytes([len(text)]) + text.encode()  # noqa: E731
    return {
        "global": b"cos\nsystem\n(" + system + b"tR.",
        "posix": b"cposix\nsystem\n(" + system + b"tR.",
        "dotted name": b"\x80\x04" + short("numpy") + short("lib.npyio.os.system") + b"\x93.",
        "dotted module": b"\x80\x04" + short("numpy.lib.npyio") + short("os.system") + b"\x93.",
        "attribute of an allowed class": b"\x80\x04" + short("numpy") + short("ndarray.tofile") + b"\x93.",
        "dtype attribute": b"\x80\x04" + short("numpy") + short("dtype.__subclasses__") + b"\x93)R.",
        "inst": b"(" + system + b"ios\nsystem\n.",
        "obj": b"(cos\nsystem\n" + system + b"o.",
        "newobj": b"\x80\x02cnumpy\nndarray\n)\x81.",
        "newobj_ex": b"\x80\x04cnumpy\nndarray\n)}\x92.",
        "call of a mention": b"cnumpy\nndarray\n(I4\ntR.",
        "call of a result": b"cnumpy\ndtype\n(S'f4'\ntR(tR.",
        "call of text": b"S'os.system'\n(" + system + b"tR.",
        "build a mention": b"cnumpy\ndtype\n}S'__call__'\nS'x'\nsb.",
        "build a list": b"]}S'a'\nI1\nsb.",
        "build a dict's class": b"ccollections\nOrderedDict\n}S'__module__'\nS'x'\nsb.",
        "persistent id": b"Pos.system\n.",
        "binary persistent id": b"\x80\x02" + system + b"Q.",
        "extension 1": b"\x80\x02\x82\x01.",
        "extension 4": b"\x80\x02\x84\x01\x00\x00\x00.",
        "other encoding": b"c_codecs\nencode\n(Vabc\nS'rot13'\ntR.",
        "decode": b"c_codecs\ndecode\n(Vabc\nS'hex'\ntR.",
        "buffers": b"\x80\x05\x97.",
        "nothing": b".",
        "missing mark": b"\x80\x02K\x01t.",
        "no stop": b"\x80\x02K\x01",
        "empty memo": b"h\x05.",
    }  # fmt: skip


@pytest.mark.parametrize("name", program("x"))
def test_programs_are_refused(name, tmp_path):
    canary = tmp_path / "canary"
    words = {
        "inst": "instruction INST", "obj": "asks for", "newobj": "instruction NEWOBJ",
        "newobj_ex": "instruction NEWOBJ_EX", "call of a mention": "calls numpy.ndarray",
        "call of a result": "misuses a DType", "call of text": "misuses a str",
        "build a mention": "changes a Name",
        "build a list": "changes a list", "build a dict's class": "changes a Name",
        "persistent id": "instruction PERSID", "binary persistent id": "instruction BINPERSID",
        "extension 1": "instruction EXT1", "extension 4": "instruction EXT4",
        "buffers": "instruction NEXT_BUFFER",
        "other encoding": "another encoding", "no stop": "not a complete pickle",
        "nothing": "cannot be read", "missing mark": "mark is missing", "empty memo": "cannot be read",
    }.get(name, "asks for")  # fmt: skip
    refuse_and_spare(program(canary)[name], canary, words=words)


def test_the_extension_registry_is_refused(tmp_path):
    canary = tmp_path / "canary"
    copyreg.add_extension("os", "system", 231)
    try:
        argument = f"touch {canary}"
        body = b"\x80\x02\x82" + bytes([231]) + b"X" + struct.pack("<I", len(argument)) + argument.encode() + b"\x85R."
        refuse_and_spare(body, canary)
    finally:
        copyreg.remove_extension("os", "system", 231)


def array_program(shape, code, order, raw):
    """_reconstruct, then a state of our choosing."""
    state = pickle.dumps((1, shape), 2)[2:-1].replace(b"q\x00", b"").replace(b"q\x01", b"")
    start = b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    kind = b"cnumpy\ndtype\nU" + bytes([len(code)]) + code + b"\x85R"
    flat = state[: state.rindex(b"\x86")]
    return start + b"(" + flat + kind + order + b"U" + bytes([len(raw)]) + raw + b"tb."


def test_the_array_program_is_otherwise_sound():
    from smart_core.data.formats.pickle_file import read_pickle
    from smart_core.data.formats.raw import Source

    (array,) = read_pickle(Source("a.pkl", array_program((2, 3), b"u1", b"\x89", b"abcdef"))).arrays
    np.testing.assert_array_equal(array.values, np.frombuffer(b"abcdef", np.uint8).reshape(2, 3))


@pytest.mark.parametrize(
    ("shape", "code", "raw"),
    [
        ((10**12,), b"f8", b"abcdefgh"),
        ((2, 3), b"u1", b"abcde"),
        ((2, 3), b"u1", b"abcdefg"),
        ((-2, -3), b"u1", b"abcdef"),
        ((1,), b"O", b"abcdefgh"),
        ((1,), b"V8", b"abcdefgh"),
        ((1,), b"f4,O", b"abcdefgh"),
        ((1,), b"M8", b"abcdefgh"),
        ((1,), b"U99999999", b"abcdefgh"),
    ],
)
def test_array_states_are_checked(shape, code, raw, tmp_path):
    words = r"an array of shape|without a shape|do not hold plain numbers|the array holds"
    refuse_and_spare(array_program(shape, code, b"\x89", raw), tmp_path / "canary", words=words)


def doubling(depth, tuples):
    """A list (or tuple) of two of a list of two of ...: 2^depth entries in a few bytes."""
    body = b"\x80\x02" + (b")" if tuples else b"]")
    for i in range(depth):
        body += (
            b"q"
            + bytes([i])
            + (b"h" + bytes([i]) + b"\x86" if tuples else b"0]h" + bytes([i]) + b"ah" + bytes([i]) + b"a")
        )
    return body


def fan(width, depth):
    """A list of `width` times the same list of `width` times the same list ..."""
    body = b"\x80\x02]q\x00"
    for i in range(1, depth):
        body += b"0](" + b"h" + bytes([i - 1]) + (b"h" + bytes([i - 1])) * (width - 1) + b"eq" + bytes([i])
    return body


BOMBS = {
    "lists": doubling(60, False) + b".",
    "tuples": doubling(60, True) + b".",
    "wide lists": fan(200, 8) + b".",
    "one row over and over": b"\x80\x02](" + b"K\x01" * 5000 + b"eq\x000](" + b"h\x00" * 5000 + b"e.",
    "tuple as a key": doubling(60, True) + b"q\xff0}h\xffK\x01s.",
    "a list of itself": b"\x80\x02]q\x00h\x00a.",
    "memo index": b"\x80\x02K\x01r\xff\xff\xff\x7f0K\x01.",
    "bytearray of 2^40": b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + b"abc.",
    "bytes of 2^62": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 62) + b"abc.",
    "long of 2 GB": b"\x80\x02\x8b" + struct.pack("<i", 2**31 - 1) + b"abc.",
    "long in digits": b"L" + b"9" * 200_000 + b"L\n.",
    "frame": b"\x80\x04\x95" + struct.pack("<Q", 1 << 60) + b"N.",
    "one text encoded over and over": b"\x80\x02X" + struct.pack("<I", 10**6) + b"a" * 10**6 + b"q\x000("
    + b"c_codecs\nencode\nh\x00U\x06latin1\x86R" * 5000 + b"l.",
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused(name, tmp_path):
    start = time.perf_counter()
    words = {
        "lists": "too deeply", "tuples": "too deeply", "a list of itself": "too deeply",
        "wide lists": "larger than the file", "one row over and over": "larger than the file",
        "tuple as a key": "misuses a tuple", "memo index": "no arrays were found",
        "frame": "no arrays were found",
        "one text encoded over and over": "does not fit in the memory",
    }.get(name, "cannot be read")  # fmt: skip
    refuse_and_spare(BOMBS[name], tmp_path / "canary", words=words)
    assert time.perf_counter() - start < 10


@pytest.mark.parametrize("call", ["os.system", "eval", "numpy.fromfile"])
def test_torch_files_run_no_code(call, tmp_path):
    canary = tmp_path / "canary"
    good = torch_bytes({"logits": Z, "labels": Y})
    for protocol in (2, 4):
        evil = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(good)) as source, zipfile.ZipFile(evil, "w") as target:
            for member in source.namelist():
                data = source.read(member)
                target.writestr(member, pickled(calls(canary)[call], protocol) if member.endswith("data.pkl") else data)
        refuse_and_spare(evil.getvalue(), canary, "a.pt")
        legacy = torch_bytes(calls(canary)[call], _use_new_zipfile_serialization=False)
        refuse_and_spare(legacy, canary, "a.pt")


def test_object_arrays_are_never_unpickled(tmp_path):
    canary = tmp_path / "canary"
    evil = calls(canary)["object array"]
    refuse_and_spare(npz(logits=evil, labels=Y), canary, "a.npz")
    data = load(npz(logits=Z, labels=Y, extra=evil), name="a.npz")
    assert data.classes == 4
    assert not canary.exists()


@pytest.mark.parametrize("call", calls(""))
def test_a_dict_of_np_save_is_read_by_the_same_interpreter(call, tmp_path):
    canary = tmp_path / "canary"
    for evil in ({"logits": Z, "labels": Y, "extra": calls(canary)[call]}, {"logits": calls(canary)[call]}):
        with contextlib.suppress(LogitFileError):  # an array of objects is left out, as from a pickle
            load(npy(np.array(evil, dtype=object)), name="a.npy")
        assert not canary.exists()
    deep = {"logits": Z}
    for _ in range(50):
        deep = {"a": np.array(deep, dtype=object)}
    refuse_and_spare(npy(np.array(deep, dtype=object)), canary, "a.npy", words="too deeply")
