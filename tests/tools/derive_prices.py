#!/usr/bin/env python3
"""Derives the embedded price catalogue from the data file of the crate `genai-prices` (MIT).

usage: derive_prices.py PRICES_JSON VERSION DATE > schemas/src/message/price_catalog.json

PRICES_JSON is `data/prices.json` of the crate's source, VERSION the crate's version, and DATE the
day whose prices apply to tokens without a time. Prices keep their decimal spelling. Match rules become alternatives of patterns: `*` stands for any text, `#`
for one digit, a leading `!` for negation, and `&` joins patterns that must all match.
"""

import json
import re
import sys
from decimal import Decimal

CLASSES = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")

# Rules whose regular expressions have no direct counterpart among the patterns.
NO_SPEECH = "^(?!.*-[tT][tT][sS](?:$|-))"
MISTRAL = (
    r"^(?![^/]+/)(?:labs-)?(?:(?:mi|code|dev|magi|mini)stral|mixtral|pixtral|voxtral|"
    r"open-(?:mistral|mixtral))"
)
MISTRAL_NAMES = ["mistral", "codestral", "devstral", "magistral", "ministral", "mixtral",
                 "pixtral", "voxtral", "open-mistral", "open-mixtral"]


def regex_patterns(expression):
    """Returns the alternatives of patterns that stand for a regular expression of the data."""
    if expression == NO_SPEECH:
        return ["!*-tts&!*-tts-*"]
    if expression == MISTRAL:
        return [labs + name + "*" for labs in ("", "labs-") for name in MISTRAL_NAMES]
    if expression == "^o[134]":
        return ["o1*", "o3*", "o4*"]
    text = expression.removeprefix("^")
    ends = text.endswith("$")
    text = text.removesuffix("$")
    text = re.sub(r"\\d\{(\d)\}", lambda match: "#" * int(match[1]), text)
    text = text.replace("\\d", "#").replace("\\.", ".").replace("\\[", "[").replace("\\]", "]")
    texts = [text.replace("[-@]", separator) for separator in "-@"] if "[-@]" in text else [text]
    if "\\" in text or re.search(r"[(?{|]", text):
        raise SystemExit(f"no pattern for the regular expression {expression}")
    return [text if ends else text + "*" for text in texts]


def patterns(rule):
    """Returns the alternatives of patterns that stand for a match rule."""
    if not rule:
        return []
    [(kind, value)] = rule.items()
    if kind == "or":
        return [pattern for part in value for pattern in patterns(part)]
    if kind == "and":
        joined = [""]
        for part in value:
            joined = [f"{left}&{right}".lstrip("&") for left in joined for right in patterns(part)]
        return joined
    if kind == "regex":
        return regex_patterns(value)
    value = value.lower()
    if re.search(r"[*#&]|^!", value):
        raise SystemExit(f"`{value}` has a character of the patterns")
    return [{"equals": "{}", "starts_with": "{}*", "ends_with": "*{}", "contains": "*{}*"}[kind]
            .format(value)]


def spelled(number):
    return format(Decimal(number).normalize(), "f")


def at(price, start):
    """Returns a price for prompts of more than `start` tokens."""
    if not isinstance(price, dict):
        return price
    reached = [tier["price"] for tier in price["tiers"] if int(tier["start"]) <= start]
    return reached[-1] if reached else price["base"]


def tiers(prices):
    """Returns rows of the start of a tier and its four rates: input, output, read, write."""
    if "input_mtok" not in prices and "output_mtok" not in prices:
        return None
    starts = {0}
    for kind in CLASSES:
        if isinstance(prices.get(kind), dict):
            starts.update(int(tier["start"]) for tier in prices[kind]["tiers"])
    rows = []
    for start in sorted(starts):
        plain = prices.get("input_mtok", "0")
        rates = [plain, prices.get("output_mtok", "0"), prices.get("cache_read_mtok", plain),
                 prices.get("cache_write_mtok", plain)]
        rows.append([str(start)] + [spelled(at(rate, start)) for rate in rates])
    return rows


def period(entry):
    """Returns the first day and the hours (UTC) of a period, and its tiers."""
    rows = tiers(entry["prices"])
    if rows is None:
        return None
    limits = entry.get("constraint") or {}
    hours = [limits[key].removesuffix("Z") for key in ("start_time", "end_time") if key in limits]
    return {"from": limits.get("start_date", ""), "hours": hours, "tiers": rows}


def model(entry):
    prices = entry["prices"]
    prices = prices if isinstance(prices, list) else [{"prices": prices}]
    periods = [found for found in map(period, prices) if found]
    return {"match": patterns(entry["match"]), "periods": periods} if periods else None


def provider(entry):
    return {
        "id": entry["id"],
        "names": patterns(entry.get("provider_match")),
        "models_like": patterns(entry.get("model_match")),
        "fallbacks": entry.get("fallback_model_providers", []),
        "models": [found for found in map(model, entry["models"]) if found],
    }


def main():
    path, version, date = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        data = json.load(file, parse_float=str, parse_int=str)
    # A model per line keeps the changes of an update readable.
    providers = []
    for entry in map(provider, data):
        models = ",\n".join(json.dumps(one, separators=(",", ":")) for one in entry.pop("models"))
        head = json.dumps(entry, separators=(",", ":")).removesuffix("}")
        providers.append(f'{head},"models":[\n{models}]}}')
    print(f'{{"version":"genai-prices-{version}","as_of":"{date}","providers":[')
    print(",\n".join(providers) + "]}")


main()
