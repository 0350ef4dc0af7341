"""Draws TFLOP/s of cases as bars, as SVG: a panel for each head dimension and mask, a group of bars for each length."""
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 420, 150  # of a panel's bars
LEFT, TOP, GAP, FOOT = 46, 64, 58, 34
COLOURS = {"attile": "#1f6feb", "cuDNN": "#8c959f", "FA3": "#57ab5a", "FlashInfer": "#e0823d", "FA2": "#c9b458",
           "Flex": "#bf8fd6"}
EXPECTED = "#cf222e"


def svg(panels, title, ceiling):
    """Returns the SVG text. panels: [(heading, [(label, {kernel: TFLOP/s}, expected or None)])], drawn two in a row;
    the bars of a length are in the order of COLOURS, and `expected` is a line across them. ceiling: top of all
    scales."""
    rows = (len(panels) + 1) // 2
    width, height = 2 * (LEFT + WIDTH) + GAP, TOP + rows * (HEIGHT + FOOT + 24)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
             f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
             f'<rect width="{width}" height="{height}" fill="white"/>', _text(LEFT, 20, title, size=15), *_legend()]
    for i, (heading, groups) in enumerate(panels):
        x = LEFT + i % 2 * (WIDTH + LEFT + GAP / 2)
        y = TOP + i // 2 * (HEIGHT + FOOT + 24) + 14
        parts += [_text(x, y - 6, heading, size=12), *_scale(x, y, ceiling), *_bars(x, y, groups, ceiling)]
    return "\n".join(parts + ["</svg>"]) + "\n"


def _text(x, y, text, size=11, anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">{escape(text)}</text>'


def _legend():
    x, parts = LEFT, []
    for name, colour in COLOURS.items():
        parts += [f'<rect x="{x}" y="32" width="12" height="12" fill="{colour}"/>', _text(x + 17, 42, name)]
        x += 80
    return parts + [f'<line x1="{x}" x2="{x + 16}" y1="38" y2="38" stroke="{EXPECTED}" stroke-width="2"/>',
                    _text(x + 21, 42, "best published peer, in proportion to cuDNN of this run")]


def _scale(x, y, ceiling):
    parts = []
    for value in range(0, int(ceiling) + 1, 200):
        at = y + HEIGHT * (1 - value / ceiling)
        parts += [f'<line x1="{x}" x2="{x + WIDTH}" y1="{at:.1f}" y2="{at:.1f}" stroke="#d8dee4"/>',
                  _text(x - 5, at + 4, str(value), anchor="end")]
    return parts


def _bars(x, y, groups, ceiling):
    parts, step = [], WIDTH / max(1, len(groups))
    names = [name for name in COLOURS if any(name in values for _, values, _ in groups)]
    thick = 0.8 * step / max(1, len(names))
    for i, (label, values, expected) in enumerate(groups):
        left = x + i * step + 0.1 * step
        for n, name in enumerate(names):
            value = values.get(name, 0)
            tall = HEIGHT * value / ceiling
            parts.append(f'<rect x="{left + n * thick:.1f}" y="{y + HEIGHT - tall:.1f}" width="{thick - 1:.1f}" '
                         f'height="{tall:.1f}" fill="{COLOURS[name]}"><title>{name} {value:.0f}</title></rect>')
            if name == "attile" and value:
                parts.append(_text(left, y + HEIGHT - tall - 3, f"{value:.0f}", 9))
        if expected:
            at = y + HEIGHT * (1 - expected / ceiling)
            parts.append(f'<line x1="{left:.1f}" x2="{left + 0.8 * step:.1f}" y1="{at:.1f}" y2="{at:.1f}" '
                         f'stroke="{EXPECTED}" stroke-width="2"/>')
        parts.append(_text(left + 0.4 * step, y + HEIGHT + 14, label, anchor="middle"))
    return parts
