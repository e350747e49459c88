"""Generates code for arrays of structs that all have the same encoded size: a whole array is read or written at once.

A row is a struct that has only numbers. Its last field may be an array of int8 that usually has one element
(AcknowledgementBatch, the message that a share consumer sends most). If an element has another form (tagged fields,
more numbers), the whole array is processed in the ordinary way. So rows are just an optimization.
"""

from __future__ import annotations

from dataclasses import dataclass

from tools.kgen.model import FIXED_SIZES, Field, Message, Struct

CODES = {
    "bool": "B",  # Kafka writes 0 or 1, and reads any byte except 0 as true
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
}


@dataclass(frozen=True, slots=True)
class Row:
    """A struct with only numbers. `tail` is the array that usually has one element."""

    struct: Struct
    fields: list[Field]
    tail: Field | None
    is_flexible: bool

    @property
    def code(self) -> str:
        codes = "".join(CODES[field.type.name] for field in self.fields)
        if self.tail:
            codes += "BB" if self.is_flexible else "iB"
        return codes + ("B" if self.is_flexible else "")

    @property
    def size(self) -> int:
        fixed = sum(FIXED_SIZES[field.type.name] for field in self.fields) + self.is_flexible
        if self.tail:
            fixed += 2 if self.is_flexible else 5
        return fixed

    @property
    def reader(self) -> str:
        """The name of the function in a compiled module that reads many rows (see codec_hot)."""
        return f"_read{snake(self.struct.name)}_rows"

    @property
    def writer(self) -> str:
        return f"_write{snake(self.struct.name)}_rows"


def snake(name: str) -> str:
    """AcquiredRecords → _acquired_records."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)


def row_of(struct: Struct, message: Message) -> Row | None:
    """The struct as a row; None if it isn't one in all its versions."""
    fields = list(struct.reachable)
    tail = None
    if fields and str(fields[-1].type) == "[]int8" and not fields[-1].nullable:
        tail = fields.pop()
    flexible = message.flexible & struct.versions
    is_row = (
        struct is not message.body
        and bool(fields)
        and (flexible.covers(struct.versions) if flexible else True)
        and (tail is None or tail.versions.covers(struct.versions))
        and all(_is_number(field) and field.versions.covers(struct.versions) for field in fields)
    )
    return Row(struct, fields, tail, bool(flexible) and flexible.covers(struct.versions)) if is_row else None


def _is_number(field: Field) -> bool:
    return field.type.is_fixed and field.type.name not in ("uuid", "bool") and field.tag is None


def methods(row: Row, smallest: int, is_hot: bool) -> list[str]:
    return [*_encoder(row, is_hot), "", *_decoder(row, smallest, is_hot)]


def _encoder(row: Row, is_hot: bool) -> list[str]:
    name = row.struct.name
    values = [f"x.{field.attribute}" for field in row.fields]
    tests = ["not x.unknown_tags"] if row.is_flexible else []
    if row.tail:
        values += ["2" if row.is_flexible else "1", f"x.{row.tail.attribute}[0]"]
        tests += [f"len(x.{row.tail.attribute}) == 1"]
    if row.is_flexible:
        values += ["0"]
    pack = f"out += _{row.code}.pack({', '.join(values)})"
    lines = [
        "    @staticmethod",
        f"    def encode_rows(out: bytearray, items: list[{name}], flexible: bool, version: int) -> None:",
        '        """Encode an array, with one struct call per element."""',
        "        write_count(out, len(items), flexible)",
        *(_hot_encoder(row) if is_hot else []),
        "        for x in items:",
    ]
    if not tests:
        return [*lines, f"            {pack}"]
    return [
        *lines,
        f"            if {' and '.join(tests)}:",
        f"                {pack}",
        "            else:",
        "                x.encode_into(out, version)",
    ]


def _hot_encoder(row: Row) -> list[str]:
    return [
        "        if COMPILED:",
        "            start = len(out)",
        f"            out += bytes(len(items) * {row.size})",
        f"            if {row.writer}(out, start, items):",
        "                return",
        "            del out[start:]",
    ]


def _decoder(row: Row, smallest: int, is_hot: bool) -> list[str]:
    name = row.struct.name
    names = [field.attribute for field in row.fields]
    values = list(names)
    tests = []
    if row.tail:
        values += [f"ONE_BYTE[{row.tail.attribute}]"]
        names += ["count_of_one", row.tail.attribute]
        tests += [f"count_of_one == {2 if row.is_flexible else 1}"]
    if row.is_flexible:
        names += ["tags"]
        tests += ["not tags"]
    unpacked = ", ".join(names) + ("," if len(names) == 1 else "")
    comprehension = [
        f"{name}({', '.join(values)})",
        f"for {unpacked} in _{row.code}.iter_unpack(memoryview(buf)[start:end])",
        *([f"if {' and '.join(tests)}"] if tests else []),
    ]
    indent = "    " if is_hot else ""
    body = [f"{indent}items = [", *(f"{indent}    {line}" for line in comprehension), f"{indent}]"]
    if is_hot:
        body = ["if COMPILED:", f"    items = {row.reader}(buf, start, count)", "else:", *body]
    return [
        "    @staticmethod",
        "    def decode_rows(",
        "        buf: Buffer, pos: int, flexible: bool, version: int",
        f"    ) -> tuple[list[{name}], int]:",
        '        """Decode an array, all at once if its elements have the usual form."""',
        f"        count, start = read_count(buf, pos, flexible, {smallest})",
        f"        end = start + count * {row.size}",
        "        if end <= len(buf):",
        *(f"            {line}" for line in body),
        "            if len(items) == count:",
        "                return items, end",
        f"        return read_structs(buf, pos, flexible, {smallest}, {name}.decode_from, version)",
    ]
