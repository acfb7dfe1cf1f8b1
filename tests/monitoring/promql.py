"""What an expression of PromQL reads, and that expression with its conditions made into numbers.

No parser: enough of the grammar to find selectors and comparisons. Prometheus itself parses every expression in the tests.
"""

import re

TOKEN = re.compile(r'\s+|"(?:[^"\\]|\\.)*"|\'[^\']*\'|\[[^\]]*\]|[a-zA-Z_:][a-zA-Z0-9_:]*|[0-9.]+[a-z]*|[=!]~|[=!<>]=|.')
LISTS = {"by", "without", "on", "ignoring", "group_left", "group_right"}
WORDS = {"and", "or", "unless", "bool", "offset", "inf", "nan"}
COMPARISONS = {"==", "!=", ">", "<", ">=", "<="}


def tokens(expression):
    return [token for token in TOKEN.findall(expression) if not token.isspace()]


def _closing(found, start, opening, closing):
    depth = 0
    for index in range(start, len(found)):
        depth += (found[index] == opening) - (found[index] == closing)
        if depth == 0:
            return index
    raise ValueError(f"unbalanced {opening} in {' '.join(found)}")


def selectors(expression):
    """All selectors, as pairs of a metric and its matchers: (label, operator, value)."""
    found, result, index = tokens(expression), [], 0
    while index < len(found):
        token = found[index]
        after = found[index + 1] if index + 1 < len(found) else ""
        if token.lower() in LISTS and after == "(":
            index = _closing(found, index + 1, "(", ")")
        elif re.match(r"[a-zA-Z_:]", token) and token.lower() not in WORDS | LISTS and after != "(":
            matchers = []
            # `sum by (x) (…)` has its list between the word and the parenthesis.
            if after.lower() in LISTS:
                index += 1
                continue
            if after == "{":
                end = _closing(found, index + 1, "{", "}")
                inside = [part for part in found[index + 2 : end] if part != ","]
                matchers = [(inside[at], inside[at + 1], inside[at + 2].strip("\"'")) for at in range(0, len(inside), 3)]
                index = end
            result.append((token, matchers))
        index += 1
    return result


def total(expression):
    """The expression with every comparison giving 0 or 1 instead of dropping what does not hold: it is empty only when
    what it compares is missing, or when the labels of two sides do not meet."""
    found, result, depth = tokens(expression), [], 0
    for index, token in enumerate(found):
        depth += (token == "{") - (token == "}")
        result.append(token)
        if token in COMPARISONS and depth == 0 and found[index + 1] != "bool":
            result.append("bool")
    return " ".join(result)


def grouped(expression):
    """The labels that an expression groups or joins by."""
    lists = re.findall(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)", expression)
    return {label.strip() for names in lists for label in names.split(",") if label.strip()}
