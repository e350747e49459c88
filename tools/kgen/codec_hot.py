"""Generates compiled modules: the messages that a share consumer uses most, decoded in C from the same Python source.

A nested struct of such a module is filled number by number (`_fill_…`). The `.pxd` file of the module turns it into
a C struct. Without compilation, the same functions run in the interpreter. Only arrays of rows have two readers: in C,
reading number by number is fastest; in the interpreter, one `struct` call per element is.
"""

from __future__ import annotations

from tools.kgen.codec_fields import StructCode, condition, initial_value, smallest_size
from tools.kgen.codec_rows import Row, row_of, snake
from tools.kgen.model import FIXED_SIZES, Field, SchemaError, Struct

NAMES = {
    "ShareFetchRequest",
    "ShareFetchResponse",
    "ShareAcknowledgeRequest",
    "ShareAcknowledgeResponse",
}


def filler_name(struct: Struct) -> str:
    return f"_fill{snake(struct.name)}"


def decoder(code: StructCode) -> list[str]:
    return [
        "    @classmethod",
        "    def decode_from(cls, buf: Buffer, pos: int, version: int) -> tuple[Self, int]:",
        "        item = cls.__new__(cls)",
        f"        return item, {filler_name(code.struct)}(item, buf, buf, pos, version)",
    ]


def filler(code: StructCode) -> list[str]:
    """Code that fills a struct. `view` and `buf` are the same bytes: a C array, if compiled, and an object to slice."""
    struct = code.struct
    if code.flexible.text or not code.flexible.always:
        raise SchemaError(
            f"{code.message.file}: {struct.name}: the message is compiled, so it must be flexible in all its versions"
        )
    lines: list[str] = []
    for field in struct.reachable:
        cond = condition(code.untagged(field), struct.versions)
        initial = f"item.{field.attribute} = {initial_value(field)}"
        if not cond.always:
            lines += [initial]
        elif cond.text:
            lines += [
                f"if {cond}:",
                *(f"    {line}" for line in _read(field, code)),
                "else:",
                f"    {initial}",
            ]
        else:
            lines += _read(field, code)
    lines += ["if view[pos] == 0:", '    item.unknown_tags = b""', "    return pos + 1"]
    if struct.tagged:
        lines += [f"tags, pos = {code.use('split_tags')}(buf, pos)", *code.read_known_tags("item.")]
        lines += [f"item.unknown_tags = {code.use('join_tags')}(tags)", "return pos"]
    else:
        lines += [f"item.unknown_tags, pos = {code.use('read_tags')}(buf, pos)", "return pos"]
    return [
        # Typed by a comment, because Cython would interpret annotations and find them in conflict with the .pxd.
        f"def {filler_name(struct)}(item, view, buf, pos, version):"
        f"  # type: ({struct.name}, Buffer, Buffer, int, int) -> int",
        f'    """Fill one {struct.name}. Returns the position after it."""',
        *(f"    {line}" for line in lines),
    ]


def _read(field: Field, code: StructCode) -> list[str]:
    kind, target = field.type, f"item.{field.attribute}"
    is_compact = code.field_flexible(field).always
    if kind.is_fixed and kind.name != "uuid":
        value = f"bigendian.{'int8' if kind.name == 'bool' else kind.name}(view, pos)"
        value += " != 0" if kind.name == "bool" else ""
        return [f"{target} = {value}", f"pos += {FIXED_SIZES[kind.name]}"]
    if kind.struct and not kind.is_array and not field.nullable:
        made = f"{target} = {kind.name}.__new__({kind.name})"
        return [made, f"pos = {filler_name(kind.struct)}({target}, view, buf, pos, version)"]
    if kind.struct and kind.is_array and is_compact and not field.nullable:
        return (_read_rows if code.is_row(kind.struct) else _read_structs)(field, kind.struct, code)
    if kind.name == "uuid" and not kind.is_array:
        return [f"{target}, pos = {code.use('read_uuid')}(buf, pos)"]
    lines = code.read_variable(field, "buf", "pos", "item.")
    if len(lines) == 1 and is_compact and not kind.is_array:
        if kind.name == "records" and not field.nullable:
            # A partition that is in the response only because of its acknowledgements has no records.
            empty = f"{target} = {code.use('NO_RECORDS')}"
            return ["if view[pos] == 1:", f"    {empty}", "    pos += 1", "else:", f"    {lines[0]}"]
        if kind.name == "string" and field.nullable:
            return ["if view[pos] == 0:", f"    {target} = None", "    pos += 1", "else:", f"    {lines[0]}"]
    return lines


def _read_structs(field: Field, struct: Struct, code: StructCode) -> list[str]:
    smallest = smallest_size(struct, code.message)
    return [
        f"count, pos = {code.use('read_count')}(buf, pos, True, {smallest})",
        f"item.{field.attribute} = []",
        "for _ in range(count):",
        f"    element = {struct.name}.__new__({struct.name})",
        f"    pos = {filler_name(struct)}(element, view, buf, pos, version)",
        f"    item.{field.attribute}.append(element)",
    ]


def _read_rows(field: Field, struct: Struct, code: StructCode) -> list[str]:
    """A short array has a count of one byte. If all its elements have the usual form, C reads it alone."""
    row = row_of(struct, code.message)
    assert row
    found = f"{row.reader}(view, pos + 1, count)"
    return [
        "count = view[pos] - 1",
        f"is_short = COMPILED and 0 <= count < 127 and count * {row.size} < len(view) - pos",
        f"rows = {found} if is_short else None",
        "if rows is not None and len(rows) == count:",
        f"    item.{field.attribute} = rows",
        f"    pos += 1 + count * {row.size}",
        "else:",
        f"    item.{field.attribute}, pos = {struct.name}.decode_rows(buf, pos, True, version)",
    ]


def row_reader(row: Row) -> list[str]:
    """Code that reads number by number, which Cython compiles to a loop that creates no objects except the elements."""
    name = row.struct.name
    body: list[str] = []
    offset = 0
    for field in row.fields:
        body += [f"item.{field.attribute} = bigendian.{field.type.name}(buf, {_at(offset)})"]
        offset += FIXED_SIZES[field.type.name]
    refusals = []
    if row.tail:
        size, wanted = (1, 2) if row.is_flexible else (4, 1)
        refusals += [f"bigendian.int{8 * size}(buf, {_at(offset)}) != {wanted}"]
        offset += size
        body += [f"item.{row.tail.attribute} = ONE_BYTE[buf[{_at(offset)}]]"]
        offset += 1
    if row.is_flexible:
        refusals += [f"bigendian.int8(buf, {_at(offset)}) != 0"]
        body += ['item.unknown_tags = b""']
    refuse = [f"        if {' or '.join(refusals)}:", "            break"] if refusals else []
    return [
        f"def {row.reader}(buf, pos, count):  # type: (Buffer, int, int) -> list[{name}]",
        '    """Read elements up to the first one with another form. The caller has checked the number of bytes."""',
        f"    items = []  # type: list[{name}]",
        "    for _ in range(count):",
        *refuse,
        f"        item = {name}.__new__({name})",
        *(f"        {line}" for line in body),
        f"        pos += {row.size}",
        "        items.append(item)",
        "    return items",
    ]


def row_writer(row: Row) -> list[str]:
    """Code that writes what `row_reader`'s code reads, into a buffer of the right size."""
    tests = ["x.unknown_tags"] if row.is_flexible else []
    body: list[str] = []
    offset = 0
    for field in row.fields:
        body += [f"bigendian.put_{field.type.name}(view, {_at(offset)}, x.{field.attribute})"]
        offset += FIXED_SIZES[field.type.name]
    if row.tail:
        tests += [f"len(x.{row.tail.attribute}) != 1"]
        size, wanted = (1, 2) if row.is_flexible else (4, 1)
        body += [f"bigendian.put_int{8 * size}(view, {_at(offset)}, {wanted})"]
        offset += size
        body += [f"view[{_at(offset)}] = x.{row.tail.attribute}[0]"]
        offset += 1
    if row.is_flexible:
        body += [f"bigendian.put_int8(view, {_at(offset)}, 0)"]
    return [
        f"def {row.writer}(view, pos, items):  # type: (bytearray, int, list[{row.struct.name}]) -> bool",
        '    """Returns False at the first element with another form."""',
        "    for x in items:",
        *([f"        if {' or '.join(tests)}:", "            return False"] if tests else []),
        *(f"        {line}" for line in body),
        f"        pos += {row.size}",
        "    return True",
    ]


def _at(offset: int) -> str:
    return f"pos + {offset}" if offset else "pos"


_C_TYPES = {
    "bool": "bint",
    "int8": "signed char",
    "int16": "short",
    "uint16": "unsigned short",
    "int32": "int",
    "uint32": "unsigned int",
    "int64": "long long",
    "float64": "double",
}


def _c_type(field: Field) -> str:
    """The C type. Numbers and bytes are typed; rows have no other fields, so the garbage collector can ignore them."""
    if str(field.type) == "[]int8" and not field.nullable:
        return "bytes"
    return _C_TYPES.get(field.type.name, "object") if field.type.is_fixed else "object"


def declarations(structs: list[Struct], rows: list[Row]) -> str:
    """The .pxd file. Nested structs become C structs; fields that aren't numbers remain Python objects."""
    lines = ["cimport cython", "cimport kshare.fast.bigendian as bigendian", ""]
    for struct in structs:
        lines += ["", f"cdef class {struct.name}:"]
        for field in struct.reachable:
            lines += [f"    cdef public {_c_type(field)} {field.attribute}"]
        lines += ["    cdef public bytes unknown_tags", ""]
    for struct in structs:
        arrays = [field for field in struct.reachable if field.tag is None and field.type.is_array]
        elements = {array.type.name for array in arrays if array.type.struct}
        element = elements.pop() if len(elements) == 1 else "object"
        lines += ["", f"@cython.locals(count=Py_ssize_t, element={element})"]
        lines += [f"cdef Py_ssize_t {filler_name(struct)}("]
        lines += [
            f"    {struct.name} item, const unsigned char[::1] view, object buf, Py_ssize_t pos, int version"
        ]
        lines += [") except -1", ""]
    for row in rows:
        lines += ["", f"@cython.locals(item={row.struct.name})"]
        lines += [
            f"cdef list {row.reader}(const unsigned char[::1] buf, Py_ssize_t pos, Py_ssize_t count)",
            "",
        ]
        lines += ["", f"@cython.locals(x={row.struct.name})"]
        lines += [
            f"cdef bint {row.writer}(unsigned char[::1] view, Py_ssize_t pos, object items) except -1",
            "",
        ]
    return "\n".join(lines)
