#!/usr/bin/python3
"""Knowledge stays in one place and code in small pieces: in how many source files of lib and apps a method's, a scaling's
or a family's word may stand, how long a file may be, and how long a function.

A function may be longer where a comment in it says why: `// long: the reason`.
"""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
           for top in ("lib", "apps") for path in sorted((ROOT / top).rglob("*")) if path.suffix in (".h", ".cpp")}

FILES_PER_METHOD = 5  # and scaling
FILES_PER_FAMILY = 3
FAMILIES = ["bloom", "gemma3", "gpt_neox", "mpt", "qwen3"]
# Words of the two lists that stand for other things too.
ORDINARY = {"default", "dynamic", "learned", "linear", "none", "ntk", "rope"}

LINES_PER_FILE = 450
LINES_PER_FUNCTION = 80

# What is above its limit still; these lists only get shorter.
STILL_LONG_FILES = {"lib/poslab/probe/inference.cpp"}
STILL_LONG_FUNCTIONS = {
    ("lib/poslab/attention/attention_gradient.cpp", "backward"),
    ("apps/experiments/perplexity.cpp", "run"),
    ("apps/experiments/recall.cpp", "run"),
}


def listed_words():
    """The words of the methods and of the scalings, as each names itself in its own file."""
    own = re.compile(r'^    \.word = "(\w+)"| word\(\) const override \{ return "(\w+)"', re.MULTILINE)
    rooms = ("lib/poslab/methods/", "lib/poslab/rope/scalings/")
    return sorted({a or b for path, text in SOURCES.items() if path.startswith(rooms) for a, b in own.findall(text)})


def files_with(word):
    """The word alone, in any case; a part of a longer name does not count."""
    pattern = re.compile(rf"\b{word}\b", re.IGNORECASE)
    return [path for path, text in SOURCES.items() if pattern.search(text)]


SKIPPED = re.compile(r'//[^\n]*|/\*.*?\*/|R"\((?:.*?)\)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-zA-Z])\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:\\\n|[^\n])*',
                     re.DOTALL | re.MULTILINE)


def blank(match):
    return "\n" * match.group().count("\n")


def functions(text):
    """(first line, last line, its declaration) of each function with a body, those of classes too."""
    code = SKIPPED.sub(blank, text)
    head = 0  # where the declaration in hand begins
    at = 0
    while at < len(code):
        c = code[at]
        if c in ";}":
            head = at + 1
        elif c == "{":
            declaration = code[head:at].strip()
            if re.match(r"(?:inline )?(?:namespace|extern)\b|(?:template\s*<.*>\s*)?(?:[a-z]+:\s*)?(?:struct|class|union)\b[^()]*$", declaration,
                        re.DOTALL):
                head = at + 1  # a scope: what it holds comes next
            else:
                depth, end = 1, at + 1
                while depth > 0 and end < len(code):
                    depth += {"{": 1, "}": -1}.get(code[end], 0)
                    end += 1
                inside = declaration.count("(") > declaration.count(")")  # a default argument, say
                if "(" in declaration and not inside and not re.search(r"\benum\b|=\s*$", declaration):
                    begin = head + len(code[head:at]) - len(code[head:at].lstrip())
                    yield code.count("\n", 0, begin) + 1, code.count("\n", 0, end) + 1, " ".join(declaration.split())
                # Nor does a brace inside a constructor's list of members end its declaration.
                at, head = end - 1, head if inside or code[end:end + 1] == "," else end
        at += 1


class Limits(unittest.TestCase):
    def test_a_word_of_a_list_stands_in_few_files(self):
        words = set(listed_words())
        self.assertLessEqual(ORDINARY | {"alibi", "fire", "kerple", "llama3", "longrope", "proportional", "sinusoidal", "t5",
                                         "xpos", "yarn"}, words)
        for words, most in ((words - ORDINARY, FILES_PER_METHOD), (FAMILIES, FILES_PER_FAMILY)):
            for word in sorted(words):
                found = files_with(word)
                self.assertTrue(found, word)
                with self.subTest(word):
                    self.assertLessEqual(len(found), most, f"{word} stands in {', '.join(found)}")

    def test_no_file_is_long(self):
        for path, text in SOURCES.items():
            with self.subTest(path):
                self.assertTrue(text.count("\n") <= LINES_PER_FILE or path in STILL_LONG_FILES, f"{text.count(chr(10))} lines")

    def test_no_function_is_long_without_a_reason(self):
        for path, text in SOURCES.items():
            for first, last, name in functions(text):
                reason = "// long: " in "\n".join(text.split("\n")[first - 1:last])
                called = re.match(r".*?([\w:~]+) *\(", name)
                reason = reason or (path, called[1] if called else "") in STILL_LONG_FUNCTIONS
                with self.subTest(f"{path}:{first} {name[-60:]}"):
                    self.assertTrue(last - first < LINES_PER_FUNCTION or reason, f"{last - first + 1} lines")

    def test_functions_are_measured(self):
        text = 'namespace a {\nstruct B {\n  B(int x)\n      : y_{x}, z_(1) {\n    f("}");  // }\n  }\n  int y_;\n};\n' \
               'template <class T>\nint f(int a,\n      T b) {\n  if (a) {\n    g([&] { h(); });\n  }\n  return 1;\n}\n}\n'
        found = [(first, last) for first, last, _ in functions(text)]
        self.assertEqual(found[-1], (9, 16))
        self.assertIn(6, [last for _, last in found])
        self.assertGreater(sum(1 for source in SOURCES.values() for _ in functions(source)), 1000)


if __name__ == "__main__":
    unittest.main()
