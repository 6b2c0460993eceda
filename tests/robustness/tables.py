"""Tables as they come: text with other separators, quotes and encodings; parquet and feather with odd columns."""

from __future__ import annotations

import decimal
import io
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

from tests.data.test_formats import frame
from tests.robustness.arrays import Y, Z
from tests.robustness.case import Case, fixed
from tests.robustness.names import HOSTILE_NAMES

HEADER = "a,b,c,d,label"
ROWS = [",".join([*(f"{value:.5f}" for value in row), str(label)]) for row, label in zip(Z, Y, strict=True)]
PLAIN = "\n".join([HEADER, *ROWS]) + "\n"


def _cell(value: str, row: int = 7, column: int = 1) -> str:
    """The plain table with one cell replaced."""
    rows = [line.split(",") for line in ROWS]
    rows[row][column] = value
    return "\n".join([HEADER, *map(",".join, rows)]) + "\n"


def _texts() -> Iterator[tuple[str, str]]:
    for separator in (";", "\t", "|", " ", "^", ":", ",,", ", ", "\x01", "\u3000"):
        yield "separator", PLAIN.replace(",", separator)
    yield "separator", PLAIN.replace(",", ";").replace(".", ",")
    for quote in ('"', "'", "“"):
        yield (
            "quotes",
            "\n".join(",".join(f"{quote}{cell}{quote}" for cell in line.split(",")) for line in PLAIN.splitlines()),
        )
    for cell in ('"', '""', '"1,2"', '"1\n2"', '"never closed', "'", '\\"', '"a""b"'):
        yield "quotes", _cell(cell)
    for cell in ("", " ", "NA", "nan", "NULL", "-", "?", "None", "#N/A", "inf", "-inf", "1e400", "1e-400", "1_000",
                 "1.000,5", "0x10", "1/2", "12%", "true", "2026-01-01", "١٢", "1\x00", "\x1b[31m", "=1+1", "9" * 5000,
                 "\ud7ff", "−1"):  # fmt: skip
        yield "cells", _cell(cell)
        yield "cells", _cell(cell, column=4)
    yield (
        "missing",
        "\n".join(line.rsplit(",", 1)[0] if i % 5 == 3 else line for i, line in enumerate(PLAIN.split("\n"))),
    )
    yield "missing", PLAIN.replace(f"\n{ROWS[9]}\n", "\n\n")
    yield "missing", PLAIN.replace(ROWS[9], ",,,,")
    yield "missing", PLAIN.replace(ROWS[9], ROWS[9] + ",1,2,3")
    yield "missing", "\n".join(f"{line}," for line in PLAIN.splitlines())
    yield "missing", HEADER
    yield "missing", "\n\n\n"
    yield "missing", "\n" * 50 + PLAIN
    yield "comments", "# made by hand\n# twice\n" + PLAIN
    yield "comments", "sep=,\n" + PLAIN
    yield "comments", "a table\n\n" + PLAIN
    for end in ("\r\n", "\r", "\n\r", "\x0b", "\u2028", "\x0c"):
        yield "line ends", PLAIN.replace("\n", end)
    yield "no header", "\n".join(ROWS)
    yield "no header", "\n".join([HEADER, HEADER, *ROWS])
    for names in ("a,a,a,a,a", "a,a,a,a,label", ",,,,", "label,label,label,label,label", "0,1,2,3,4", "label,a,b,c,d"):
        yield "columns", "\n".join([names, *ROWS])
    for name in HOSTILE_NAMES:
        quoted = '"' + name.replace('"', '""') + '"'
        yield "names", "\n".join([f"{quoted},b,c,d,label", *ROWS])
        yield (
            "names",
            "\n".join(["a,b,c,d,label", *(line[:-1] + (quoted if line[-1] == "0" else line[-1]) for line in ROWS)]),
        )
    yield "long line", "a" * 3_000_000
    yield "long line", ",".join(["1.5"] * 300_000)
    yield "long line", PLAIN + "1," + "9" * 2_000_000 + ",1,1,0\n"
    yield "long line", "x" * 2_000_000 + ",b,c,d,label\n" + "\n".join(ROWS)
    yield "long line", '"' * 1_000_001
    yield "many rows", HEADER + "\n" + (ROWS[0] + "\n") * 40_000


def _encoded() -> Iterator[tuple[str, bytes]]:
    for encoding in (
        "utf-8-sig",
        "utf-16",
        "utf-16-le",
        "utf-16-be",
        "utf-32",
        "cp1252",
        "shift_jis",
        "utf-7",
        "cp037",
    ):
        yield encoding, PLAIN.replace("a,", "é,", 1).encode(encoding, "replace")
    yield "wrong letters", PLAIN.replace("a,", "\u00ff,", 1).encode("latin-1")
    yield "zeros", PLAIN.encode().replace(b",", b",\0")
    yield "zeros", PLAIN.encode() + bytes(5000)
    yield "cut letter", PLAIN.encode() + "é".encode()[:1]
    yield "two marks", b"\xef\xbb\xbf\xef\xbb\xbf" + PLAIN.encode()
    yield "wrong mark", b"\xff\xfe" + PLAIN.encode()
    yield "control", bytes(range(32)) * 50
    yield "noise", np.random.default_rng(1).bytes(3000)


def odd_text() -> Iterator[Case]:
    for number, (kind, text) in enumerate(_texts()):
        content = text.encode("utf-8", "surrogatepass")
        yield fixed(f"text_{number}.csv", f"csv {kind}", content)
        if len(content) < 100_000:
            yield fixed(f"text_{number}.tsv", f"csv {kind}", content)
    for number, (_, content) in enumerate(_encoded()):
        yield fixed(f"encoded_{number}.csv", "csv encoding", content)


def _columns() -> Iterator[tuple[str, pa.Table]]:
    base = {"a": Z[:, 0], "b": Z[:, 1], "label": Y % 2}
    lists = pa.array([row.tolist() for row in Z])

    def table(**columns: object) -> pa.Table:
        return pa.table({**base, **columns})

    yield "nested", pa.table({"logits": lists, "label": Y})
    yield "nested", pa.table({"logits": pa.array([[row.tolist()] for row in Z]), "label": Y})
    yield "nested", pa.table({"logits": pa.array([row[: 1 + i % 4].tolist() for i, row in enumerate(Z)]), "label": Y})
    yield (
        "nested",
        pa.table({"logits": pa.array([None if i % 7 == 0 else r.tolist() for i, r in enumerate(Z)]), "label": Y}),
    )
    yield (
        "nested",
        pa.table({"logits": pa.array([[None, *r[1:].tolist()] for r in Z], pa.list_(pa.float32())), "label": Y}),
    )
    yield "nested", pa.table({"logits": pa.array([{"x": float(r[0]), "y": [1]} for r in Z]), "label": Y})
    yield (
        "nested",
        pa.table({"logits": pa.array([[("k", 1.0)] for _ in Z], pa.map_(pa.string(), pa.float64())), "label": Y}),
    )
    yield "nested", pa.table({"logits": pa.array([[{"a": [[1.0]]}] for _ in Z]), "label": Y})
    yield "nested", pa.table({"logits": pa.array([[] for _ in Z], pa.list_(pa.float32())), "label": Y})
    yield "nested", pa.table({"logits": pa.FixedSizeListArray.from_arrays(pa.array(Z.reshape(-1)), 4), "label": Y})
    yield "nested", pa.table({"logits": lists.cast(pa.large_list(pa.float64())), "label": Y})
    yield "nested", table(extra=pa.array([{"deep": {"er": [1, 2]}} for _ in Z]))
    yield "types", table(extra=pa.array([decimal.Decimal("1.5")] * 60))
    yield "types", table(extra=pa.array(np.arange(60).astype("M8[ns]")))
    yield "types", table(extra=pa.array([b"\x80\x04."] * 60))
    yield "types", table(extra=pa.nulls(60))
    yield "types", table(extra=pa.array(["x"] * 60).dictionary_encode())
    yield "types", table(a=pa.array(Z[:, 0].astype(np.float16)))
    yield "types", table(a=pa.array([decimal.Decimal(f"{v:.3f}") for v in Z[:, 0]]))
    yield "types", table(a=pa.array([None, *Z[1:, 0].tolist()]))
    yield "types", table(a=pa.array([float("nan"), *Z[1:, 0].tolist()]))
    yield "types", table(a=pa.array([str(v) for v in Z[:, 0]]))
    yield "types", table(a=pa.array([bool(v > 0) for v in Z[:, 0]]))
    yield "types", table(label=pa.array([None, *(Y[1:] % 2).tolist()]))
    yield "types", table(label=pa.array(["cat", "dog"] * 30).dictionary_encode())
    yield "types", table(label=pa.array(Y % 2, pa.uint64()))
    yield "columns", pa.Table.from_arrays([pa.array(Z[:, 0])] * 3 + [pa.array(Y)], names=["a", "a", "a", "label"])
    yield "columns", pa.table({f"c{i}": Z[:, 0] for i in range(3000)} | {"label": Y})
    yield "columns", pa.table({"label": Y})
    yield "rows", table().slice(0, 0)
    yield "rows", table().slice(0, 1)
    yield "rows", pa.table({})
    yield "rows", pa.concat_tables([table().slice(i, 1) for i in range(60)])
    for name in HOSTILE_NAMES:
        good = name.encode("utf-8", "replace").decode()
        yield "names", pa.table({good or "-": Z[:, 0], "b": Z[:, 1], "label": Y % 2})
        yield "names", pa.table({**base, "group": [good] * 60})


def odd_columns() -> Iterator[Case]:
    """Each table as parquet and as feather."""
    for number, (kind, table) in enumerate(_columns()):
        for extension, write in (
            ("parquet", pyarrow.parquet.write_table),
            ("feather", lambda table, sink: pyarrow.feather.write_feather(table, sink, compression="lz4")),
        ):
            stream = io.BytesIO()
            try:
                write(table, stream)
            except (pa.ArrowException, ValueError):  # the format has no place for it
                continue
            yield fixed(f"table_{number}.{extension}", f"table {kind}", stream.getvalue())
    lying = pa.Table.from_pandas(frame())
    for metadata in (
        {b"pandas": b"{"},
        {b"pandas": b'{"index_columns": [{"kind": "range"}]}'},
        {b"x": b"y" * 2_000_000},
    ):
        for extension in ("parquet", "feather"):
            stream = io.BytesIO()
            marked = lying.replace_schema_metadata(metadata)
            if extension == "parquet":
                pyarrow.parquet.write_table(marked, stream)
            else:
                pyarrow.feather.write_feather(marked, stream)
            yield fixed(f"metadata.{extension}", "table metadata", stream.getvalue())
    indexed = pd.DataFrame(Z, index=pd.MultiIndex.from_product([range(6), range(10)])).rename(columns=str)
    stream = io.BytesIO()
    indexed.assign(label=Y).to_parquet(stream)
    yield fixed("index.parquet", "table metadata", stream.getvalue())
