"""The parser: from the text of an expression to its syntax tree. Macros are expanded while parsing."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, NoReturn, TypeAlias

from mooring.cel.syntax import (
    Call,
    Comprehension,
    Entry,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Node,
    Select,
    StructNode,
    qualified_name,
)
from mooring.cel.values import MAX_INT, MAX_UINT, MIN_INT, Uint

#: As in cel-go.
MAX_CODE_POINTS: Final = 100_000
MAX_DEPTH: Final = 250

_ESCAPE = r"""\\(?:[abfnrtv"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"""
_TOKEN: Final = re.compile(
    rf"""
    (?P<skip>[\t\ \r\n\f]+|//[^\n]*)
    |(?P<string>[bB]?(?:
        [rR](?:\"\"\"(?s:.)*?\"\"\"|'''(?s:.)*?'''|(?!\"\"\"|''')(?:"[^"\n\r]*"|'[^'\n\r]*'))
        |\"\"\"(?:{_ESCAPE}|[^\\])*?\"\"\"|'''(?:{_ESCAPE}|[^\\])*?'''
        |(?!\"\"\"|''')(?:"(?:{_ESCAPE}|[^\\"\n\r])*"|'(?:{_ESCAPE}|[^\\'\n\r])*')))
    |(?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)
    |(?P<uint>(?:0x[0-9a-fA-F]+|\d+)[uU])
    |(?P<int>0x[0-9a-fA-F]+|\d+)
    |(?P<ident>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<quoted>`[A-Za-z0-9_.\-/\ ]+`)
    |(?P<op>==|!=|<=|>=|&&|\|\||[\[\]{{}}().,\-!?:+*/%<>])
    """,
    re.VERBOSE | re.ASCII,
)

_RESERVED: Final = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)
_KEYWORDS: Final = frozenset({"in", "true", "false", "null"})
_PRECEDENCE: Final = {
    "||": 1, "&&": 2,
    "<": 3, "<=": 3, ">=": 3, ">": 3, "==": 3, "!=": 3, "in": 3,
    "+": 4, "-": 4, "*": 5, "/": 5, "%": 5,
}  # fmt: skip
_OPERATORS: Final = {
    "||": "_||_", "&&": "_&&_", "<": "_<_", "<=": "_<=_", ">=": "_>=_", ">": "_>_", "==": "_==_", "!=": "_!=_",
    "in": "@in", "+": "_+_", "-": "_-_", "*": "_*_", "/": "_/_", "%": "_%_",
}  # fmt: skip
_SIMPLE_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}

ACCUMULATOR: Final = "@result"


class SyntaxIssue(Exception):
    """An expression that does not parse: the message and the offset of the offending text."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


class _Token(NamedTuple):
    kind: str
    text: str
    offset: int


def _tokens(text: str) -> list[_Token]:
    result: list[_Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise SyntaxIssue(f"Syntax error: token recognition error at: {text[position : position + 10]!r}", position)
        kind = str(match.lastgroup)
        if kind != "skip":
            word = match.group()
            result.append(_Token("op" if kind == "ident" and word in _KEYWORDS else kind, word, position))
        position = match.end()
    result.append(_Token("end", "<EOF>", len(text)))
    return result


#: A macro: gets the parser, the target or None, and the arguments; returns None if it does not apply after all.
Macro: TypeAlias = "Callable[[Parser, Node | None, list[Node]], Node | None]"


@dataclass(slots=True)
class _Pending:
    """An operator whose right operand is being parsed."""

    operator: str
    terms: list[Node]
    id: int


class Parser:
    """Parses one expression."""

    def __init__(
        self, text: str, macros: Mapping[tuple[str, int, bool], Macro], *, quoted_fields: bool = False
    ) -> None:
        """With ``quoted_fields``, the names of fields may be in backquotes."""
        if len(text) > MAX_CODE_POINTS:
            raise SyntaxIssue(
                f"expression code point size exceeds limit: size: {len(text)}, limit {MAX_CODE_POINTS}", 0
            )
        self._tokens = _tokens(text)
        self._position = 0
        self._macros = macros
        self._quoted_fields = quoted_fields
        self._next_id = 0
        self._nesting = 0
        #: The offset in the text of each node.
        self.offsets: dict[int, int] = {}

    def parse(self) -> Node:
        """Parse the whole text. Raises SyntaxIssue."""
        node = self._expression()
        if self._token.kind != "end":
            self._unexpected()
        return node

    # Nodes for macros

    def new_id(self, offset: int | None = None) -> int:
        """Return a new number for a node."""
        self._next_id += 1
        self.offsets[self._next_id] = self._token.offset if offset is None else offset
        return self._next_id

    def literal(self, value: object) -> Literal:
        """Return a new constant."""
        return Literal(self.new_id(), value)

    def ident(self, name: str) -> Ident:
        """Return a new name."""
        return Ident(self.new_id(), name)

    def call(self, function: str, *args: Node) -> Call:
        """Return a new call of a function."""
        return Call(self.new_id(), function, None, list(args))

    def member_call(self, function: str, target: Node, *args: Node) -> Call:
        """Return a new call of a method."""
        return Call(self.new_id(), function, target, list(args))

    def new_list(self, *elements: Node) -> ListNode:
        """Return a new list."""
        return ListNode(self.new_id(), [*elements])

    def new_map(self) -> MapNode:
        """Return a new empty map."""
        return MapNode(self.new_id(), [])

    def comprehension(
        self,
        over: Node,
        variables: tuple[str, str],
        accumulator: str,
        init: Node,
        condition: Node,
        step: Node,
        result: Node,
    ) -> Comprehension:
        """Return a new loop."""
        return Comprehension(
            self.new_id(), over, variables[0], variables[1], accumulator, init, condition, step, result
        )

    def copy(self, node: Node) -> Node:
        """Return a copy of a node with new numbers."""
        number = self.new_id(self.offsets[node.id])
        match node:
            case Literal():
                return Literal(number, node.value)
            case Ident():
                return Ident(number, node.name)
            case Select():
                return Select(number, self.copy(node.operand), node.field, node.test_only)
            case Call():
                target = None if node.target is None else self.copy(node.target)
                return Call(number, node.function, target, [self.copy(arg) for arg in node.args])
            case ListNode():
                return ListNode(number, [self.copy(element) for element in node.elements], node.optional)
            case MapNode():
                return MapNode(number, self._copy_entries(node.entries))
            case StructNode():
                return StructNode(number, node.type_name, self._copy_entries(node.entries))
            case Comprehension():
                return Comprehension(
                    number,
                    self.copy(node.iter_range),
                    node.iter_var,
                    node.iter_var2,
                    node.accu_var,
                    self.copy(node.accu_init),
                    self.copy(node.condition),
                    self.copy(node.step),
                    self.copy(node.result),
                )

    def _copy_entries(self, entries: list[Entry]) -> list[Entry]:
        return [Entry(self.copy(entry.key), self.copy(entry.value), entry.optional) for entry in entries]

    def fail(self, node: Node, message: str) -> NoReturn:
        """Report an invalid use of a macro. Raises SyntaxIssue."""
        raise SyntaxIssue(message, self.offsets[node.id])

    # Tokens

    @property
    def _token(self) -> _Token:
        return self._tokens[self._position]

    def _at(self, text: str) -> bool:
        token = self._tokens[self._position]
        return token.text == text and token.kind == "op"

    def _take(self, text: str) -> bool:
        if self._at(text):
            self._position += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._take(text):
            self._unexpected()

    def _unexpected(self) -> NoReturn:
        token = self._token
        raise SyntaxIssue(f"Syntax error: mismatched input '{token.text}'", token.offset)

    def _identifier(self) -> str:
        token = self._token
        if token.kind != "ident":
            self._unexpected()
        self._position += 1
        return token.text

    def _field(self) -> str:
        token = self._token
        if token.kind != "quoted":
            return self._identifier()
        if not self._quoted_fields:
            raise SyntaxIssue("unsupported syntax: '`'", token.offset)
        self._position += 1
        return token.text[1:-1]

    # The grammar. One level of nesting takes two Python calls, so that 250 levels fit Python's stack.

    def _expression(self) -> Node:
        self._nesting += 1
        if self._nesting > MAX_DEPTH:
            raise SyntaxIssue(f"expression recursion limit exceeded: {MAX_DEPTH}", self._token.offset)
        # A ternary nests to the right: its conditions and first branches wait here.
        waiting: list[tuple[int, Node, Node]] = []
        while True:
            node = self._operators()
            if not self._at("?"):
                break
            number = self.new_id()
            self._position += 1
            first = self._operators()
            self._expect(":")
            waiting.append((number, node, first))
            if self._nesting + len(waiting) > MAX_DEPTH:
                raise SyntaxIssue(f"expression recursion limit exceeded: {MAX_DEPTH}", self._token.offset)
        for number, condition, first in reversed(waiting):
            node = self._deeper(Call(number, "_?_:_", None, [condition, first, node]), condition, first, node)
        self._nesting -= 1
        return node

    def _operators(self) -> Node:
        pending: list[_Pending] = []
        node = self._unary()
        while True:
            token = self._token
            precedence = _PRECEDENCE.get(token.text, 0) if token.kind == "op" else 0
            while pending and _PRECEDENCE[pending[-1].operator] >= precedence:
                if precedence and pending[-1].operator == token.text and token.text in {"&&", "||"}:
                    break
                node = self._reduce(pending.pop(), node)
            if not precedence:
                return node
            if pending and pending[-1].operator == token.text and token.text in {"&&", "||"}:
                pending[-1].terms.append(node)
            else:
                pending.append(_Pending(token.text, [node], self.new_id()))
            self._position += 1
            node = self._unary()

    def _reduce(self, operation: _Pending, node: Node) -> Node:
        terms = [*operation.terms, node]
        call = Call(operation.id, _OPERATORS[operation.operator], None, terms)
        if operation.operator in {"&&", "||"}:
            call.depth = max(term.depth for term in terms)
            return call
        return self._deeper(call, *terms)

    def _deeper(self, node: Node, *parts: Node) -> Node:
        node.depth = 1 + max(part.depth for part in parts)
        if node.depth > MAX_DEPTH:
            raise SyntaxIssue(f"expression recursion limit exceeded: {MAX_DEPTH}", self.offsets[node.id])
        return node

    def _unary(self) -> Node:
        token = self._token
        operator = token.text if token.kind == "op" and token.text in {"!", "-"} else ""
        count = 0
        while operator and self._at(operator):
            count += 1
            self._position += 1
        sign = ""
        if operator == "-" and self._token.kind in {"int", "float"} and count == 1:
            sign, count = "-", 0
        elif operator == "!" and self._at("-") and self._tokens[self._position + 1].kind in {"int", "float"}:
            self._position += 1
            sign = "-"
        node = self._member(self._primary(sign))
        if count % 2:
            name = "!_" if operator == "!" else "-_"
            node = Call(self.new_id(token.offset), name, None, [node], node.depth)
        return node

    def _member(self, node: Node) -> Node:
        while True:
            token = self._token
            if token.kind != "op":
                return node
            if token.text == ".":
                self._position += 1
                optional = self._take("?")
                is_quoted = self._token.kind == "quoted"
                name = self._field()
                if not optional and not is_quoted and self._at("("):
                    number = self.new_id()
                    args = self._arguments()
                    node = self._deeper(self._call_or_macro(number, name, node, args), node, *args)
                elif optional:
                    number = self.new_id(token.offset)
                    call = Call(number, "_?._", None, [node, Literal(self.new_id(), name)])
                    node = self._deeper(call, node)
                else:
                    node = self._deeper(Select(self.new_id(token.offset), node, name), node)
            elif token.text == "[":
                number = self.new_id()
                self._position += 1
                optional = self._take("?")
                index = self._expression()
                self._expect("]")
                node = self._deeper(Call(number, "_[?_]" if optional else "_[_]", None, [node, index]), node, index)
            elif token.text == "{" and (name_of := qualified_name(node)) is not None:
                node = self._struct(name_of)
            else:
                return node

    def _arguments(self) -> list[Node]:
        self._expect("(")
        args: list[Node] = []
        if self._take(")"):
            return args
        while True:
            args.append(self._expression())
            if self._take(")"):
                return args
            self._expect(",")

    def _call_or_macro(self, number: int, name: str, target: Node | None, args: list[Node]) -> Node:
        macro = self._macros.get((name, len(args), target is not None))
        if macro is not None:
            expanded = macro(self, target, args)
            if expanded is not None:
                return expanded
        return Call(number, name, target, args)

    def _primary(self, sign: str) -> Node:
        token = self._token
        self._position += 1
        if token.kind == "ident" or (token.kind == "op" and token.text == "." and self._token.kind == "ident"):
            name = token.text
            if name == ".":
                name += self._identifier()
            if name.lstrip(".") in _RESERVED:
                raise SyntaxIssue(f"reserved identifier: {name.lstrip('.')}", token.offset)
            if self._at("("):
                number = self.new_id()
                args = self._arguments()
                node = self._call_or_macro(number, name, None, args)
                node.depth = max([node.depth, *(arg.depth for arg in args)])
                return node
            return Ident(self.new_id(token.offset), name)
        number = self.new_id(token.offset)
        match token.kind:
            case "int":
                value = (
                    int(sign + token.text, 16 if token.text.startswith("0x") else 10)
                    if len(token.text) < 32
                    else MAX_UINT
                )
                if not MIN_INT <= value <= MAX_INT:
                    raise SyntaxIssue("invalid int literal", token.offset)
                return Literal(number, value)
            case "uint":
                text = token.text[:-1]
                value = int(text, 16 if text.startswith("0x") else 10) if len(text) < 32 else MAX_UINT + 1
                if value > MAX_UINT:
                    raise SyntaxIssue("invalid uint literal", token.offset)
                return Literal(number, Uint(value))
            case "float":
                real = float(sign + token.text)
                if real in {float("inf"), float("-inf")}:
                    raise SyntaxIssue("invalid double literal", token.offset)
                return Literal(number, real)
            case "string":
                return Literal(number, _unquote(token))
            case "op" if token.text in {"true", "false"}:
                return Literal(number, token.text == "true")
            case "op" if token.text == "null":
                return Literal(number, None)
            case "op" if token.text == "(":
                node = self._expression()
                self._expect(")")
                return node
            case "op" if token.text == "[":
                return self._list(number)
            case "op" if token.text == "{":
                return self._map(number)
        self._position -= 1
        return self._unexpected()

    def _list(self, number: int) -> Node:
        elements: list[Node] = []
        optional: set[int] = set()
        while not self._take("]"):
            if elements or not self._take(","):
                if self._take("?"):
                    optional.add(len(elements))
                elements.append(self._expression())
                if self._take("]"):
                    break
                self._expect(",")
            else:
                self._expect("]")
                break
        return ListNode(number, elements, frozenset(optional), max((element.depth for element in elements), default=0))

    def _map(self, number: int) -> Node:
        entries: list[Entry] = []
        while not self._take("}"):
            if entries or not self._take(","):
                optional = self._take("?")
                key = self._expression()
                self._expect(":")
                entries.append(Entry(key, self._expression(), optional))
                if self._take("}"):
                    break
                self._expect(",")
            else:
                self._expect("}")
                break
        depth = max((max(entry.key.depth, entry.value.depth) for entry in entries), default=0)
        return MapNode(number, entries, depth)

    def _struct(self, type_name: str) -> Node:
        number = self.new_id()
        self._expect("{")
        entries: list[Entry] = []
        while not self._take("}"):
            optional = self._take("?")
            key = Literal(self.new_id(), self._field())
            self._expect(":")
            entries.append(Entry(key, self._expression(), optional))
            if self._take("}"):
                break
            self._expect(",")
        return StructNode(number, type_name, entries, max((entry.value.depth for entry in entries), default=0))


def _unquote(token: _Token) -> str | bytes:
    text = token.text
    binary = text[0] in "bB"
    if binary:
        text = text[1:]
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    quotes = 3 if len(text) >= 6 and text[:3] in {'"""', "'''"} else 1
    text = text[quotes:-quotes]
    if raw or "\\" not in text:
        return text.encode() if binary else text
    result = bytearray()
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char != "\\":
            result += char.encode()
            continue
        kind = text[position]
        position += 1
        length = {"x": 2, "X": 2, "u": 4, "U": 8}.get(kind)
        if length is None and kind in "0123":
            position -= 1
            length = 3
        if length is None:
            result += _SIMPLE_ESCAPES.get(kind, kind).encode()
            continue
        code = int(text[position : position + length], 8 if length == 3 else 16)
        position += length
        if binary:
            if kind in "uU":
                raise SyntaxIssue("unable to unescape string", token.offset)
            result.append(code & 255)
        elif code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise SyntaxIssue("invalid unicode code point", token.offset)
        else:
            result += chr(code).encode()
    return bytes(result) if binary else result.decode()
