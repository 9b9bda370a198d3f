"""Reference implementation of a sentence transformer of BERT's kind: tokens, layers and pooling in double precision,
from the weights and the vocabulary only. Needs numpy.

    python bert_reference.py FOLDER cases/embeddings/minilm.json    # rewrites the numbers of the case
    python bert_reference.py --small                                # the numbers of the model in the engine's unit tests
"""

import json
import math
import struct
import sys
import unicodedata
from pathlib import Path

import numpy as np

DIGITS = 6


def words(text):
    """Lower-cases, removes accents, and splits off punctuation and ideographs."""
    kept = []
    for letter in text:
        if letter in "\t\n\r" or unicodedata.category(letter) == "Zs":
            kept.append(" ")
        elif letter not in "\0\ufffd" and not unicodedata.category(letter).startswith("C"):
            kept.append(f" {letter} " if ideograph(ord(letter)) else letter)
    plain = unicodedata.normalize("NFD", "".join(kept).lower())
    plain = "".join(letter for letter in plain if unicodedata.category(letter) != "Mn")
    return "".join(f" {letter} " if punctuation(letter) else letter for letter in plain).split()


def ideograph(code):
    ranges = [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F)]
    ranges += [(0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)]
    return any(first <= code <= last for first, last in ranges)


def punctuation(letter):
    symbol = letter.isascii() and not letter.isalnum() and letter.isprintable() and letter != " "
    return symbol or unicodedata.category(letter).startswith("P")


def pieces(word, vocabulary):
    if len(word) > 100:
        return ["[UNK]"]
    found, start = [], 0
    while start < len(word):
        mark = "##" if start else ""
        ends = (end for end in range(len(word), start, -1) if mark + word[start:end] in vocabulary)
        end = next(ends, None)
        if end is None:
            return ["[UNK]"]
        found.append(mark + word[start:end])
        start = end
    return found


def tokens(text, vocabulary, limit):
    found = [piece for word in words(text) for piece in pieces(word, vocabulary)]
    return [vocabulary[piece] for piece in ["[CLS]", *found[: limit - 2], "[SEP]"]]


def layer_norm(x, weights, name, epsilon):
    spread = np.sqrt(x.var(axis=-1, keepdims=True) + epsilon)
    return (x - x.mean(axis=-1, keepdims=True)) / spread * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def linear(x, weights, name):
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


erf = np.vectorize(math.erf)


def vector(numbers, weights, config):
    """The mean of the last layer's vectors, with the length 1."""
    epsilon, heads = config["layer_norm_eps"], config["num_attention_heads"]
    table = "embeddings.{}_embeddings.weight"
    x = weights[table.format("word")][numbers] + weights[table.format("position")][: len(numbers)]
    x = layer_norm(x + weights[table.format("token_type")][0], weights, "embeddings.LayerNorm", epsilon)
    for layer in range(config["num_hidden_layers"]):
        name = f"encoder.layer.{layer}"
        query, key, value = (
            np.stack(np.split(linear(x, weights, f"{name}.attention.self.{part}"), heads, axis=1))
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[2])
        scores = np.exp(scores - scores.max(axis=2, keepdims=True))
        attended = np.concatenate(list(scores / scores.sum(axis=2, keepdims=True) @ value), axis=1)
        attended = linear(attended, weights, f"{name}.attention.output.dense")
        x = layer_norm(x + attended, weights, f"{name}.attention.output.LayerNorm", epsilon)
        wide = linear(x, weights, f"{name}.intermediate.dense")
        wide = wide * (1 + erf(wide / math.sqrt(2))) / 2
        x = layer_norm(x + linear(wide, weights, f"{name}.output.dense"), weights, f"{name}.output.LayerNorm", epsilon)
    mean = x.mean(axis=0)
    return mean / np.linalg.norm(mean)


def read_weights(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    body, weights = data[8 + length :], {}
    for name, place in json.loads(data[8 : 8 + length]).items():
        if place.get("dtype") == "F32":
            start, end = place["data_offsets"]
            weights[name] = np.frombuffer(body[start:end], "<f4").reshape(place["shape"]).astype(np.float64)
    return weights


def shapes(config):
    """Returns the shapes of a model's tensors, by name."""
    width, wide = config["hidden_size"], config["intermediate_size"]
    found = {
        "embeddings.word_embeddings.weight": (config["vocab_size"], width),
        "embeddings.position_embeddings.weight": (config["max_position_embeddings"], width),
        "embeddings.token_type_embeddings.weight": (config["type_vocab_size"], width),
    }
    dense = {"attention.self.query": (width, width), "attention.self.key": (width, width)}
    dense |= {"attention.self.value": (width, width), "attention.output.dense": (width, width)}
    dense |= {"intermediate.dense": (wide, width), "output.dense": (width, wide)}
    norms = ["embeddings.LayerNorm"]
    for layer in range(config["num_hidden_layers"]):
        name = f"encoder.layer.{layer}"
        norms += [f"{name}.attention.output.LayerNorm", f"{name}.output.LayerNorm"]
        for part, shape in dense.items():
            found |= {f"{name}.{part}.weight": shape, f"{name}.{part}.bias": shape[:1]}
    return found | {f"{norm}.{part}": (width,) for norm in norms for part in ("weight", "bias")}


def small():
    """A model whose weights are values of a sine, so that any implementation can generate them."""
    config = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12}
    config |= {"max_position_embeddings": 10, "type_vocab_size": 2, "layer_norm_eps": 1e-12}
    weights = {}
    for at, (name, shape) in enumerate(sorted(shapes(config).items())):
        wave = 0.4 * np.sin(1 + 0.7 * at + 0.31 * np.arange(math.prod(shape))).reshape(shape)
        weights[name] = wave + 1 if name.endswith("LayerNorm.weight") else wave
    letters = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "sat", "##s", "東"]
    vocabulary = {letter: at for at, letter in enumerate(letters)}
    for text in ["", "the cat sat", "Cats, cats! 東京", "the the the the the the the the the the the the cat"]:
        print(json.dumps(text), np.round(vector(tokens(text, vocabulary, 10), weights, config), DIGITS).tolist())


def main():
    if sys.argv[1] == "--small":
        return small()
    folder, case = map(Path, sys.argv[1:])
    config = json.loads((folder / "config.json").read_text())
    limit = json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"]
    vocabulary = {line: at for at, line in enumerate((folder / "vocab.txt").read_text("utf-8").split("\n"))}
    weights = read_weights(folder / "model.safetensors")
    texts = json.loads(case.read_text("utf-8"))["texts"]
    numbers = [tokens(text, vocabulary, limit) for text in texts]
    vectors = np.array([vector(row, weights, config) for row in numbers])
    made = {
        "texts": texts,
        "tokens": [len(row) for row in numbers],
        "beginnings": np.round(vectors[:, :4], DIGITS).tolist(),
        "cosines": np.round(vectors @ vectors.T, DIGITS).tolist(),
    }
    rows = [f" {json.dumps(key)}: [\n  " + ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in value) + "\n ]" for key, value in made.items()]
    case.write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")


main()
