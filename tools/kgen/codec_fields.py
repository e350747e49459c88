"""Generates straight-line code for `encode_into` and `decode_from` of one struct.

Consecutive fixed-width fields of the same versions are read and written by field `struct` call; versions are cheap
branches. `codec_rows` handles whole arrays of fixed-width structs.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from tools.kgen.codec_rows import CODES, row_of
from tools.kgen.model import FIXED_SIZES, Field, Message, Struct, Versions


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on `version`, as a Python expression. `text` is None if all versions of the struct are alike."""

    always: bool
    text: str | None = None

    def __str__(self) -> str:
        return self.text or str(self.always)


def condition(wanted: Versions, within: Versions) -> Condition:
    wanted = wanted & within
    if not wanted:
        return Condition(False)
    if wanted.covers(within):
        return Condition(True)
    if wanted.first > within.first and wanted.last < within.last:
        return Condition(True, f"{wanted.first} <= version <= {wanted.last}")
    if wanted.first > within.first:
        return Condition(True, f"version >= {wanted.first}")
    return Condition(True, f"version <= {wanted.last}")


class StructCode:
    """Generates the code of one struct, and collects what it needs: imported names and packers."""

    def __init__(self, struct: Struct, message: Message) -> None:
        self.struct = struct
        self.message = message
        self.imports: set[str] = set()
        self.packers: set[str] = set()
        self.flexible = condition(message.flexible, struct.versions)
        self.row = row_of(struct, message) if struct in _elements(message) else None
        if self.row:
            self.packers.add(f"_{self.row.code}")
            self.imports |= {"write_count", "read_count", "read_structs"} | (
                {"ONE_BYTE"} if self.row.tail else set()
            )

    # --- shared parts

    def use(self, name: str) -> str:
        self.imports.add(name)
        return name

    def packer(self, fields: list[Field]) -> str:
        name = "_" + "".join(CODES[field.type.name] for field in fields)
        self.packers.add(name)
        return name

    def is_row(self, struct: Struct) -> bool:
        return row_of(struct, self.message) is not None

    def field_flexible(self, field: Field) -> Condition:
        if field.tag is not None and field.tagged.covers(field.versions):
            return Condition(True)
        if field.flexible.covers(self.message.flexible & field.versions):
            return self.flexible if not self.flexible.text else Condition(True, "flexible")
        return Condition(False)

    def _runs(self) -> list[tuple[Versions, list[Field]]]:
        """Untagged fields in order. Consecutive ones that one struct call can handle are grouped."""
        regular = [field for field in self.struct.reachable if self.untagged(field)]
        runs: list[tuple[Versions, list[Field]]] = []
        keys = groupby(
            regular,
            key=lambda field: (self.untagged(field), field.type.is_fixed and field.type.name != "uuid"),
        )
        for (versions, fixed), fields in keys:
            group = list(fields)
            runs += [(versions, group)] if fixed else [(versions, [field]) for field in group]
        return runs

    def untagged(self, field: Field) -> Versions:
        """The versions in which a field isn't tagged."""
        if field.tag is None:
            return field.versions
        if field.tagged.covers(field.versions):
            return Versions(1, 0)
        return Versions(field.versions.first, field.tagged.first - 1)

    # --- encoding

    def encoder(self) -> list[str]:
        lines = ["    def encode_into(self, out: bytearray, version: int) -> None:"]
        body: list[str] = []
        if self.flexible.text:
            body += [f"flexible = {self.flexible}"]
        for versions, fields in self._runs():
            body += self._guarded(versions, fields, self._write_run(fields))
        for field in self.struct.tagged:
            if field.tagged.covers(field.versions):
                body += self._guarded(field.versions, [field], [])
        body += self._write_tags()
        return lines + [f"        {line}" for line in body]

    def _guarded(self, versions: Versions, fields: list[Field], write: list[str]) -> list[str]:
        """`write` with its version condition. In other versions, a value that would be lost raises an error."""
        cond = condition(versions, self.struct.versions)
        tests = " or ".join(self._differs(field) for field in fields if not field.ignorable)
        refusal = (
            [f'raise {self.use("UnencodableError")}("the version can\'t carry the field")'] if tests else []
        )
        if not cond.text:
            return write
        if not write:
            outside = f"not ({cond})" if " <= version" in str(cond) else _negated(str(cond))
            return [f"if {outside} and {tests}:", *_indent(refusal)] if tests else []
        lines = [f"if {cond}:", *_indent(write)]
        return [*lines, f"elif {tests}:", *_indent(refusal)] if tests else lines

    def _differs(self, field: Field) -> str:
        value = f"self.{field.attribute}"
        if field.default is None and not (
            field.type.struct and not field.nullable and not field.type.is_array
        ):
            return f"{value} is not None"
        if field.type.struct and not field.type.is_array:
            return f"{value} != {field.type.name}()"
        if field.type.name == "uuid" and not field.type.is_array:
            return f"{value} != bytes(16)"
        if field.type.is_array and field.nullable:
            return f"{value} is None or {value}"
        if field.nullable and field.default in ("", b""):
            return f"{value} != {field.default!r}"
        if field.default in (False, 0, "", b"", []) or field.type.is_array:
            return value
        if field.default is True:
            return f"not {value}"
        return f"{value} != {field.default!r}"

    def _write_run(self, fields: list[Field]) -> list[str]:
        field = fields[0]
        if not field.type.is_fixed:
            return self._write_nullable(field, "out")
        if field.type.name == "uuid":
            return [f"{self.use('write_uuid')}(out, self.{field.attribute})"]
        values = ", ".join(_packable(field, f"self.{field.attribute}") for field in fields)
        return [f"out += {self.packer(fields)}.pack({values})"]

    def _write_nullable(self, field: Field, out: str) -> list[str]:
        """Code for a field of variable length. If only some versions allow null, it raises an error in the others."""
        value = f"self.{field.attribute}"
        nullable = condition(field.nullable, field.versions & self.struct.versions)
        needs_check = nullable.text is not None
        lines = []
        if needs_check:
            lines += [f"if {value} is None and {_negated(str(nullable)) if nullable.text else 'True'}:"]
            lines += _indent([f'raise {self.use("UnencodableError")}("the version allows no null")'])
            lines[0] = lines[0].replace(" and True", "")
        return [*lines, self._write_value(field, value, out, bool(field.nullable))]

    def _write_value(self, field: Field, value: str, out: str, nullable: bool) -> str:
        flexible = self.field_flexible(field)
        kind = field.type
        if kind.is_array:
            return self._write_array(field, value, out, flexible)
        if kind.struct:
            if nullable:
                return f"{self.use('write_nullable_struct')}({out}, {value}, version)"
            return f"{value}.encode_into({out}, version)"
        return f"{self._choose('write', kind.name, nullable, flexible)}({out}, {value})"

    def _write_array(self, field: Field, value: str, out: str, flexible: Condition) -> str:
        kind = field.type
        if kind.struct:
            if self.is_row(kind.struct) and not field.nullable:
                return f"{kind.name}.encode_rows({out}, {value}, {flexible}, version)"
            return f"{self.use('write_structs')}({out}, {value}, {flexible}, version)"
        if kind.name == "int8":
            return f"{self.use('write_int8s')}({out}, {value}, {flexible})"
        if kind.name in FIXED_SIZES and kind.name != "uuid":
            return f'{self.use("write_numbers")}({out}, {value}, {flexible}, "{CODES[kind.name]}")'
        writer = (
            self.use("write_uuid")
            if kind.name == "uuid"
            else self._choose("write", kind.name, False, flexible)
        )
        return f"{self.use('write_values')}({out}, {value}, {flexible}, {writer})"

    def _choose(self, verb: str, kind: str, nullable: bool, flexible: Condition) -> str:
        """The primitive for a string, bytes or records. If flexibility depends on the version, chosen at run time."""
        if kind == "records" and verb == "write":
            kind = "bytes"
        name = f"{'nullable_' if nullable else ''}{kind}"
        if not flexible.always:
            return self.use(f"{verb}_{name}")
        if not flexible.text:
            return self.use(f"{verb}_compact_{name}")
        return f"({self.use(f'{verb}_compact_{name}')} if flexible else {self.use(f'{verb}_{name}')})"

    def _write_tags(self) -> list[str]:
        if not self.flexible.always:
            return [
                "if self.unknown_tags:",
                f'    raise {self.use("UnencodableError")}("the version has no tagged fields")',
            ]
        lines: list[str] = []
        known = self.struct.tagged
        if known:
            lines += ["known: dict[int, bytearray | None] = {}"]
        for field in known:
            cond = condition(field.tagged, self.message.flexible & self.struct.versions)
            write = [f"known[{field.tag}] = None", f"if {self._differs(field)}:"]
            write += _indent([f"known[{field.tag}] = part = bytearray()", *self._write_tagged(field)])
            lines += [f"if {cond}:", *_indent(write)] if cond.text else write
        tags = "self.unknown_tags"
        if known:
            tags = f"{self.use('merge_tags')}(known, self.unknown_tags)"
        lines += [f"{self.use('write_tags')}(out, {tags})"]
        if not self.flexible.text:
            return lines
        refusal = f'raise {self.use("UnencodableError")}("the version has no tagged fields")'
        return ["if flexible:", *_indent(lines), "elif self.unknown_tags:", *_indent([refusal])]

    def _write_tagged(self, field: Field) -> list[str]:
        if not field.type.is_fixed:
            return self._write_nullable(field, "part")
        if field.type.name == "uuid":
            return [f"{self.use('write_uuid')}(part, self.{field.attribute})"]
        return [f"part += {self.packer([field])}.pack({_packable(field, f'self.{field.attribute}')})"]

    # --- decoding

    def decoder(self) -> list[str]:
        lines = ["    @classmethod"]
        lines += ["    def decode_from(cls, buf: Buffer, pos: int, version: int) -> tuple[Self, int]:"]
        body: list[str] = []
        if self.flexible.text:
            body += [f"flexible = {self.flexible}"]
        for field in self.struct.reachable:
            if not self.untagged(field).covers(self.struct.versions) or not self.untagged(field):
                body += [self._initial(field)]
        for versions, fields in self._runs():
            cond = condition(versions, self.struct.versions)
            read = self._read_run(fields)
            body += [f"if {cond}:", *_indent(read)] if cond.text else read
        body += self._read_tags()
        names = [field.attribute for field in self.struct.reachable]
        made = f"cls({', '.join([*names, 'unknown_tags'])})"
        if len(made) < 80:
            body += [f"return {made}, pos"]
        else:
            body += ["return cls(", *(f"    {name}," for name in [*names, "unknown_tags"]), "), pos"]
        return lines + [f"        {line}" for line in body]

    def _initial(self, field: Field) -> str:
        from tools.kgen.codec import python_type

        return f"{field.attribute}: {python_type(field)} = {initial_value(field)}"

    def _read_run(self, fields: list[Field]) -> list[str]:
        field = fields[0]
        if not field.type.is_fixed:
            return self.read_variable(field, "buf", "pos")
        if field.type.name == "uuid":
            return [f"{field.attribute}, pos = {self.use('read_uuid')}(buf, pos)"]
        return [
            *self._read_fixed(fields, "buf", "pos"),
            f"pos += {sum(FIXED_SIZES[f.type.name] for f in fields)}",
        ]

    def _read_fixed(self, fields: list[Field], buf: str, pos: str, owner: str = "") -> list[str]:
        targets = [owner + field.attribute for field in fields]
        names = ", ".join(targets) + ("," if len(fields) == 1 else "")
        target = f"({names})" if len(fields) == 1 else names
        lines = [f"{target} = {self.packer(fields)}.unpack_from({buf}, {pos})"]
        return lines + [
            f"{name} = {name} != 0"
            for field, name in zip(fields, targets, strict=True)
            if field.type.name == "bool"
        ]

    def read_variable(self, field: Field, buf: str, pos: str, owner: str = "") -> list[str]:
        """Null is an error in versions that don't allow it. `owner` is "item." to set fields of an existing object."""
        flexible = self.field_flexible(field)
        kind, name = field.type, owner + field.attribute
        nullable = condition(field.nullable, field.versions & self.struct.versions)
        strict = not nullable.always
        if kind.is_array:
            lines = [f"{name}, pos = {self._read_array(field, flexible, buf, pos)}"]
        elif kind.struct:
            reader = f"{kind.name}.decode_from"
            if strict:
                return [f"{name}, pos = {reader}({buf}, {pos}, version)"]
            lines = [f"{name}, pos = {self.use('read_nullable_struct')}({buf}, {pos}, {reader}, version)"]
        else:
            lines = [f"{name}, pos = {self._choose('read', kind.name, not strict, flexible)}({buf}, {pos})"]
        if strict or (nullable.always and not nullable.text):
            return lines
        test = f"{name} is None" + (f" and {_negated(str(nullable))}" if nullable.text else "")
        return [
            *lines,
            f"if {test}:",
            f'    raise {self.use("MalformedError")}("null, where the version allows none")',
        ]

    def _read_array(self, field: Field, flexible: Condition, buf: str, pos: str) -> str:
        kind = field.type
        read = "read_nullable_" if field.nullable else "read_"
        start = f"({buf}, {pos}, {flexible}"
        if kind.struct:
            if self.is_row(kind.struct) and not field.nullable:
                return f"{kind.name}.decode_rows{start}, version)"
            smallest = smallest_size(kind.struct, self.message)
            return f"{self.use(read + 'structs')}{start}, {smallest}, {kind.name}.decode_from, version)"
        if kind.name == "int8":
            return f"{self.use(read + 'int8s')}{start})"
        if kind.name in FIXED_SIZES and kind.name != "uuid":
            code, size = CODES[kind.name], FIXED_SIZES[kind.name]
            return f'{self.use(read + "numbers")}{start}, "{code}", {size})'
        if kind.name == "uuid":
            return f"{self.use(read + 'values')}{start}, 16, {self.use('read_uuid')})"
        reader = self._choose("read", kind.name, False, flexible)
        return f"{self.use(read + 'values')}{start}, 1, {reader})"

    def _read_tags(self) -> list[str]:
        if not self.flexible.always:
            return ['unknown_tags = b""']
        lines = [f"unknown_tags, pos = {self.use('read_tags')}(buf, pos)"]
        if self.struct.tagged:
            lines += ["if unknown_tags:", f"    tags, _ = {self.use('split_tags')}(unknown_tags, 0)"]
            lines += _indent([*self.read_known_tags(), f"unknown_tags = {self.use('join_tags')}(tags)"])
        if not self.flexible.text:
            return lines
        return ['unknown_tags = b""', "if flexible:", *_indent(lines)]

    def read_known_tags(self, owner: str = "") -> list[str]:
        """Code that removes the known tags from `tags` and reads them."""
        lines: list[str] = []
        for field in self.struct.tagged:
            cond = condition(field.tagged, self.message.flexible & self.struct.versions)
            test = f"{field.tag} in tags" + (f" and {cond}" if cond.text else "")
            lines += [f"if {test}:", *_indent(self._read_tagged(field, owner))]
        return lines

    def _read_tagged(self, field: Field, owner: str) -> list[str]:
        lines = [f"part = tags.pop({field.tag})"]
        if str(field.type) == "uuid":
            lines += [f"{owner}{field.attribute}, end = {self.use('read_uuid')}(part, 0)"]
        elif field.type.is_fixed:
            lines += [*self._read_fixed([field], "part", "0", owner), f"end = {FIXED_SIZES[field.type.name]}"]
        else:
            read = self.read_variable(field, "part", "0", owner)
            lines += [line.replace(", pos = ", ", end = ", 1) for line in read]
        return [*lines, f"{self.use('check_tag_end')}(part, end)"]


def initial_value(field: Field) -> str:
    """A field's value before it is read, as Python source: its default, which must not be a shared object."""
    from tools.kgen.codec import literal

    if field.default is None and field.nullable:
        return "None"
    if field.type.is_array:
        return 'b""' if field.type.name == "int8" else "[]"
    return f"{field.type.name}()" if field.type.struct else literal(field)


def _elements(message: Message) -> set[Struct]:
    """Structs that are elements of an array."""
    fields = [field for struct in [message.body, *message.structs] for field in struct.reachable]
    return {field.type.struct for field in fields if field.type.struct and field.type.is_array}


def _packable(field: Field, value: str) -> str:
    return f"1 if {value} else 0" if field.type.name == "bool" else value


def _negated(cond: str) -> str:
    if cond.startswith("version >= "):
        return f"version < {cond.removeprefix('version >= ')}"
    if cond.startswith("version <= "):
        return f"version > {cond.removeprefix('version <= ')}"
    return f"not {cond}"


def _indent(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def smallest_size(struct: Struct, message: Message) -> int:
    """The minimum size of such a struct in any version, in bytes. It is used to detect impossible array counts."""
    return max(
        1, min(_size_in(struct, message, v) for v in range(struct.versions.first, struct.versions.last + 1))
    )


def _size_in(struct: Struct, message: Message, version: int) -> int:
    flexible = version in message.flexible
    size = 1 if flexible else 0
    for field in struct.reachable:
        if version not in field.versions or version in field.tagged:
            continue
        if field.type.is_fixed:
            size += FIXED_SIZES[field.type.name]
        elif field.type.struct and not field.type.is_array:
            size += 1 if version in field.nullable else _size_in(field.type.struct, message, version)
        elif flexible and version in field.flexible:
            size += 1
        else:
            size += 2 if field.type.name == "string" and not field.type.is_array else 4
    return size
