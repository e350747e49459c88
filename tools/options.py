"""Generates files from the config dataclasses: TypedDicts for editors, and the tables of options in the docs.

    python -m tools.options     rewrites the files that are out of date, and prints their names

The dataclasses define each option: name, type, default, docstring. Decides how a TypedDict and a table show these. The
lists of Kafka's broker settings are from the broker's tables.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from kshare.broker.faults import Faults
from kshare.broker.profiles import Release
from kshare.broker.server_properties import COARSER, WITHOUT_EFFECT
from kshare.broker.settings import BROKER_SETTINGS
from kshare.client.config import Acknowledgement, Acquire, ConsumerConfig
from kshare.client.deserialize import OnPoison
from kshare.net.settings import CLIENT_OPTIONS, Mechanism, NetSettings, Security
from kshare.producer.settings import CompressionName, WriterSettings
from kshare.testing.broker import QUICK_SETTINGS, Broker
from kshare.testing.config import BrokerConfig
from kshare.worker import Adaptive, Breaker, Exponential, Retry, RetryTopics, Worker
from kshare.worker.handlers.inspection import RunsIn
from kshare.worker.handlers.options import HandlerOptions, OversizedDeadLetters

ROOT = Path(__file__).resolve().parents[1]
_WIDTH = 120

_CLIENT_HEAD = '''"""Generated: options of consumers and administrators, as type checkers and editors see them.

Written by `python -m tools.options` from the dataclasses in net/settings.py and client/config.py: change them there.
"""

import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import Generic, Required, TypedDict

from kshare.client.config import Acknowledgement, Acquire
from kshare.client.deserialize import OnPoison
from kshare.client.deserializer_calls import Deserializer, KeyFunctionT, ValueFunctionT
from kshare.engine.events import Observer, OnSettled
from kshare.net.settings import Mechanism, TokenProvider
'''

_BROKER_HEAD = '''"""Generated: options of the embedded broker, as type checkers and editors see them.

Written by `python -m tools.options` from the dataclass in testing/config.py: change them there.
"""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

from kshare.broker.clock import Clock
from kshare.broker.profiles import Release
'''

_PRODUCER_HEAD = '''"""Generated: options of producers, as type checkers and editors see them.

Written by `python -m tools.options` from the dataclass in producer/settings.py: change them there.
"""

from kshare.client.options import ClientOptions
from kshare.producer.settings import CompressionName
'''

_WORKER_HEAD = '''"""Generated: options of handlers and workers, as type checkers and editors see them.

Written by `python -m tools.options` from the dataclass in worker/handlers/options.py: change them there.
"""

from collections.abc import Callable
from typing import TypedDict

from kshare.client.options import ClientOptions
from kshare.worker.handlers.inspection import RunsIn
from kshare.worker.handlers.options import DeadLetterFunction, OversizedDeadLetters
from kshare.worker.handlers.order import Order
from kshare.worker.records.delivery import Delivery
from kshare.worker.rules.adaptive import Adaptive
from kshare.worker.rules.breaker import Breaker
from kshare.worker.rules.retry import Retry
from kshare.worker.rules.retry_topics import RetryTopics
'''

_DESERIALIZERS = ("key_deserializer", "value_deserializer")
_CHOICES = {
    "Acknowledgement": Acknowledgement,
    "Acquire": Acquire,
    "CompressionName": CompressionName,
    "Mechanism": Mechanism,
    "OnPoison": OnPoison,
    "OversizedDeadLetters": OversizedDeadLetters,
    "Release": Release,
    "RunsIn": RunsIn,
}
_SPELLED_OUT = {
    "DeadLetterFunction": "Callable[[Delivery, str], Awaitable[None]]",
    "Order": '"none" | "key" | Callable[[ShareRecord], Hashable]',
}
"""What tables show in place of these names."""
_NAMED_TYPE = re.compile(rf"\b(?:{'|'.join([*_CHOICES, *_SPELLED_OUT])})\b")


@dataclass(frozen=True)
class Option:
    name: str
    type: str
    default: Any
    """MISSING for required options."""
    docs: str

    @property
    def is_required(self) -> bool:
        return self.default is dataclasses.MISSING

    @property
    def default_text(self) -> str:
        """The default as docs show it; empty for required options and for None."""
        if self.is_required or self.default is None:
            return ""
        if dataclasses.is_dataclass(self.default):
            return f"{type(self.default).__name__}()"
        if self.name.endswith("_bytes"):
            return f"{self.default >> 20} MiB" if self.default >> 20 else f"{self.default >> 10} KiB"
        return f"{self.default:_}" if type(self.default) is int else repr(self.default).replace("'", '"')


def options_of(config: type[Any]) -> dict[str, Option]:
    """The fields of a config dataclass, with the docstrings below them."""
    fields = {field.name: field for field in dataclasses.fields(config)}
    found = {}
    for name, annotation, docs in _documented(config):
        if name not in fields:  # an InitVar isn't an option
            continue
        field = fields[name]
        made = field.default_factory
        default = field.default if made is dataclasses.MISSING else made()
        found[name] = Option(name, field.metadata.get("given as", annotation), default, docs)
    return found


def _documented(config: type[Any]) -> Iterator[tuple[str, str, str]]:
    """Name, annotation and docstring of each field."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(config))).body
    assert isinstance(definition, ast.ClassDef), "a class"
    for line, following in zip(definition.body, [*definition.body[1:], ast.Pass()], strict=True):
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            docs = ""
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                docs = " ".join(str(following.value.value).split())
            yield line.target.id, ast.unparse(line.annotation).replace("'", '"'), docs


def arguments_of(function: Callable[..., object]) -> list[Option]:
    """The named arguments of a function whose docstring has a paragraph for each, such as "`http`: an address"."""
    paragraphs = [
        " ".join(paragraph.split()) for paragraph in inspect.cleandoc(function.__doc__ or "").split("\n\n")
    ]
    docs = dict(
        paragraph.removeprefix("`").split("`: ", 1)
        for paragraph in paragraphs
        if re.match(r"`\w+`: ", paragraph)
    )
    arguments = inspect.signature(function).parameters
    return [
        Option(
            name,
            str(arguments[name].annotation),
            dataclasses.MISSING
            if arguments[name].default is inspect.Parameter.empty
            else arguments[name].default,
            text[0].upper() + text[1:],
        )
        for name, text in docs.items()
    ]


_NET = options_of(NetSettings) | options_of(Security)
CLIENT = [_NET[name] for name in CLIENT_OPTIONS]
CONSUMER = [
    option
    for name, option in options_of(ConsumerConfig).items()
    if name not in ("bootstrap_servers", "connection", *CLIENT_OPTIONS)
]
PRODUCER = list(options_of(WriterSettings).values())
HANDLER = list(options_of(HandlerOptions).values())
WORKER = arguments_of(Worker.__init__)
POLICIES = {
    f"{kind.__name__} options": list(options_of(kind).values())
    for kind in (Retry, Exponential, RetryTopics, Adaptive, Breaker)
}
BROKER = list(options_of(BrokerConfig).values())
FAULT = arguments_of(Faults.add)


def client_module() -> str:
    """The text of client/options.py."""
    own = [option for option in CONSUMER if option.name not in _DESERIALIZERS]
    key, value = (option for option in CONSUMER if option.name in _DESERIALIZERS)
    return _module(
        _CLIENT_HEAD,
        _typed_dict("ClientOptions", "Options of every client. Durations are seconds.", CLIENT),
        _typed_dict(
            "ConsumerOptions",
            "Options of a share consumer that it doesn't need, without those of every client.",
            [option for option in own if not option.is_required],
        ),
        _typed_dict(
            "SubscriberOptions",
            "Options of a share consumer, but for the deserializers.",
            [option for option in own if option.is_required],
            base="ClientOptions, ConsumerOptions",
        ),
        _with_deserializer("KeyOptions", key, "KeyFunctionT"),
        _with_deserializer("ValueOptions", value, "ValueFunctionT"),
        [
            "class KeyAndValueOptions(",
            "    KeyOptions[KeyFunctionT], ValueOptions[ValueFunctionT], Generic[KeyFunctionT, ValueFunctionT]",
            "):",
            '    """Options of a consumer that deserializes keys and values."""',
        ],
        [
            "class BytesOptions(SubscriberOptions, total=False):",
            '    """Options of a consumer that leaves keys and values as bytes."""',
            "",
            "    key_deserializer: None",
            "    value_deserializer: None",
        ],
        _typed_dict("AnyOptions", "Options of any consumer.", [key, value], base="SubscriberOptions"),
    )


def producer_module() -> str:
    """The text of producer/options.py."""
    return _module(
        _PRODUCER_HEAD,
        _typed_dict("ProducerOptions", "Options of a producer.", PRODUCER, base="ClientOptions"),
    )


def worker_module() -> str:
    """The text of worker/handlers/option_types.py."""
    return _module(
        _WORKER_HEAD,
        _typed_dict("HandlerSettings", "Options of a handler. Durations are seconds.", HANDLER),
        [
            "class WorkerOptions(HandlerSettings, ClientOptions, total=False):",
            '    """Options of a worker: how to connect, and defaults for its handlers."""',
        ],
    )


def broker_module() -> str:
    """The text of testing/options.py."""
    return _module(_BROKER_HEAD, _typed_dict("BrokerOptions", "Options of `kshare.testing.Broker`.", BROKER))


def _module(*parts: str | list[str]) -> str:
    """The text of a module: its head, and the lines of each class."""
    return "\n\n".join(part if isinstance(part, str) else "\n".join([*part, ""]) for part in parts)


def _typed_dict(name: str, docs: str, options: Iterable[Option], base: str = "TypedDict") -> list[str]:
    chosen = list(options)
    names = ", ".join(option.name for option in chosen) + (
        "" if base == "TypedDict" else f"; and those of {base}"
    )
    listed = textwrap.wrap(f"Options: {names}.", _WIDTH - 4)
    # `help` shows only this text, not the texts of the keys.
    lines = [f"class {name}({base}, total=False):", f'    """{docs}', ""]
    lines += [*(f"    {line}" for line in listed), '    """', ""]
    return lines + [line for option in chosen for line in _key(option)]


def _with_deserializer(name: str, option: Option, variable: str) -> list[str]:
    """A TypedDict in which a deserializer is required, since it distinguishes this kind of consumer from the others."""
    part = option.name.partition("_")[0]
    return [
        f"class {name}(SubscriberOptions, Generic[{variable}]):",
        f'    """Options of a consumer that deserializes {part}s."""',
        "",
        *_key(dataclasses.replace(option, type=variable)),
    ]


def _key(option: Option) -> list[str]:
    """One key of a TypedDict, with its docstring."""
    kind = f"Required[{option.type}]" if option.is_required else option.type
    default = f" Default: {option.default_text}." if option.default_text else ""
    text = f'"""{option.docs}{default}"""'
    lines = [f"    {option.name}: {kind}"]
    wrapped = textwrap.wrap(text, _WIDTH - 4, break_long_words=False, break_on_hyphens=False)
    return [*lines, *(f"    {line}" for line in wrapped)]


def table(options: Iterable[Option], heading: str = "option") -> str:
    """The options as a table for docs."""
    rows = [f"| {heading} | type | default | meaning |", "|---|---|---|---|"]
    for option in options:
        default = f"`{option.default_text}`" if option.default_text else ""
        kind = _NAMED_TYPE.sub(_spelled_out, option.type).replace("|", "\\|")
        rows.append(f"| `{option.name}` | `{kind}` | {default} | {option.docs.replace('|', chr(92) + '|')} |")
    return "\n".join(rows) + "\n"


def settings_table() -> str:
    """The broker settings that the embedded broker obeys, with Kafka's defaults."""
    rows = ["| setting | default |", "|---|---|"]
    defaults = {each.name: each.default for each in BROKER_SETTINGS}
    coarser = {name: f"see `{finest}`" for name, (finest, _, _) in COARSER.items()}
    for name in sorted({**defaults, **coarser}):
        default = f"`{defaults[name]}`" if defaults.get(name) else coarser.get(name, "")
        rows.append(f"| `{name}` | {default} |")
    return "\n".join(rows) + "\n"


def quick_settings() -> str:
    """The broker settings for which `kshare.testing.Broker` has other defaults, with both."""
    rows = ["| setting | Kafka, `kshare broker` | `kshare.testing.Broker`, the fixtures |", "|---|---|---|"]
    defaults = {each.name: each.default for each in BROKER_SETTINGS}
    rows += [
        f"| `{name}` | `{defaults[name]}` | `{QUICK_SETTINGS[name]}` |" for name in sorted(QUICK_SETTINGS)
    ]
    return "\n".join(rows) + "\n"


def methods_table(of: type[Any]) -> str:
    """The public methods and properties of a class, with their docstrings."""
    rows = ["| name | meaning |", "|---|---|"]
    for name, member in vars(of).items():
        if not name.startswith("_"):
            shown = name if isinstance(member, property) else f"{name}({_parameters(member)})"
            rows.append(f"| `{shown}` | {' '.join((inspect.getdoc(member) or '').split())} |")
    return "\n".join(rows) + "\n"


def _parameters(method: Callable[..., object]) -> str:
    """The parameters of a method as a caller writes them: without types."""
    signature = inspect.signature(method)
    _, *own = (each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values())
    bare = signature.replace(parameters=own, return_annotation=inspect.Signature.empty)
    return str(bare)[1:-1]


def without_effect() -> str:
    """The names that it accepts besides, as a paragraph."""
    names = ", ".join(f"`{name}`" for name in sorted(WITHOUT_EFFECT))
    return textwrap.fill(names, _WIDTH, break_on_hyphens=False) + "\n"


def _spelled_out(name: re.Match[str]) -> str:
    """What a table shows in place of a type's name: the allowed values, if there are only a few."""
    if name[0] in _SPELLED_OUT:
        return _SPELLED_OUT[name[0]]
    return " | ".join(f'"{value}"' for value in get_args(_CHOICES[name[0]]))


def outdated() -> dict[Path, str]:
    """The files that don't match the dataclasses, with the text that they should have."""
    consumer = [
        option for option in options_of(ConsumerConfig).values() if option.name == "bootstrap_servers"
    ]
    wanted = {
        ROOT / "kshare/client/options.py": client_module(),
        ROOT / "kshare/producer/options.py": producer_module(),
        ROOT / "kshare/testing/options.py": broker_module(),
        ROOT / "kshare/worker/handlers/option_types.py": worker_module(),
    }
    for page, tables in (
        ("docs/consumer.md", {"consumer options": [*consumer, *CONSUMER], "client options": CLIENT}),
        ("docs/producer.md", {"producer options": PRODUCER}),
        ("docs/worker.md", {"worker options": WORKER, "handler options": HANDLER, **POLICIES}),
        ("docs/testing.md", {"broker options": BROKER}),
    ):
        text = (ROOT / page).read_text(encoding="utf-8")
        for name, options in tables.items():
            text = _with_table(text, name, table(options))
        wanted[ROOT / page] = text
    testing = ROOT / "docs/testing.md"
    for name, rows in (
        ("broker methods", methods_table(Broker)),
        ("fault arguments", table(FAULT, "argument")),
        ("other defaults", quick_settings()),
        ("broker settings", settings_table()),
        ("settings without effect", without_effect()),
    ):
        wanted[testing] = _with_table(wanted[testing], name, rows)
    return {
        path: text
        for path, text in wanted.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }


def _with_table(page: str, name: str, rows: str) -> str:
    """The page with the text between the two comments of this name replaced."""
    first, last = f"<!-- {name}: written by tools/options.py -->\n", f"<!-- end of {name} -->\n"
    before, _, rest = page.partition(first)
    _, is_there, after = rest.partition(last)
    if not is_there:
        raise ValueError(f"the page lacks the comments for {name}: {first.strip()} … {last.strip()}")
    return f"{before}{first}{rows}{last}{after}"


def main() -> None:
    for path, text in outdated().items():
        path.write_text(text, encoding="utf-8")
        print(f"written: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
