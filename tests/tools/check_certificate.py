#!/usr/bin/env python3
"""Checks a certificate of erasure with the standard library only.

    check_certificate.py CERTIFICATE [--signer DID] [--leaves FILE] [--proof FILE]...

Written from the specifications (RFC 9052 COSE_Sign1, RFC 8032 Ed25519, RFC 6962 trees), independently of the code that makes
certificates. Exit code 0 if everything is valid, 2 with the reasons if not.
"""

import argparse
import hashlib
import json
import sys

# Ed25519: the curve -x^2 + y^2 = 1 + d x^2 y^2 over the field of P elements; points as (X, Y, Z, T).
P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
ROOT = pow(2, (P - 1) // 4, P)


class Wrong(Exception):
    """A failed check."""


def add(a, b):
    e1, e2 = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    c, z = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    e, f, g, h = e2 - e1, z - c, z + c, e2 + e1
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def multiply(scalar, point):
    total = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            total = add(total, point)
        point, scalar = add(point, point), scalar >> 1
    return total


def same(a, b):
    return (a[0] * b[2] - b[0] * a[2]) % P == 0 and (a[1] * b[2] - b[1] * a[2]) % P == 0


def point_of(data):
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & (1 << 255) - 1
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT % P
    if y >= P or (x * x - square) % P or (x == 0 and sign):
        raise Wrong("not a point of the curve")
    if x & 1 != sign:
        x = P - x
    return (x, y, 1, x * y % P)


BASE = point_of((4 * pow(5, -1, P) % P).to_bytes(32, "little"))


def ed25519_verifies(key, message, signature):
    if len(signature) != 64:
        return False
    r, s = signature[:32], int.from_bytes(signature[32:], "little")
    if s >= ORDER:
        return False
    digest = hashlib.sha512(r + key + message).digest()
    h = int.from_bytes(digest, "little") % ORDER
    return same(multiply(s, BASE), add(point_of(r), multiply(h, point_of(key))))


def read_cbor(data, at=0):
    """Returns the value at `at` and the position after it. Supports the kinds of an envelope only."""
    if at >= len(data):
        raise Wrong("the envelope is cut off")
    kind, size = data[at] >> 5, data[at] & 31
    at += 1
    if size >= 24:
        length = {24: 1, 25: 2, 26: 4, 27: 8}.get(size)
        if length is None or at + length > len(data):
            raise Wrong("a length that isn't definite")
        size, at = int.from_bytes(data[at : at + length], "big"), at + length
    if kind == 0:
        return size, at
    if kind == 1:
        return -1 - size, at
    if kind in (2, 3):
        if at + size > len(data):
            raise Wrong("the envelope is cut off")
        part = data[at : at + size]
        return (part if kind == 2 else part.decode()), at + size
    if kind == 4:
        items = []
        for _ in range(size):
            item, at = read_cbor(data, at)
            items.append(item)
        return items, at
    if kind == 5:
        entries = {}
        for _ in range(size):
            key, at = read_cbor(data, at)
            entries[key], at = read_cbor(data, at)
        return entries, at
    if kind == 6:
        return read_cbor(data, at)
    raise Wrong("a kind of value that has no place in an envelope")


def cbor_string(kind, data):
    for limit, mark, length in ((24, None, 0), (1 << 8, 24, 1), (1 << 16, 25, 2), (1 << 32, 26, 4)):
        if len(data) < limit:
            head = bytes([kind << 5 | (len(data) if mark is None else mark)])
            return head + (len(data).to_bytes(length, "big") if length else b"") + data
    raise Wrong("too long")


def key_of_did(did):
    if not did.startswith("did:key:z"):
        raise Wrong(f"the signer {did} isn't a did:key")
    alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
    number = 0
    for letter in did[len("did:key:z") :]:
        if letter not in alphabet:
            raise Wrong("the signer's DID isn't base58")
        number = number * 58 + alphabet.index(letter)
    data = number.to_bytes(34, "big")
    if data[:2] != b"\xed\x01":
        raise Wrong("the signer's key isn't Ed25519")
    return data[2:]


def leaf_hash(leaf):
    return hashlib.sha256(b"\0" + leaf).digest()


def root_of(hashes):
    if not hashes:
        return hashlib.sha256(b"").digest()
    if len(hashes) == 1:
        return hashes[0]
    half = 1 << (len(hashes) - 1).bit_length() - 1
    return hashlib.sha256(b"\1" + root_of(hashes[:half]) + root_of(hashes[half:])).digest()


def root_by_path(node, index, size, path):
    """Computes the root from a leaf by splitting the tree top-down, as RFC 6962 defines it."""
    if size == 1:
        if path:
            raise Wrong("an inclusion path is too long")
        return node
    if not path:
        raise Wrong("an inclusion path is too short")
    half = 1 << (size - 1).bit_length() - 1
    if index < half:
        return hashlib.sha256(b"\1" + root_by_path(node, index, half, path[:-1]) + path[-1]).digest()
    return hashlib.sha256(b"\1" + path[-1] + root_by_path(node, index - half, size - half, path[:-1])).digest()


def check(arguments):
    with open(arguments.certificate, "rb") as file:
        data = file.read()
    envelope, end = read_cbor(data)
    if end != len(data) or not isinstance(envelope, list) or len(envelope) != 4:
        raise Wrong("not a COSE_Sign1 envelope")
    protected, _, payload, signature = envelope
    header, _ = read_cbor(protected)
    signer = header.get(4)
    signer = signer.decode() if isinstance(signer, bytes) else signer
    if header.get(1) not in (-8, -19) or not signer:
        raise Wrong("not signed with Ed25519 by a named signer")
    if arguments.signer and arguments.signer != signer:
        raise Wrong(f"signed by {signer}, not by {arguments.signer}")
    signed = b"\x84" + cbor_string(3, b"Signature1") + cbor_string(2, protected) + cbor_string(2, b"") + cbor_string(2, payload)
    if not ed25519_verifies(key_of_did(signer), signed, signature):
        raise Wrong("the signature isn't the signer's over these bytes")
    certificate = json.loads(payload)
    if certificate.get("format") != "gristmill-erasure-certificate/1":
        raise Wrong("not a certificate of erasure, or of another version")
    proofs, tree = certificate["proofs"], certificate["merkle"]
    if proofs["byte_search"]["remnants"] or proofs["survey"]["left"] or proofs["lookup"]["left"]:
        raise Wrong("it says itself that something is left")
    root = bytes.fromhex(tree["root"])
    if arguments.leaves:
        with open(arguments.leaves, "rb") as file:
            leaves = file.read()
        hashes = [leaf_hash(leaves[at : at + 32]) for at in range(0, len(leaves), 32)]
        if len(leaves) % 32 or len(hashes) != tree["size"] or root_of(hashes) != root:
            raise Wrong("the leaves don't hash to the root")
    for name in arguments.proof:
        with open(name, "rb") as file:
            proof = json.load(file)
        index, size = proof["index"], proof["size"]
        if size != tree["size"] or not 0 <= index < size:
            raise Wrong("an inclusion proof is of another tree")
        path = [bytes.fromhex(node) for node in proof["path"]]
        if root_by_path(leaf_hash(bytes.fromhex(proof["leaf"])), index, size, path) != root:
            raise Wrong("an inclusion proof doesn't lead to the root")
    return certificate, signer


def main():
    parser = argparse.ArgumentParser(description="Checks a certificate of erasure.")
    parser.add_argument("certificate")
    parser.add_argument("--signer")
    parser.add_argument("--leaves")
    parser.add_argument("--proof", action="append", default=[])
    try:
        certificate, signer = check(parser.parse_args())
    except (Wrong, ValueError, KeyError, TypeError, OverflowError, UnicodeDecodeError) as reason:
        print(f"refused: {reason}")
        return 2
    scope = certificate["scope"]
    print(f"valid: {certificate['id']}, {scope['grains']} grains and {scope['rejects']} rejects, signed by {signer}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
