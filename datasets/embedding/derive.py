"""Derives wordllama-224.safetensors, the token vectors of gristmill's built-in embedding model.

    pip download --no-deps wordllama==0.4.0.post1
    python derive.py wordllama-0.4.0.post1-*.whl

Of the 256 numbers of a token the first 224 are kept (the vectors were trained so that prefixes of them are usable), in four
bits each, with a factor for each row. The vocabulary is stored as its tokens only: the merges follow from their order, which is
checked here. The same input gives the same bytes. Needs numpy.
"""

import hashlib
import json
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np

WEIGHTS = "wordllama/weights/l2_supercat_256.safetensors"
TOKENIZER = "wordllama/tokenizers/l2_supercat_tokenizer_config.json"
DIGESTS = {
    WEIGHTS: "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
    TOKENIZER: "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
}
DIMENSIONS = 224
GREATEST = 7  # four bits store the numbers -7 to 7
SPACE = "\u2581"


def member(wheel, name):
    data = wheel.read(name)
    found = hashlib.sha256(data).hexdigest()
    if found != DIGESTS[name]:
        sys.exit(f"{name} has the digest {found}, not {DIGESTS[name]}")
    return data


def vectors(data):
    (length,) = struct.unpack("<Q", data[:8])
    place = json.loads(data[8 : 8 + length])["embedding.weight"]
    start, end = place["data_offsets"]
    table = np.frombuffer(data[8 + length :][start:end], "<f2").reshape(place["shape"])
    return table[:, :DIMENSIONS].astype(np.float32)


def quantised(table):
    """Returns two numbers per byte, the first in the lower half, each with an offset of 8; and the factor of each row."""
    scales = (np.abs(table).max(axis=1) / GREATEST).astype("<f2")
    wide = scales.astype(np.float32)[:, None]
    numbers = np.clip(np.rint(table / wide), -GREATEST, GREATEST).astype(np.int8) + 8
    return (numbers[:, 0::2] | numbers[:, 1::2] << 4).astype(np.uint8), scales


def vocabulary(data):
    """Returns the tokens ordered by number; fails if their merges don't follow from that order."""
    tokenizer = json.loads(data)
    numbers = tokenizer["model"]["vocab"]
    tokens = sorted(numbers, key=numbers.get)
    assert [numbers[token] for token in tokens] == list(range(len(tokens)))
    assert not any("\n" in token for token in tokens)
    # Earlier tokens are merged first, those of spaces only after all others; the parts of a token by number.
    merges = []
    for token in sorted(tokens, key=lambda token: (len(token) > 1 and not token.strip(SPACE), numbers[token])):
        parts = [(token[:at], token[at:]) for at in range(1, len(token))]
        known = [pair for pair in parts if pair[0] in numbers and pair[1] in numbers]
        merges += sorted(known, key=lambda pair: (numbers[pair[0]], numbers[pair[1]]))
    assert [" ".join(pair) for pair in merges] == tokenizer["model"]["merges"]
    assert [token["content"] for token in tokenizer["added_tokens"]] == tokens[:3] and not tokenizer["pre_tokenizer"]
    return np.frombuffer("\n".join(tokens).encode(), np.uint8)


def safetensors(tensors, about):
    header, body = {"__metadata__": about}, b""
    for name, (kind, tensor) in tensors.items():
        end = len(body) + tensor.nbytes
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [len(body), end]}
        body += tensor.tobytes()
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    return struct.pack("<Q", len(head)) + head + body


def main():
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        table, scales = quantised(vectors(member(wheel, WEIGHTS)))
        tokens = vocabulary(member(wheel, TOKENIZER))
    tensors = {"embeddings": ("U8", table), "scales": ("F16", scales), "vocabulary": ("U8", tokens)}
    about = {"derived_from": "wordllama 0.4.0.post1, l2_supercat_256", "license": "MIT, see LICENSE-WORDLLAMA"}
    out = Path(__file__).with_name(f"wordllama-{DIMENSIONS}.safetensors")
    out.write_bytes(safetensors(tensors, about))
    print(out.name, out.stat().st_size, hashlib.sha256(out.read_bytes()).hexdigest())


if __name__ == "__main__":
    main()
