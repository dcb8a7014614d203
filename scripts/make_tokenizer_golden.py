#!/usr/bin/env python3
"""Writes tests/golden/tokenizers/: small vocabularies, trained on this project's own text, as GGUF files that hold
nothing else and as sentencepiece models, and tokenizers.json: what PyPI's sentencepiece and tokenizers make of a few texts with them. Run in an
environment with `pip install gguf numpy sentencepiece tokenizers protobuf`."""

import importlib.metadata
import json
import pathlib
import random
import tempfile

import gguf
import sentencepiece
import tokenizers

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests/golden/tokenizers"
TEXTS = [
    "", " ", "a", "Hello world", "  two  spaces, then\ttabs\t\t and\n\nnewlines \n \n", "it's we'll I'M THEY'RE don't'",
    "numbers 1 12 123 1234 12345 3.14 x2 2x", "naïve café Ω привет 你好 世界", "emoji 👍🏽 and é (combining)", "e\u0301 A\u030a \u1100\u1161 \u212b \u0958",
    "punctuation!!! ... (a) [b] {c} <d> \"e\" #f $g %h", "trailing space ", " leading", "a\u00a0b\u3000c\u2003d",
    "\r\n\r\nwindows\r\n", "position position positions positional", "Ⅻ ½ ² ٣ 三", "<s> </s> <|end|> ##", "x" * 70,
    "## heading\n\n* item\n* item", "rope_theta^(-2i / rotary_dim)\n    indented\n",
]


def random_texts(count):
    rng = random.Random(5)
    alphabet = list("abcdeéΩ你 \u00a0\n\r\t''sSltreRE019٣!.(-👍") + ["the ", "position", "  "]
    return ["".join(rng.choice(alphabet) for _ in range(rng.randint(1, 40))) for _ in range(count)]


def corpus():
    return "\n".join((ROOT / name).read_text() for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"))


def vocabulary_file(name, fill):
    writer = gguf.GGUFWriter(FOLDER / f"{name}.gguf", "llama")
    fill(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def sentencepiece_vocabulary(name, prefix, folder):
    text = pathlib.Path(folder) / "corpus.txt"
    text.write_text(corpus())
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=f"{folder}/{name}", model_type="bpe", vocab_size=420, byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=prefix,
        user_defined_symbols=["##"], character_coverage=0.98, minloglevel=2)
    model = sentencepiece.SentencePieceProcessor(model_file=f"{folder}/{name}.model")
    ids = range(model.vocab_size())
    kinds = [gguf.TokenType.UNKNOWN if model.IsUnknown(i) else gguf.TokenType.CONTROL if model.IsControl(i)
             else gguf.TokenType.BYTE if model.IsByte(i) else gguf.TokenType.USER_DEFINED if model.IdToPiece(i) == "##"
             else gguf.TokenType.NORMAL for i in ids]

    def fill(writer):
        writer.add_tokenizer_model("llama")
        writer.add_token_list([model.IdToPiece(i) for i in ids])
        writer.add_token_scores([model.GetScore(i) for i in ids])
        writer.add_token_types(kinds)
        writer.add_bos_token_id(model.bos_id())
        writer.add_unk_token_id(model.unk_id())
        writer.add_add_space_prefix(prefix)

    vocabulary_file(name, fill)
    texts = TEXTS + random_texts(60)
    return [{"text": t, "tokens": model.encode(t), "decoded": model.decode(model.encode(t))} for t in texts]


def sentencepiece_model(name, kind, folder):
    """A .model as such, with rules of normalisation of its own."""
    text, rules = pathlib.Path(folder) / "corpus.txt", pathlib.Path(folder) / "rules.tsv"
    text.write_text(corpus())
    rules.write_text("2167\t56 49 49 49\n65 301\te9\n201C\t22\n201D\t22\n")  # Ⅷ, e + acute, quotes
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=f"{FOLDER}/{name}", model_type=kind, vocab_size=400, byte_fallback=True,
        normalization_rule_tsv=str(rules), character_coverage=0.98, minloglevel=2)
    (FOLDER / f"{name}.vocab").unlink()
    model = sentencepiece.SentencePieceProcessor(model_file=f"{FOLDER}/{name}.model")
    texts = ["Ⅷ \u201cquoted\u201d cafe\u0301"] + TEXTS + random_texts(20)
    return [{"text": t, "tokens": model.encode(t), "decoded": model.decode(model.encode(t))} for t in texts]


def split(pattern):
    from tokenizers import Regex, pre_tokenizers
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def pre_tokenizer(name):
    from tokenizers import pre_tokenizers
    long = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|"
            r"\s*[\r\n]+|\s+(?!\S)|\s+")
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    return {"gpt-2": level,
            "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), level]),
            "llama-bpe": split(long % "{1,3}"),
            "qwen2": split(long % "")}[name]


def bpe_vocabulary(name):
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    model = Tokenizer(models.BPE(ignore_merges=name == "llama-bpe"))
    model.pre_tokenizer = pre_tokenizer(name)
    if name == "qwen2":
        model.normalizer = normalizers.NFC()
    model.decoder = decoders.ByteLevel()
    model.train_from_iterator([corpus()], trainers.BpeTrainer(
        vocab_size=420, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    model.add_tokens([AddedToken("##", normalized=False)])
    state = json.loads(model.to_str())
    merges = [m if isinstance(m, str) else " ".join(m) for m in state["model"]["merges"]]
    tokens = [model.id_to_token(i) for i in range(model.get_vocab_size())]

    def fill(writer):
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(name)
        writer.add_token_list(tokens)
        writer.add_token_types([gguf.TokenType.USER_DEFINED if t == "##" else gguf.TokenType.NORMAL for t in tokens])
        writer.add_token_merges(merges)

    vocabulary_file(f"bpe_{name}", fill)
    texts = TEXTS + random_texts(60)
    return [{"text": t, "tokens": model.encode(t).ids, "decoded": model.decode(model.encode(t).ids)} for t in texts]


def main():
    FOLDER.mkdir(exist_ok=True)
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in ("sentencepiece", "tokenizers", "gguf"))
    out = {"_meta": {"what": "tokens of texts under the vocabularies beside this file",
                     "made by": f"scripts/make_tokenizer_golden.py with {versions}"}}
    with tempfile.TemporaryDirectory() as folder:
        out["spm_prefix"] = sentencepiece_vocabulary("spm_prefix", True, folder)
        out["spm_plain"] = sentencepiece_vocabulary("spm_plain", False, folder)
        for kind in ("unigram", "bpe"):
            out[f"model_{kind}"] = sentencepiece_model(f"model_{kind}", kind, folder)
    for name in ("gpt-2", "smollm", "llama-bpe", "qwen2"):
        out[f"bpe_{name}"] = bpe_vocabulary(name)
    lines = [f'"{key}": ' + ("[\n" + ",\n".join(json.dumps(v) for v in value) + "\n]" if isinstance(value, list)
                             else json.dumps(value)) for key, value in out.items()]
    (FOLDER / "tokenizers.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
