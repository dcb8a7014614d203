#!/usr/bin/env python3
"""Writes the tokens of a text as an int32 .npy file for `--tokens FILE.npy`, with a tokenizer that poslab does not
read itself: tokenizer.json (PyPI's tokenizers) or a sentencepiece model (PyPI's sentencepiece).

  scripts/encode_text.py MODEL_DIR text.txt tokens.npy
  scripts/encode_text.py tokenizer.json - tokens.npy < text.txt
"""

import argparse
import pathlib
import sys

try:
    import numpy as np
except ImportError as missing:
    sys.exit(f"encode_text.py: {missing}; pip install tokenizers sentencepiece numpy")


def encoder(path, special):
    if path.is_dir():
        names = ("tokenizer.json", "tokenizer.model", "spiece.model")
        found = [path / name for name in names if (path / name).exists()]
        if not found:
            sys.exit(f"encode_text.py: {path} holds none of {', '.join(names)}")
        path = found[0]
    try:
        if path.suffix == ".json":
            from tokenizers import Tokenizer
            tokenizer = Tokenizer.from_file(str(path))
            return lambda text: tokenizer.encode(text, add_special_tokens=special).ids
        import sentencepiece
        model = sentencepiece.SentencePieceProcessor(model_file=str(path))
        return lambda text: model.encode(text, add_bos=special)
    except ImportError as error:
        sys.exit(f"encode_text.py: {error}; pip install tokenizers sentencepiece numpy")
    except Exception as error:  # both packages raise their own types
        sys.exit(f"encode_text.py: {path} is no tokenizer that can be read: {error}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer", type=pathlib.Path, help="tokenizer.json, a sentencepiece model, or their folder")
    parser.add_argument("text", help="a UTF-8 text file, - for stdin")
    parser.add_argument("output", help="the .npy file to write")
    parser.add_argument("--special", action="store_true", help="add the tokens that start or end a text")
    arguments = parser.parse_args()
    try:
        data = sys.stdin.buffer.read() if arguments.text == "-" else pathlib.Path(arguments.text).read_bytes()
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        sys.exit(f"encode_text.py: {arguments.text}: {error}")
    tokens = np.array(encoder(arguments.tokenizer, arguments.special)(text), dtype=np.int32)
    with open(arguments.output, "wb") as out:
        np.save(out, tokens)
    print(f"{len(tokens)} tokens, {len(data) / max(len(tokens), 1):.2f} bytes each", file=sys.stderr)


if __name__ == "__main__":
    main()
