"""PyYAML's parser with the scanning rules of goyaml 2, which Kubernetes uses.

Both derive from libyaml and agree on nearly everything. This module overrides the differences: tabs between tokens, a
colon before a bracket in flow collections, some escapes, tags, directives, and which characters are checked. No Python
library follows goyaml here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import unquote

from yaml.events import Event
from yaml.parser import Parser, ParserError
from yaml.reader import Reader
from yaml.scanner import Scanner, ScannerError
from yaml.tokens import DirectiveToken, ScalarToken, TagToken

from mooring.api.yaml_nodes import ReadError
from mooring.api.yaml_scalars import LINE_BREAK

_BREAKS: Final = "\r\n\x85\u2028\u2029"
_BREAKZ: Final = "\0" + _BREAKS
_BLANKZ: Final = " \t" + _BREAKZ
_WORD: Final = re.compile(r"[0-9A-Za-z_-]*")
_URI: Final = re.compile(r"(?:[0-9A-Za-z_;/?:@&=+$,.!~*'()\[\]-]|%[0-9A-Fa-f]{2})*")
_ESCAPES: Final = {
    **dict(zip("0abtnvfre \"'\\", "\0\a\b\t\n\v\f\r\x1b \"'\\", strict=True)),
    "\t": "\t",
    "N": "\x85",
    "_": "\xa0",
    "L": "\u2028",
    "P": "\u2029",
}
_ESCAPE_LENGTHS: Final = {"x": 2, "u": 4, "U": 8}
_CHUNK: Final = 512
_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class YamlParser(Reader, Scanner, Parser):
    """A parser that produces the events that goyaml produces."""

    def __init__(self, text: str) -> None:
        self._text = text.removeprefix("\ufeff")
        Reader.__init__(self, self._text)
        Scanner.__init__(self)
        Parser.__init__(self)

    def check_printable(self, data: str) -> None:
        """Do nothing: `check_characters` runs when it is known how much text was read."""

    def check_characters(self) -> None:
        """Raise ReadError for a control character in the text read so far, which goyaml reads in chunks."""
        bad = _FORBIDDEN.search(self._text)
        if bad is None:
            return
        reached = len(self._text[: self.index + 4].encode("utf-8", "surrogatepass"))
        where = len(self._text[: bad.start()].encode("utf-8", "surrogatepass"))
        if where < (reached // _CHUNK + 1) * _CHUNK:
            line = len(LINE_BREAK.findall(self._text, 0, bad.start())) + 1
            raise ReadError(f"the control character {bad[0]!r} is not allowed", line)

    def next_event(self) -> Event:
        """Return the next event."""
        get: Callable[[], Event] = self.get_event
        return get()

    # Between tokens

    def scan_to_next_token(self) -> None:
        """Skip blanks, comments and line breaks. A tab counts as a blank where no key can start."""
        while True:
            blanks = " \t" if self.flow_level or not self.allow_simple_key else " "
            while self.peek() in blanks:
                self.forward()
            self._skip_comment()
            if not self.scan_line_break():
                return
            if not self.flow_level:
                self.allow_simple_key = True

    def scan_line_break(self) -> str:
        """Consume a line break of any kind; return "" if there is none."""
        char: str = self.peek()
        if char not in _BREAKS:
            return ""
        self.forward(2 if self.prefix(2) == "\r\n" else 1)
        return char if char in "\u2028\u2029" else "\n"

    def _skip_comment(self) -> None:
        if self.peek() == "#":
            while self.peek() not in _BREAKZ:
                self.forward()

    def _skip_blanks(self) -> None:
        while self.peek() in " \t":
            self.forward()

    def _at_document_mark(self) -> bool:
        return self.column == 0 and self.prefix(3) in ("---", "...") and self.peek(3) in _BLANKZ

    def _fail(self, what: str, problem: str, mark: Any) -> ScannerError:
        return ScannerError(f"while scanning {what}", mark, problem, self.get_mark())

    # Plain scalars

    def scan_plain(self) -> ScalarToken:
        """Scan text without quotes, over several lines if they are indented."""
        parts: list[str] = []
        start = end = self.get_mark()
        gap, broken = "", False
        while not self._at_document_mark() and self.peek() != "#":
            word = self._plain_word()
            if word:
                parts += [gap, word]
                broken = False
                end = self.get_mark()
            if self.peek() not in " \t" + _BREAKS:
                break
            gap, broken = self._plain_gap(start)
            if not self.flow_level and self.column < self.indent + 1:
                break
        if broken:
            self.allow_simple_key = True
        return ScalarToken("".join(parts), True, start, end)

    def _plain_word(self) -> str:
        length = 0
        while (char := self.peek(length)) not in _BLANKZ:
            if char == ":" and self.peek(length + 1) in _BLANKZ:
                break
            if self.flow_level and char in ",?[]{}":
                break
            length += 1
        word: str = self.prefix(length)
        self.forward(length)
        return word

    def _plain_gap(self, start: Any) -> tuple[str, bool]:
        """Consume blanks and line breaks after a word. Return their value and whether there was a line break."""
        blanks, breaks = "", list[str]()
        while (char := self.peek()) in " \t" + _BREAKS:
            if char in _BREAKS:
                breaks.append(self.scan_line_break())
                continue
            if breaks and char == "\t" and self.column < self.indent + 1:
                raise self._fail("a plain scalar", "found a tab where only spaces may indent", start)
            if not breaks:
                blanks += char
            self.forward()
        return (_fold(breaks), True) if breaks else (blanks, False)

    # Quoted scalars

    def scan_flow_scalar(self, style: str) -> ScalarToken:
        """Scan text in quotes."""
        parts: list[str] = []
        start = self.get_mark()
        self.forward()
        while True:
            if self._at_document_mark():
                raise self._fail("a quoted scalar", "found a document separator", start)
            if self.peek() == "\0":
                raise self._fail("a quoted scalar", "the quote is never closed", start)
            joined = self._quoted_word(style, parts, start)
            if self.peek() == style and not joined:
                break
            parts.append(self._quoted_gap(joined=joined))
        self.forward()
        return ScalarToken("".join(parts), False, start, self.get_mark(), style)

    def _quoted_word(self, style: str, parts: list[str], start: Any) -> bool:
        """Read up to a blank or the closing quote. Return True if an escaped line break ended the word."""
        while (char := self.peek()) not in _BLANKZ:
            if char == style:
                if style == '"' or self.peek(1) != "'":
                    return False
                parts.append("'")
                self.forward(2)
            elif style == '"' and char == "\\":
                if self.peek(1) in _BREAKS:
                    self.forward()
                    self.scan_line_break()
                    return True
                parts.append(self._escape(start))
            else:
                parts.append(char)
                self.forward()
        return False

    def _escape(self, start: Any) -> str:
        letter = self.peek(1)
        if letter in _ESCAPES:
            self.forward(2)
            return _ESCAPES[letter]
        length = _ESCAPE_LENGTHS.get(letter, 0)
        digits = self.prefix(2 + length)[2:]
        if not length:
            raise self._fail("a quoted scalar", f"found the unknown escape \\{letter}", start)
        if len(digits) < length or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
            raise self._fail("a quoted scalar", f"\\{letter} needs {length} hexadecimal digits", start)
        code = int(digits, 16)
        if 0xD800 <= code <= 0xDFFF or code > 0x10FFFF:
            raise self._fail("a quoted scalar", f"\\{letter}{digits} is not a character", start)
        self.forward(2 + length)
        return chr(code)

    def _quoted_gap(self, *, joined: bool) -> str:
        blanks, breaks = "", list[str]()
        while (char := self.peek()) in " \t" + _BREAKS:
            if char in _BREAKS:
                breaks.append(self.scan_line_break())
                continue
            if not breaks:
                blanks += char
            self.forward()
        if joined:
            return "".join(breaks)
        return _fold(breaks) if breaks else blanks

    # Block scalars

    def scan_block_scalar(self, style: str) -> ScalarToken:
        """Scan text after | or >."""
        start = self.get_mark()
        self.forward()
        chomping, increment = self._block_header(start)
        indent = max(self.indent, 0) + increment if increment else 0
        breaks, indent, end = self._block_breaks(indent, start)
        parts: list[str] = []
        line_break, was_blank = "", False
        while self.column == indent and self.peek() != "\0":
            is_blank = self.peek() in " \t"
            folded = style == ">" and not was_blank and not is_blank and line_break == "\n"
            parts += [" " if folded and not breaks else "" if folded else line_break, *breaks]
            was_blank = is_blank
            length = 0
            while self.peek(length) not in _BREAKZ:
                length += 1
            parts.append(self.prefix(length))
            self.forward(length)
            line_break = self.scan_line_break()
            breaks, indent, end = self._block_breaks(indent, start)
        if chomping != "-":
            parts.append(line_break)
        if chomping == "+":
            parts += breaks
        return ScalarToken("".join(parts), False, start, end, style)

    def _block_header(self, start: Any) -> tuple[str, int]:
        chomping, increment = "", 0
        for _ in range(2):
            char = self.peek()
            if char in "+-" and not chomping:
                chomping = char
            elif char in "0123456789" and not increment:
                increment = int(char)
                if increment == 0:
                    raise self._fail("a block scalar", "the indentation indicator must be 1 to 9", start)
            else:
                break
            self.forward()
        self._skip_blanks()
        self._skip_comment()
        if self.peek() not in _BREAKZ:
            raise self._fail("a block scalar", "expected a comment or the end of the line", start)
        self.scan_line_break()
        return chomping, increment

    def _block_breaks(self, indent: int, start: Any) -> tuple[list[str], int, Any]:
        """Consume empty lines and indentation before the next line, and detect the indentation if it is unset."""
        breaks: list[str] = []
        deepest, end = 0, self.get_mark()
        while True:
            while (not indent or self.column < indent) and self.peek() == " ":
                self.forward()
            deepest = max(deepest, self.column)
            if (not indent or self.column < indent) and self.peek() == "\t":
                raise self._fail("a block scalar", "found a tab where only spaces may indent", start)
            if self.peek() not in _BREAKS:
                break
            breaks.append(self.scan_line_break())
            end = self.get_mark()
        return breaks, indent or max(deepest, self.indent + 1, 1), end

    # Tags and directives

    def scan_tag(self) -> TagToken:
        """Scan !suffix, !handle!suffix, !<uri> or !."""
        start = self.get_mark()
        handle: str | None
        if self.peek(1) == "<":
            self.forward(2)
            handle, suffix = None, self._uri("a tag", start)
            if self.peek() != ">":
                raise self._fail("a tag", "expected '>'", start)
            self.forward()
        else:
            word = self._tag_handle()
            if len(word) > 1 and word.endswith("!"):
                handle, suffix = word, self._uri("a tag", start)
            else:
                handle, suffix = "!", word[1:] + self._uri("a tag", start, may_be_empty=True)
                if not suffix:
                    handle, suffix = None, "!"
        if self.peek() not in _BLANKZ:
            raise self._fail("a tag", "expected a blank after it", start)
        return TagToken((handle, suffix), start, self.get_mark())

    def _tag_handle(self) -> str:
        match = _WORD.match(self.buffer, self.pointer + 1)
        length = 1 + (len(match[0]) if match else 0)
        if self.peek(length) == "!":
            length += 1
        handle: str = self.prefix(length)
        self.forward(length)
        return handle

    def _uri(self, what: str, start: Any, *, may_be_empty: bool = False) -> str:
        match = _URI.match(self.buffer, self.pointer)
        text = match[0] if match else ""
        if self.peek(len(text)) == "%" or (not text and not may_be_empty):
            raise self._fail(what, "expected a URI", start)
        self.forward(len(text))
        return unquote(text)

    def scan_directive(self) -> DirectiveToken:
        """Scan a %YAML or %TAG directive. Others are errors."""
        start = self.get_mark()
        self.forward()
        match = _WORD.match(self.buffer, self.pointer)
        name = match[0] if match else ""
        self.forward(len(name))
        if name not in ("YAML", "TAG") or self.peek() not in _BLANKZ:
            raise self._fail("a directive", f"%{name} is not a directive; use %YAML or %TAG", start)
        self._skip_blanks()
        value = self._version(start) if name == "YAML" else self._tag_directive(start)
        end = self.get_mark()
        self._skip_blanks()
        self._skip_comment()
        if self.peek() not in _BREAKZ:
            raise self._fail("a directive", "expected a comment or the end of the line", start)
        self.scan_line_break()
        return DirectiveToken(name, value, start, end)

    def _version(self, start: Any) -> tuple[int, int]:
        match = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})(?![0-9])").match(self.buffer, self.pointer)
        if match is None:
            raise self._fail("a directive", "expected a version such as 1.1", start)
        self.forward(len(match[0]))
        return int(match[1]), int(match[2])

    def _tag_directive(self, start: Any) -> tuple[str, str]:
        if self.peek() != "!":
            raise self._fail("a directive", "expected '!'", start)
        handle = self._tag_handle()
        if (handle != "!" and not handle.endswith("!")) or self.peek() not in " \t":
            raise self._fail("a directive", "expected a tag handle such as !x!", start)
        self._skip_blanks()
        return handle, self._uri("a directive", start)

    def process_directives(self) -> tuple[tuple[int, int] | None, dict[str, str]]:
        """Process the directives of a document. Only YAML 1.1 is supported."""
        self.yaml_version = None
        self.tag_handles = {}
        while self.check_token(DirectiveToken):
            token = self.tokens[0]
            if token.name == "YAML":
                if self.yaml_version is not None or token.value != (1, 1):
                    raise ParserError(
                        None, None, "only one %YAML directive is allowed, with version 1.1", token.start_mark
                    )
                self.yaml_version = token.value
            elif token.value[0] in self.tag_handles:
                raise ParserError(None, None, f"%TAG {token.value[0]} is given twice", token.start_mark)
            else:
                self.tag_handles[token.value[0]] = token.value[1]
            self.tokens.pop(0)
            self.tokens_taken += 1
        self.tag_handles = {**self.DEFAULT_TAGS, **self.tag_handles}
        return self.yaml_version, self.tag_handles


def _fold(breaks: list[str]) -> str:
    """Fold line breaks inside a flow scalar: one becomes a blank; of several, the first is dropped."""
    if breaks[0] != "\n":
        return "".join(breaks)
    return "".join(breaks[1:]) or " "
