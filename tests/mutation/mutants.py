"""Finds what can be broken in a C file: reads it into tokens and proposes small changes to its text.

No compiler is asked. Where this guesses wrong, the changed file does not compile, and the caller leaves it out."""

import bisect
import hashlib
import re

TOKEN = re.compile(r"""
    (?P<blank>\s+|//[^\n]*|/\*.*?\*/|\\\n)
  | (?P<string>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*")
  | (?P<char>[uUL]?'(?:\\.|[^'\\\n])+')
  | (?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<sign>->|\+\+|--|<<=|>>=|\.\.\.|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%&|^~!<>=?:;,.(){}\[\]])
  | (?P<other>.)""", re.VERBOSE | re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.)*", re.MULTILINE | re.DOTALL)
KEYWORDS = set("if else while for do switch case default return break continue goto sizeof typedef struct union enum "
               "static const extern inline _Static_assert static_assert __attribute__ _Alignas _Alignof _Generic "
               "volatile register restrict void char short int long float double signed unsigned bool".split())
TYPE_WORDS = set("typedef struct union enum static const extern inline volatile register void char short int long float "
                 "double signed unsigned bool".split())
NOT_MUTATED = {"_Static_assert", "static_assert", "__attribute__", "_Alignas", "_Alignof"}
BINARY = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "/", "&&": "||", "||": "&&", "&": "|", "|": "&", "^": "&",
          "<<": ">>", ">>": "<<", "==": "!=", "!=": "=="}
COMPARISONS = {"<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<")}
ASSIGNMENTS = {"+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=", "%=": "/=", "|=": "&=", "&=": "|=", "^=": "&=",
               "<<=": ">>=", ">>=": "<<="}
# Changes that nothing can show, which are not made:
# - of these two arguments, the second in the other's place: they are compared, or multiplied
SYMMETRIC = {"strcmp": 0, "memcmp": 0, "fmin": 0, "fmax": 0, "fminf": 0, "fmaxf": 0, "rc_size_mul": 0, "rc_size_add": 0,
             "rc_alloc_zeroed": 1, "rc_arena_take_array": 1, "grow": 2} # the place of the first
# - 1 for the first argument of `be->f(be, ...)`: the CPU backend ignores it where it has nothing of its own to look up
OBJECT_BEFORE_CALL = re.compile(r"(?P<object>\w+(?:(?:->|\.)\w+)*)->\w+$")
# - h for w and w for h, in these files: the images of a learner are square (rc_check_image_shape)
SQUARE, SIDES = "src/cil/", {"h": "w", "w": "h"}
# - room for two where one is asked for: nobody reads the second
ALLOCATES_ONE = ["rc_alloc_zeroed", "(", "NULL", ",", "1", ","]
# - one of these fields for the other: on every CPU backend both have the same value (rc_cpu_open)
SAME_ON_CPU = {"real_bytes": "act_bytes", "act_bytes": "real_bytes"}
# - these fields of an initialiser, which tell what need not be done again: without them it is, with the same bits
HINTS = {"constant_model"}
OPENING, CLOSING = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}


class Token:
    """kind, text, where it is; `mate` is the index of the bracket that belongs to this one."""
    __slots__ = ("kind", "text", "start", "end", "mate", "outer")

    def __init__(self, kind, text, start):
        self.kind, self.text, self.start, self.end, self.mate, self.outer = kind, text, start, start + len(text), -1, -1


def tokens_of(text):
    """Comments and directives left out. `outer` is the index of the innermost bracket around a token, -1 for none."""
    plain = DIRECTIVE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), blank_comments(text))
    tokens = []
    for match in TOKEN.finditer(plain):
        if match.lastgroup not in ("blank", "other"):
            tokens.append(Token(match.lastgroup, match.group(), match.start()))
    stack = []
    for i, token in enumerate(tokens):
        token.outer = stack[-1] if stack else -1
        if token.text in OPENING and token.kind == "sign":
            stack.append(i)
        elif token.text in CLOSING and token.kind == "sign" and stack:
            token.mate = stack.pop()
            token.outer = stack[-1] if stack else -1
            tokens[token.mate].mate = i
    return tokens


def blank_comments(text):
    """Comments become blanks, so that every character keeps its place; strings stay."""
    pattern = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*.*?\*/', re.DOTALL)
    return pattern.sub(lambda m: m.group() if m.group()[0] in "\"'" else re.sub(r"[^\n]", " ", m.group()), text)


class Mutant:
    """The characters from start to end give way to the first of `texts` that compiles."""

    def __init__(self, source, start, end, texts, kind):
        self.path, self.start, self.end, self.kind = source.path, start, end, kind
        self.texts = [texts] if isinstance(texts, str) else texts
        self.line = source.text.count("\n", 0, start) + 1
        self.lines = range(self.line, source.text.count("\n", 0, end) + 2)
        self.line_text = source.lines[self.line - 1].strip()
        self.old = source.text[start:end]
        self.key = source.key_of(start, end, self.texts[0])
        first = source.text.rfind("\n", 0, start) + 1
        self.name = f"{self.path}\0{self.line_text}\0{start - first}\0{self.old}\0{kind}\0{self.texts[0]}"

    def choice(self, seed):
        """A number from 0 to 1 that depends on what is changed, not on its place in the list."""
        digest = hashlib.sha256(f"{seed}\0{self.name}".encode()).digest()
        return int.from_bytes(digest[:6], "big") / 2 ** 48


def shape_of(declarator, name):
    """The stars and dimensions around a name."""
    before, _, after = declarator.rpartition(name)
    return "*" * before.count("*") + "".join(after.split())


class Siblings:
    """Fields of one structure with one type, and constants of one family, as the headers declare them."""

    def __init__(self, texts, others=None):
        self.fields = {name: list(names) for name, names in others.fields.items()} if others else {}
        self.families = {name: list(names) for name, names in others.families.items()} if others else {}
        for text in texts:
            self.read_structures(blank_comments(text))
            self.read_constants(blank_comments(text))

    def read_structures(self, text):
        for match in re.finditer(r"\b(?:struct|union)\b[^;{}()]*\{((?:[^{}]|\{[^{}]*\})*)\}", text):
            by_type = {}
            for declaration in re.sub(r"\{[^{}]*\}", "", match.group(1)).split(";"):
                if "(" in declaration:
                    continue
                first, *others = declaration.split(",")
                words = re.findall(r"\w+|\[[^\]]*\]|\*", first)
                names = [i for i, word in enumerate(words) if re.match(r"[A-Za-z_]", word)]
                if len(names) < 2:
                    continue
                base = " ".join(words[i] for i in names[:-1])
                by_type.setdefault(base + shape_of(first, words[names[-1]]), []).append(words[names[-1]])
                for other in others:
                    name = re.search(r"\w+", other)
                    if name:
                        by_type.setdefault(base + shape_of(other, name.group()), []).append(name.group())
            for names in by_type.values():
                for i, name in enumerate(names):
                    if len(names) > 1:
                        self.fields.setdefault(name, []).append(names[(i + 1) % len(names)])

    def read_constants(self, text):
        for name in re.findall(r"\b[A-Z][A-Z0-9]*_[A-Z0-9]+_[A-Z0-9_]+\b", text):
            family = self.families.setdefault("_".join(name.split("_")[:2]), [])
            if name not in family:
                family.append(name)

    def fields_like(self, name):
        return list(dict.fromkeys(other for other in self.fields.get(name, []) if other != name))

    def constants_like(self, name):
        family = self.families.get("_".join(name.split("_")[:2]), [])
        if name not in family:
            return []
        at = family.index(name)
        return family[at + 1:] + family[:at]


class Source:
    """One file, and all its mutants."""

    def __init__(self, path, text, siblings):
        self.path, self.text, self.lines, self.siblings = path, text, text.split("\n"), siblings
        self.tokens = tokens_of(text)
        self.hash = hashlib.sha256(text.encode()).hexdigest()
        self.starts = [token.start for token in self.tokens]
        self.items = self.top_items()
        self.mutants = []
        self.closed = self.closed_places()
        for i in range(len(self.tokens)):
            if not self.closed[i]:
                self.look_at(i)
        self.mutants = list({(m.start, m.end, m.texts[0]): m for m in self.mutants}.values())

    def top_items(self):
        """Functions, tables and declarations, as (first token, what it is): its code without comments and blanks, the
        file's macros, and how many of the same came before it."""
        macros = [text for text in DIRECTIVE.findall(blank_comments(self.text)) if not re.match(r"\s*#\s*include", text)]
        items, first, seen = [], 0, {}
        for i, token in enumerate(self.tokens):
            ends_function = token.text == "}" and token.outer < 0 and token.mate >= 0 and self.is_function(token.mate)
            if not ends_function and not (token.text == ";" and token.outer < 0) and i + 1 < len(self.tokens):
                continue
            code = "\0".join([self.path, *macros, *(token.text for token in self.tokens[first:i + 1])])
            seen[code] = seen.get(code, 0) + 1
            items.append((first, hashlib.sha256(f"{code}\0{seen[code]}".encode()).hexdigest()))
            first = i + 1
        return items

    def key_of(self, start, end, text):
        """Of a mutant: stays the same until the code of its function changes."""
        places = [bisect.bisect_left(self.starts, offset) for offset in (start, end)] # tokens that begin before
        first, item = self.items[bisect.bisect_right(self.items, (places[0], "~")) - 1]
        return hashlib.sha256(f"{item}\0{places[0] - first}\0{places[1] - first}\0{text}".encode()).hexdigest()[:20]

    def closed_places(self):
        """Declarations, prototypes, structures, static assertions: nothing in there is run."""
        closed, inside = [False] * len(self.tokens), -1
        for i, token in enumerate(self.tokens):
            if i <= inside:
                closed[i] = True
                continue
            if token.text in NOT_MUTATED and i + 1 < len(self.tokens) and self.tokens[i + 1].text == "(":
                closed[i], inside = True, self.tokens[i + 1].mate
            elif token.text == "{" and token.outer < 0 and not self.is_function(i) and not self.is_initialiser(i):
                inside = token.mate
                closed[i] = True
            elif token.text == "(" and token.outer < 0 and not self.after_equals(i):
                inside = token.mate # parameters
                closed[i] = True
            elif token.text == "[" and self.declares_array(i):
                inside = token.mate - 1 # its size: what is outside of an array is for the sanitizers
        return closed

    def declares_array(self, i):
        """`type name[3]`, `type *one, name[3][4]`: is this the bracket behind a name that is declared?"""
        tokens, k = self.tokens, i - 1
        while tokens[k].text == "]":
            k = tokens[k].mate - 1
        if tokens[k].kind != "name":
            return False
        k -= 1
        while k >= 0 and tokens[k].text not in (";", "{", "}"): # back to the statement's begin, over what is before a comma
            if tokens[k].text in CLOSING:
                k = tokens[k].mate
            elif tokens[k].text in OPENING:
                return False
            elif tokens[k].text == "=" and not self.comma_between(k, i):
                return False
            k -= 1
        first = k + 1
        while tokens[first].text in ("static", "const", "volatile", "struct", "enum", "unsigned", "signed", "_Alignas", "("):
            first = tokens[first].mate + 1 if tokens[first].text == "(" else first + 1
        return first < i - 1 and tokens[first].kind == "name" and tokens[first].text not in ("return", "case", "goto") and \
            (tokens[first + 1].kind == "name" or tokens[first + 1].text == "*" and not self.is_binary(first + 1))

    def comma_between(self, first, last):
        return any(token.text == "," and token.outer == self.tokens[last].outer for token in self.tokens[first:last])

    def is_function(self, i):
        return i > 0 and self.tokens[i - 1].text == ")"

    def is_initialiser(self, i):
        """Also an enumeration, whose constants have values."""
        back = i - 1
        while back >= 0 and self.tokens[back].text not in (";", "}", "{"):
            if self.tokens[back].text in ("=", "enum"):
                return True
            back -= 1
        return False

    def after_equals(self, i):
        back = i - 1
        while back >= 0 and self.tokens[back].text not in (";", "}"):
            if self.tokens[back].text == "=":
                return True
            back -= 1
        return False

    def add(self, start, end, texts, kind):
        if texts != [] and texts != self.text[start:end]:
            self.mutants.append(Mutant(self, start, end, texts, kind))

    def replace(self, i, texts, kind):
        self.add(self.tokens[i].start, self.tokens[i].end, texts, kind)

    def look_at(self, i):
        token = self.tokens[i]
        if token.kind == "number":
            self.number(i)
        elif token.kind == "char":
            self.replace(i, "'a'" if token.text != "'a'" else "'b'", "constant")
        elif token.kind == "sign":
            self.sign(i)
        elif token.kind == "name":
            self.word(i)
        self.statement(i)

    # ---- constants ---------------------------------------------------------------------------------------------
    def number(self, i):
        text, tokens = self.tokens[i].text, self.tokens
        found = re.fullmatch(r"(0[xX][0-9a-fA-F]+|\d+)([uUlLzZ]*)", text)
        if found:
            value = int(found.group(1), 0 if not re.fullmatch(r"0\d+", found.group(1)) else 8)
            one = [token.text for token in tokens[max(i - 4, 0):i + 2]] == ALLOCATES_ONE
            for other in {0: (1,), 1: (0,) if one else (0, 2)}.get(value, (value + 1,)):
                self.replace(i, f"{other}{found.group(2)}", "constant")
            return
        found = re.fullmatch(r"([0-9.]+(?:[eE][-+]?\d+)?)([fFlL]?)", text)
        if found:
            value = float(found.group(1))
            self.replace(i, f"{value * 2 if value else 1.0!r}{found.group(2)}", "constant")

    # ---- operators ---------------------------------------------------------------------------------------------
    def is_binary(self, i):
        token, before = self.tokens[i], self.tokens[i - 1]
        if not (before.kind in ("name", "number", "char") and before.text not in ("return", "case", "sizeof") or
                before.text in (")", "]")):
            return False
        left, right = token.start > before.end, self.tokens[i + 1].start > token.end
        return left == right # 'a * b' and 'a*b', not 'type *name' and '(type)*name'

    def sign(self, i):
        token, tokens = self.tokens[i], self.tokens
        text = token.text
        if text in COMPARISONS:
            for other in COMPARISONS[text]:
                self.replace(i, other, "operator")
        elif text in BINARY and self.is_binary(i):
            self.replace(i, BINARY[text], "operator")
        elif text in ASSIGNMENTS:
            self.replace(i, ASSIGNMENTS[text], "operator")
        elif text in ("++", "--"):
            self.replace(i, "--" if text == "++" else "++", "operator")
        elif text == "!" or (text == "-" and not self.is_binary(i)):
            self.replace(i, "", "operator dropped")
        elif text == "?":
            self.choice(i)
        elif text == "." and i + 2 < len(tokens) and tokens[i + 2].text == "=" and tokens[i - 1].text in ("{", ","):
            self.field_of_initialiser(i)
        elif text == "(" and i > 0:
            self.bracket(i)

    def choice(self, i):
        """condition ? a : b"""
        tokens, level, colon = self.tokens, 0, -1
        outer = tokens[i].outer
        for k in range(i + 1, len(tokens)):
            if tokens[k].outer != outer or tokens[k].text in OPENING:
                if k == tokens[outer].mate if outer >= 0 else False:
                    break
                continue
            if tokens[k].text == "?":
                level += 1
            elif tokens[k].text == ":" and level > 0:
                level -= 1
            elif tokens[k].text == ":":
                colon = k
                break
        if colon < 0:
            return
        end, level = colon + 1, 0
        while end < len(tokens):
            token = tokens[end]
            if token.text in OPENING and token.kind == "sign":
                end = token.mate + 1
                continue
            if token.text == "?":
                level += 1
            if token.text in (",", ";") or token.text in CLOSING or (token.text == ":" and level == 0):
                break
            if token.text == ":":
                level -= 1
            end += 1
        first = self.text[tokens[i + 1].start:tokens[colon - 1].end]
        second = self.text[tokens[colon + 1].start:tokens[end - 1].end]
        self.add(tokens[i + 1].start, tokens[colon - 1].end, one_line(second), "condition is false")
        self.add(tokens[colon + 1].start, tokens[end - 1].end, one_line(first), "condition is true")

    def field_of_initialiser(self, i):
        """`.name = value` is left out."""
        if self.tokens[i + 1].text in HINTS:
            return
        end = self.end_of_part(i)
        stop = self.tokens[end].end if self.tokens[end].text == "," else self.tokens[end - 1].end
        self.add(self.tokens[i].start, stop, "", "field dropped")

    def end_of_part(self, i):
        """The index of the comma or bracket that ends the argument or element that token i is in."""
        tokens, k = self.tokens, i
        while k < len(tokens):
            if tokens[k].text in OPENING and tokens[k].kind == "sign":
                k = tokens[k].mate + 1
                continue
            if tokens[k].text in (",", ";") or tokens[k].text in CLOSING:
                return k
            k += 1
        return k

    # ---- calls and conditions ----------------------------------------------------------------------------------
    def bracket(self, i):
        tokens, before = self.tokens, self.tokens[i - 1]
        close = tokens[i].mate
        if close < 0 or before.kind != "name":
            return
        if before.text in ("if", "while"):
            for value in ("1", "0") if before.text == "if" else ("0",):
                self.add(tokens[i + 1].start, tokens[close - 1].end, value, "condition is " + ("true" if value == "1" else "false"))
        elif before.text == "for":
            semicolons = [k for k in range(i, close) if tokens[k].text == ";" and tokens[k].outer == i]
            if len(semicolons) == 2 and semicolons[1] > semicolons[0] + 1:
                self.add(tokens[semicolons[0] + 1].start, tokens[semicolons[1] - 1].end, "0", "condition is false")
        elif before.text not in KEYWORDS and tokens[i].outer >= 0:
            self.call(i, close)

    def call(self, i, close):
        tokens, parts, start = self.tokens, [], i + 1
        if tokens[i - 1].text == "RC_TRY":
            self.add(tokens[i - 1].start, tokens[i].start, "(void)", "status swallowed")
            return
        while start < close:
            end = self.end_of_part(start)
            if end > start:
                parts.append((tokens[start].start, tokens[end - 1].end))
            start = end + 1
        texts = [self.text[a:b] for a, b in parts]
        called = OBJECT_BEFORE_CALL.search(self.text[max(tokens[i].start - 200, 0):tokens[i].start])
        called = called.group("object") if called else None
        for k, ((a, b), text) in enumerate(zip(parts, texts)):
            same = SYMMETRIC.get(tokens[i - 1].text) == k or self.are_sides(text, texts[k + 1] if k + 1 < len(texts) else "")
            if k + 1 < len(parts) and not same and text != texts[k + 1] and not text.startswith('"') and not texts[k + 1].startswith('"'):
                between = self.text[b:parts[k + 1][0]]
                self.add(a, parts[k + 1][1], texts[k + 1] + between + text, "arguments swapped")
            if k == 0 and text == called:
                continue
            if not re.fullmatch(r'-?[\d.]\w*|NULL|true|false|".*|&?\w+', text, re.DOTALL) or re.fullmatch(r"[a-z_]\w*", text):
                self.add(a, b, "1", "argument")

    def are_sides(self, one, other):
        """Height and width of the same square, as `net->h` and `net->w` are?"""
        same = re.fullmatch(r"\w", one[-1:]) and re.sub(r"\w$", "", one) == re.sub(r"\w$", "", other)
        alone = re.fullmatch(r"(?:.*\W)?\w", one, re.DOTALL)
        return bool(same and alone and SIDES.get(one[-1]) == other[-1:] and self.path.startswith(SQUARE))

    # ---- names -------------------------------------------------------------------------------------------------
    def word(self, i):
        text, before = self.tokens[i].text, self.tokens[i - 1].text if i else ""
        follows = self.tokens[i + 1].text if i + 1 < len(self.tokens) else ""
        if text in ("true", "false"):
            if before == "=" and self.tokens[i - 2].text in HINTS:
                return
            self.replace(i, "false" if text == "true" else "true", "constant")
        elif before in (".", "->") and follows != "(":
            is_field_name = before == "." and follows == "=" and self.tokens[i - 2].text in ("{", ",")
            if not is_field_name:
                others = [other for other in self.siblings.fields_like(text)
                          if not self.are_sides(text, other) and SAME_ON_CPU.get(text) != other]
                self.replace(i, others[:6], "another field")
        elif re.fullmatch(r"[A-Z][A-Z0-9]*_[A-Z0-9]+_[A-Z0-9_]+", text) and follows != "(":
            self.replace(i, self.siblings.constants_like(text)[:6], "another constant")

    # ---- statements --------------------------------------------------------------------------------------------
    def statement(self, i):
        """Calls, assignments and jumps that stand alone are left out."""
        tokens, token = self.tokens, self.tokens[i]
        if i == 0 or not self.in_function(i) or not self.begins_statement(i):
            return
        if token.text in ("break", "continue"):
            self.replace(i, "", "statement dropped")
            return
        if token.text in KEYWORDS or not (token.kind == "name" or token.text in ("*", "(", "++", "--")):
            return
        if token.kind == "name" and (tokens[i + 1].kind == "name" or
                                     (tokens[i + 1].text == "*" and not self.is_binary(i + 1)) or
                                     tokens[i + 1].text == ":"):
            return # a declaration or a label
        end = i
        while end < len(tokens) and tokens[end].text != ";":
            end = tokens[end].mate + 1 if tokens[end].text in OPENING and tokens[end].kind == "sign" else end + 1
        self.add(token.start, tokens[end - 1].end, "", "statement dropped")

    def in_function(self, i):
        outer = self.tokens[i].outer
        return outer >= 0 and self.tokens[outer].text == "{" and not self.inside_initialiser(outer)

    def inside_initialiser(self, i):
        return self.tokens[i - 1].text in ("=", ",", "{", ")") and not self.opens_block(i)

    def opens_block(self, i):
        """Is this '{' that of a function or a block, not that of a compound literal?"""
        before = self.tokens[i - 1]
        if before.text != ")":
            return before.text in (";", "{", "}", "else", "do", ":")
        if self.tokens[i].outer < 0:
            return True
        head = self.tokens[before.mate - 1]
        return head.kind == "name" and head.text in ("if", "while", "for", "switch")

    def begins_statement(self, i):
        before = self.tokens[i - 1]
        if before.text in (";", "{", "}", "else", "do"):
            return before.outer == self.tokens[i].outer or before.text == "{" or before.text == "}"
        if before.text == ")":
            head = self.tokens[before.mate - 1]
            return head.kind == "name" and head.text in ("if", "while", "for", "switch")
        return before.text == ":" and self.tokens[i - 2].kind != "sign" and self.tokens[i - 3].text in ("case", ";", "{", "}")


def one_line(text):
    return " ".join(text.split())


def apply(text, mutant, replacement):
    """The changed file; lines keep their numbers."""
    lost = text[mutant.start:mutant.end].count("\n") - replacement.count("\n")
    return text[:mutant.start] + replacement + "\n" * max(lost, 0) + text[mutant.end:]
