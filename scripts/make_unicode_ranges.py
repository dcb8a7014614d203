#!/usr/bin/env python3
"""Writes lib/poslab/tokenizers/unicode_ranges.inc: where Unicode's letters (L*) and numbers (N*) are, as half-open ranges
of code points, from Python's unicodedata."""

import pathlib
import sys
import unicodedata


def ranges(kind):
    out, begin = [], None
    for point in range(sys.maxunicode + 2):
        inside = point <= sys.maxunicode and unicodedata.category(chr(point))[0] == kind
        if inside and begin is None:
            begin = point
        if not inside and begin is not None:
            out.append((begin, point))
            begin = None
    return out


def main():
    lines = [f"// Made by scripts/make_unicode_ranges.py, Unicode {unicodedata.unidata_version}."]
    for name, kind in (("letter_ranges", "L"), ("number_ranges", "N")):
        lines.append(f"constexpr CodeRange {name}[] = {{")
        row = " "
        for begin, end in ranges(kind):
            item = f" {{{begin:#x}, {end:#x}}},"
            if len(row) + len(item) > 118:
                lines.append(row)
                row = " "
            row += item
        lines += [row, "};"]
    path = pathlib.Path(__file__).resolve().parent.parent / "lib/poslab/tokenizers/unicode_ranges.inc"
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
