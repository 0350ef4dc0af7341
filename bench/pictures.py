#!/usr/bin/env python3
"""Extracts the pictures of a page written by --report, as stand-alone SVG files:

    bench/pictures.py DIR/index.html docs/tuning    # docs/tuning-roofline.svg, -predicted.svg, -map.svg, -pareto.svg
"""
import re
import sys

# {heading of the page: file name}. Of several pictures under one heading the first is used.
PICTURES = {"Roofline": "roofline", "Predicted against measured": "predicted", "block_n and block_m": "map",
            "Pareto front": "pareto"}


def style_of(page):
    """The page's CSS rules for elements inside a picture."""
    rules = re.search("<style>(.*?)@media", page, re.S).group(1)
    wanted = [rule + "}" for rule in rules.split("}") if rule.startswith((".", "svg text"))]
    return "<style>" + "".join(wanted).replace("svg text", "text") + "</style>"


def alone(svg, style):
    """A picture with its rules and a white background, for pages of another colour."""
    tag, rest = svg.split(">", 1)
    return tag.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1) + ">" + style + \
        '<rect width="100%" height="100%" fill="white"/>' + rest + "\n"


def main(path, prefix):
    with open(path, encoding="utf-8") as file:
        page = file.read()
    style, heading, done = style_of(page), None, set()
    for title, svg in re.findall(r"<h[1-3]>([^<]*)</h[1-3]>|(<svg viewBox.*?</svg>)", page, re.S):
        heading = title or heading
        name = PICTURES.get(heading)
        if svg and name and name not in done:
            done.add(name)
            with open(f"{prefix}-{name}.svg", "w", encoding="utf-8") as file:
                file.write(alone(svg, style))
    missing = [name for name in PICTURES.values() if name not in done]
    if missing:
        print(f"not on this page: {', '.join(missing)}", file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
