"""The report's style sheet: colours as variables, one set for light and one for dark.

Text has a contrast of at least 4.5 to its background, what is drawn at least 3: see the test.
"""

from typing import Final

LIGHT: Final = {
    "page": "#f6f6f3", "card": "#fcfcfb", "ink": "#0b0b0b", "ink2": "#52514e", "muted": "#6b6963",
    "grid": "#e1e0d9", "axis": "#8a887e", "good": "#006300", "goodbg": "#e3f3e3", "bad": "#a61b10",
    "badbg": "#fbe7e5", "warn": "#6d4a00", "warnbg": "#fbf0d9", "flow": "#7f8fa0", "node": "#52514e",
    "quiet": "#8a887e", "s1": "#2a78d6", "s2": "#128a60", "s3": "#bf8000", "s5": "#4a3aa7", "s6": "#d83a3a",
    "s7": "#d6557f", "s8": "#c9541f",
}  # fmt: skip
DARK: Final = {
    "page": "#0d0d0d", "card": "#1a1a19", "ink": "#ffffff", "ink2": "#c3c2b7", "muted": "#98968d",
    "grid": "#2c2c2a", "axis": "#75736c", "good": "#5fd35f", "goodbg": "#12290f", "bad": "#f0837b",
    "badbg": "#351512", "warn": "#f0bd5a", "warnbg": "#2e2208", "flow": "#6f7e8e", "node": "#c3c2b7",
    "quiet": "#7d7b73", "s1": "#3987e5", "s2": "#199e70", "s3": "#c98500", "s5": "#9085e9", "s6": "#e66767",
    "s7": "#d55181", "s8": "#d95926",
}  # fmt: skip

TEXT_COLORS: Final = ("ink", "ink2", "muted")
DRAWN_COLORS: Final = ("axis", "flow", "node", "quiet", "s1", "s2", "s3", "s5", "s6", "s7", "s8")

CATEGORY_COLORS: Final = {
    "consumed": "s1",
    "moved on": "s5",
    "held": "quiet",
    "expired": "s3",
    "dead-lettered": "s6",
    "removed": "s8",
    "lost": "bad",
}
"""What became of messages: the same colour in every picture."""

STATE_COLORS: Final = {
    "available": "s1",
    "put_unconfirmed": "s5",
    "locked_for_browse": "s2",
    "get_unconfirmed": "s8",
    "browse_get_unconfirmed": "s7",
    "unconfirmed": "s8",
    "locked": "s2",
    "delayed": "s3",
    "unborn": "s3",
    "redelivery_delay": "s6",
    "paused": "quiet",
    "ordered": "s7",
}
"""States, as entries and as dwell times call them, and causes of a delay."""


def _variables(colors: dict[str, str]) -> str:
    return ";".join(f"--{name}:{value}" for name, value in colors.items())


COLORS: Final = (
    f":root{{color-scheme:light dark;{_variables(LIGHT)}}}"
    f"@media(prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}"
)

PICTURES: Final = """
svg text{font:13px system-ui,sans-serif;fill:var(--ink2)}
svg .label{paint-order:stroke;stroke:var(--card);stroke-width:4px;stroke-linejoin:round}
svg .value{fill:var(--ink)}
svg .name{fill:var(--ink);font-weight:600}
svg .tick{font-size:12px;fill:var(--muted);font-variant-numeric:tabular-nums}
.grid{stroke:var(--grid)}
.axis{stroke:var(--axis)}
.area{stroke:var(--card);stroke-width:.75;stroke-linejoin:round}
.mark{stroke:var(--ink);stroke-width:1.2;stroke-dasharray:3 3}
.band{fill-opacity:.45}
.band:hover{fill-opacity:.8}
"""

PAGE: Final = """
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1000px;margin:0 auto;padding:32px 20px 64px}
h1{font-size:26px;line-height:1.25;margin:0 0 6px}
h2{font-size:18px;margin:0 0 2px}
p{margin:0 0 12px;color:var(--ink2)}
section{background:var(--card);border:1px solid var(--grid);border-radius:10px;padding:20px 22px;
  margin:18px 0}
.verdict{border-radius:10px;padding:16px 22px;margin:18px 0;font-size:17px}
.verdict h2{font-size:17px}
.verdict.good{background:var(--goodbg);color:var(--good)}
.verdict.bad{background:var(--badbg);color:var(--bad)}
.verdict.warn{background:var(--warnbg);color:var(--warn)}
.verdict p{color:inherit;margin:2px 0 0;font-size:15px}
.tiles{display:flex;gap:12px;flex-wrap:wrap;margin:0;padding:0;list-style:none}
.tile{flex:1 1 140px;background:var(--card);border:1px solid var(--grid);border-radius:10px;
  padding:12px 16px}
.tile b{display:block;font-size:24px;font-weight:600}
.tile span{color:var(--ink2);font-size:13px}
svg{width:100%;height:auto;display:block;overflow:visible}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;font-size:13px}
.legend i{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:6px}
.multiples{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,400px),1fr));gap:22px 28px}
.multiples h3{font-size:14px;font-weight:600;margin:0}
.multiples p{font-size:13px;margin:0 0 4px}
h3.part{font-size:15px;margin:18px 0 4px}
details{margin-top:12px;font-size:13.5px}
summary{color:var(--ink2);cursor:pointer}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:13.5px}
caption{text-align:left;color:var(--muted);padding:6px 0}
th,td{text-align:left;padding:5px 12px 5px 0;border-bottom:1px solid var(--grid);white-space:nowrap;
  vertical-align:top}
th{font-weight:600;color:var(--ink2)}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
td.wide{white-space:normal;min-width:260px}
td.bad{color:var(--bad);font-weight:600}
footer{color:var(--muted);font-size:13px}
@media print{section,.tile{break-inside:avoid}}
"""

STYLE: Final = COLORS + PICTURES + PAGE
