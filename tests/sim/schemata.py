"""All mutants of a C file in one text: each change becomes a macro of mutant.h, which the environment
variable REDLOCK_MUTANT switches on. So a thousand mutants cost one compilation.

A mutant has one change: a comparison is flipped, or its bound moves by one; `&&` becomes `||` or the
reverse; an early return is dropped."""

import bisect
import collections
import re

# A mutant's number is its file's times this, plus its place there: edits of a file renumber no other.
NUMBERS_A_FILE = 1000

KINDS = {"<": ("flipped", "moved"), "<=": ("flipped", "moved"), ">": ("flipped", "moved"),
         ">=": ("flipped", "moved"), "==": ("flipped",), "!=": ("flipped",), "&&": ("other operator",),
         "||": ("other operator",), "return": ("return dropped",)}
MACROS = {"<": "LESS", "<=": "LESS_EQUAL", ">": "MORE", ">=": "MORE_EQUAL", "==": "EQUAL", "!=": "UNEQUAL",
          "&&": "AND", "||": "OR"}

BLANK = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:\\\n|[^\n])*',
                   re.DOTALL | re.MULTILINE)
TOKEN = re.compile(r"->|<<=|>>=|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\+\+|--|\w+|[^\s\w]")
OPENING, CLOSING = {"(": ")", "[": "]", "{": "}"}, (")", "]", "}")
# What ends an operand of each operator: what binds less.
LOOSEST = {",", ";", "?", ":", "=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "{", "}",
           "return", "else", "do"}
ENDS = {"||": (LOOSEST, LOOSEST | {"||"}), "&&": (LOOSEST | {"||"}, LOOSEST | {"||", "&&"})}
BITWISE = {"&", "|", "^"}
COMPARED = LOOSEST | {"||", "&&"}
EQUALITY = {"==", "!="}

Mutant = collections.namedtuple("Mutant", "number path line kind text")
# Offsets of a macro's operands; `same`: the bound may move, since at the bound both sides are one value.
Point = collections.namedtuple("Point", "operator first operator_at last same")


class Code:
    """The tokens of a file, with the bracket that matches each bracket."""

    def __init__(self, text):
        blank = BLANK.sub(lambda found: re.sub(r"[^\n]", "_" if found.group()[0] in "\"'" else " ",
                                               found.group()), text)
        found = list(TOKEN.finditer(blank))
        self.words = [token.group() for token in found]
        self.texts = [text[token.start():token.end()] for token in found]
        self.starts, self.ends = [token.start() for token in found], [token.end() for token in found]
        self.match, self.outer, open_at = {}, [], []
        for i, word in enumerate(self.words):
            if word in CLOSING:
                self.match[i] = open_at.pop()
                self.match[self.match[i]] = i
            self.outer.append(list(open_at))
            if word in OPENING:
                open_at.append(i)

    def is_operand_end(self, i):
        """Then a following `&` is an operator of two operands."""
        return self.words[i] in (")", "]") or re.match(r"\w", self.words[i]) is not None

    def stops(self, i, ends):
        word = self.words[i]
        return word in ends and not (word in BITWISE and not self.is_operand_end(i - 1))

    def first(self, i, ends):
        """The first token of the operand before this operator."""
        while i > 0:
            before = i - 1
            if self.words[before] in OPENING or self.stops(before, ends):
                return i
            i = self.match[before] if self.words[before] in CLOSING else before
        return i

    def last(self, i, ends):
        """The last token of the operand behind this operator."""
        while True:
            behind = i + 1
            if self.words[behind] in CLOSING or self.stops(behind, ends):
                return i
            i = self.match[behind] if self.words[behind] in OPENING else behind

    def is_choice(self, first, i, last):
        """`a < b ? a : b`, or `if (a < b) a = b;`: either of two equal values may be taken."""
        left, right = self.texts[first:i], self.texts[i + 1:last + 1]
        behind = self.texts[last + 1:last + 4 + len(left) + len(right)]
        return behind[-1] in (";", ",", ")") and any(
            behind[:-1] in (["?", *one, ":", *other], [")", *one, "=", *other])
            for one, other in ((left, right), (right, left)))

    def is_mutable(self, i):
        """In a function, neither in an assertion (its mutant is no bug) nor in a constant."""
        outer = self.outer[i]
        if not outer or self.words[outer[0]] != "{" or self.words[outer[0] - 1] != ")":
            return False
        if any("assert" in self.words[bracket - 1] for bracket in outer):
            return False
        begin = i
        while self.words[begin] not in (";", "}") and begin > outer[0]:
            begin -= 1
        return "static" not in self.words[begin:i] and self.words[begin + 1] != "case"


def is_early_return(text, start):
    line = text[text.rfind("\n", 0, start) + 1:start]
    return not line.strip() and len(line) >= 8


def points_of(text):
    """What can change, in the order of the text."""
    code = Code(text)
    for i, word in enumerate(code.words):
        if word == "return" and is_early_return(text, code.starts[i]) and code.is_mutable(i):
            yield Point(word, code.starts[i], code.starts[i], code.starts[i], False)
        if word not in MACROS or not code.is_mutable(i):
            continue
        left, right = ENDS.get(word, (COMPARED | BITWISE | (EQUALITY if word not in EQUALITY else set()),
                                      COMPARED | BITWISE | EQUALITY))
        first, last = code.first(i, left), code.last(i, right)
        same = code.is_choice(first, i, last)
        yield Point(word, code.starts[first], code.starts[i], code.ends[last], same)


def schema_of(path, text, file_number):
    """(the text with all of its mutants, the mutants)."""
    points, mutants, edits = list(points_of(text)), [], []
    lines = [found.start() for found in re.finditer("\n", text)]
    number = file_number * NUMBERS_A_FILE
    for point in points:
        at = bisect.bisect(lines, point.operator_at)
        line = text.split("\n")[at].strip()
        column = point.operator_at - (lines[at - 1] + 1 if at else 0)
        word = len(re.findall(re.escape(" %s " % point.operator), text.split("\n")[at][:column + 1]))
        place = " (%d.)" % (word + 1) if word else ""
        if point.operator == "return":
            edits.append((point.first, 0, 0, "MUTANT_RETURN(%d) " % number, 0))
        else:
            width = point.last - point.first
            edits.append((point.first, 1, -width, "MUTANT_%s(%d, " % (MACROS[point.operator], number), 0))
            edits.append((point.operator_at, 0, 0, ",", len(point.operator)))
            edits.append((point.last, -1, 0, ")", 0))
        for kind in KINDS[point.operator]:
            if kind == "moved" and point.same:
                number += 1
                continue
            text_of = "`%s`%s in %s" % (point.operator, place, line)
            mutants.append(Mutant(number, path, at + 1, kind, text_of))
            number += 1
    assert number <= (file_number + 1) * NUMBERS_A_FILE, path
    for start, _, _, inserted, replaced in sorted(edits, reverse=True):
        text = text[:start] + inserted + text[start + replaced:]
    return text, mutants
