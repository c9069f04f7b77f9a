"""The report's style sheet: colours as variables, one set for light and one for dark."""

from typing import Final

STYLE: Final = """
:root{color-scheme:light dark;--page:#f9f9f7;--card:#fcfcfb;--ink:#0b0b0b;--ink2:#52514e;
  --muted:#75736c;--grid:#e1e0d9;--axis:#c3c2b7;--good:#006300;--goodbg:#e3f3e3;--bad:#b42318;
  --badbg:#fbe7e5;--flow:#9aa7b5;--node:#52514e;--quiet:#a9a79d;--s1:#2a78d6;--s2:#1baf7a;--s3:#eda100;
  --s4:#008300;--s5:#4a3aa7;--s6:#e34948;--s7:#e87ba4;--s8:#eb6834}
@media(prefers-color-scheme:dark){:root{--page:#0d0d0d;--card:#1a1a19;--ink:#fff;--ink2:#c3c2b7;
  --muted:#98968d;--grid:#2c2c2a;--axis:#45443f;--good:#5fd35f;--goodbg:#12290f;--bad:#f0837b;
  --badbg:#351512;--flow:#5d6b7a;--node:#c3c2b7;--quiet:#6f6d66;--s1:#3987e5;--s2:#199e70;--s3:#c98500;
  --s4:#1f9a1f;--s5:#9085e9;--s6:#e66767;--s7:#d55181;--s8:#d95926}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1000px;margin:0 auto;padding:32px 20px 64px}
h1{font-size:26px;margin:0 0 4px}
h2{font-size:18px;margin:0 0 2px}
p{margin:0 0 12px;color:var(--ink2)}
section{background:var(--card);border:1px solid var(--grid);border-radius:10px;padding:20px 22px;
  margin:18px 0}
.verdict{border-radius:10px;padding:16px 22px;margin:18px 0;font-size:17px}
.verdict.good{background:var(--goodbg);color:var(--good)}
.verdict.bad{background:var(--badbg);color:var(--bad)}
.verdict p{color:inherit;margin:2px 0 0;font-size:15px}
.tiles{display:flex;gap:12px;flex-wrap:wrap}
.tile{flex:1 1 140px;background:var(--card);border:1px solid var(--grid);border-radius:10px;
  padding:12px 16px}
.tile b{display:block;font-size:24px;font-weight:600}
.tile span{color:var(--ink2);font-size:13px}
svg{width:100%;height:auto;display:block;overflow:visible}
svg text{font:13px system-ui,sans-serif;fill:var(--ink2)}
svg .label{paint-order:stroke;stroke:var(--card);stroke-width:4px;stroke-linejoin:round}
svg .value{fill:var(--ink)}
svg .tick{font-size:12px;fill:var(--muted);font-variant-numeric:tabular-nums}
.grid{stroke:var(--grid)}
.axis{stroke:var(--axis)}
.line{fill:none;stroke-width:2;stroke-linejoin:round}
.band{fill:none;stroke-opacity:.45}
.band:hover{stroke-opacity:.8}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;font-size:13px}
.legend i{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:6px}
.multiples{display:grid;grid-template-columns:repeat(auto-fit,minmax(300px,1fr));gap:18px 28px}
.multiples h3{font-size:14px;font-weight:600;margin:0}
.multiples p{font-size:13px;margin:0 0 4px}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:13.5px}
th,td{text-align:left;padding:5px 12px 5px 0;border-bottom:1px solid var(--grid);white-space:nowrap}
th{font-weight:600;color:var(--ink2)}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
td.wide{white-space:normal}
td.bad{color:var(--bad);font-weight:600}
footer{color:var(--muted);font-size:13px}
"""
