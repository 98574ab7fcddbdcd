"""How a page looks: on screens of any width, light or dark, and on paper.

Colours are variables with one set for light and one for dark; on every pair of text and ground that the page
uses the contrast is at least 4.5 to 1. Pictures keep a white ground in both. On paper everything is black on
white, folded parts are open, and no picture or row is cut by the end of a sheet.
"""

from __future__ import annotations

LIGHT = {
    "ground": "#ffffff", "card": "#f4f6f8", "ink": "#1c2127", "soft": "#545d68", "line": "#d3d9df",
    "link": "#0a58a6", "good": "#17683a", "fair": "#7d5200", "poor": "#ad2017", "bar": "#0a6fb8",
}  # fmt: skip
DARK = {
    "ground": "#12161b", "card": "#1b2128", "ink": "#e7eaee", "soft": "#a9b3be", "line": "#39424d",
    "link": "#86bdff", "good": "#79d397", "fair": "#e9bd55", "poor": "#ff9b91", "bar": "#5aa9f0",
}  # fmt: skip
PAPER = {
    "ground": "#ffffff", "card": "#ffffff", "ink": "#000000", "soft": "#333333", "line": "#999999",
    "link": "#000000", "good": "#000000", "fair": "#000000", "poor": "#000000", "bar": "#555555",
}  # fmt: skip
SCRIPT = (
    "addEventListener('beforeprint', () => document.querySelectorAll('details:not([open])')"
    ".forEach(part => { part.open = true; part.dataset.folded = ''; }));\n"
    "addEventListener('afterprint', () => document.querySelectorAll('details[data-folded]')"
    ".forEach(part => { part.open = false; delete part.dataset.folded; }));"
)


def _variables(colours: dict[str, str]) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())


RULES = """
* { box-sizing: border-box; }
html { scroll-behavior: smooth; -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body { margin: 0 auto; max-width: 66rem; padding: 1.5rem clamp(0.9rem, 4vw, 2.5rem) 3rem;
  background: var(--ground); color: var(--ink); font: 1rem/1.55 system-ui, sans-serif;
  overflow-wrap: anywhere; }
h1 { font-size: clamp(1.5rem, 4.5vw, 2.1rem); line-height: 1.2; margin: 0.1rem 0 0.8rem; }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 2.8rem 0 0.6rem; }
p { margin: 0.6rem 0; max-width: 46rem; }
a { color: var(--link); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.kind { margin: 0; color: var(--soft); font-size: 0.9rem; letter-spacing: 0.04em; }
.skip { position: absolute; left: -100rem; background: var(--ground); padding: 0.5rem 0.9rem; z-index: 1; }
.skip:focus { left: 0.5rem; top: 0.5rem; }
.unseen { position: absolute; width: 1px; height: 1px; margin: -1px; overflow: hidden;
  clip-path: inset(50%); white-space: nowrap; }
nav ul { display: flex; flex-wrap: wrap; gap: 0.25rem 1.3rem; list-style: none; margin: 0; padding: 0;
  font-size: 0.92rem; }
nav a { display: inline-block; padding: 0.2rem 0; }
.verdict { margin: 1.5rem 0 1.4rem; padding: 0.9rem 1.2rem 1rem; background: var(--card);
  border-left: 0.4rem solid var(--tone); border-radius: 0 0.4rem 0.4rem 0; --tone: var(--soft); }
.verdict p { margin: 0.15rem 0; max-width: 50rem; font-size: clamp(1.08rem, 2.6vw, 1.28rem);
  line-height: 1.45; }
.verdict .word { color: var(--tone); font-size: 1rem; font-weight: 700; }
.good { --tone: var(--good) !important; } .fair { --tone: var(--fair) !important; }
.poor { --tone: var(--poor) !important; }
.numbers { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(12.5rem, 100%), 1fr));
  gap: 0.8rem; margin: 0; }
.numbers div { border: 1px solid var(--line); border-radius: 0.4rem; padding: 0.7rem 1rem 0.9rem; }
.numbers dt { color: var(--soft); font-size: 0.92rem; }
.numbers dd { margin: 0.15rem 0 0; color: var(--soft); font-size: 0.9rem; line-height: 1.4; }
.numbers .value { color: var(--ink); font-size: clamp(1.6rem, 4vw, 2.1rem); font-weight: 650;
  line-height: 1.2; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
.numbers .long { font-size: 1.35rem; line-height: 1.87; }
figure { margin: 1.2rem 0 1.8rem; }
figcaption { margin-top: 0.5rem; color: var(--soft); font-size: 0.92rem; max-width: 46rem; }
.scroll { overflow-x: auto; }
.paper { background: #ffffff; border: 1px solid var(--line); border-radius: 0.4rem; padding: 0.4rem; }
.drawing { margin: 0 auto; }
.drawing svg, .drawing img { display: block; width: 100%; height: auto; }
.drawing svg * { stroke-linejoin: round; stroke-linecap: butt; }
table { border-collapse: collapse; margin: 0.4rem 0; font-size: 0.95rem; min-width: min(34rem, 100%);
  overflow-wrap: normal; }
caption { text-align: left; color: var(--soft); font-size: 0.92rem; padding: 0.2rem 0 0.5rem; }
caption span { display: block; position: sticky; left: 0; max-width: min(46rem, calc(100vw - 2.4rem)); }
th, td { text-align: left; padding: 0.42rem 1.4rem 0.42rem 0; border-bottom: 1px solid var(--line);
  vertical-align: baseline; }
th:last-child, td:last-child { padding-right: 0.2rem; }
thead th { color: var(--soft); font-weight: 600; border-bottom-width: 2px; vertical-align: bottom; }
tbody th { font-weight: 600; min-width: 6.5rem; max-width: 24rem; overflow-wrap: break-word; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
thead .number { white-space: normal; min-width: 6.5rem; }
thead .number:nth-child(2) { min-width: 0; }
.share { display: inline-block; width: 5.5rem; height: 0.62rem; border: 1px solid var(--line);
  border-radius: 0.2rem; overflow: hidden; }
.share span { display: block; height: 100%; background: var(--bar); }
.share + span { display: inline-block; min-width: 4rem; }
details { margin: 1rem 0; border-top: 1px solid var(--line); border-bottom: 1px solid var(--line);
  padding: 0.5rem 0; }
summary { cursor: pointer; font-weight: 600; padding: 0.2rem 0; }
.terms { margin: 0.8rem 0; }
.terms div { display: grid; grid-template-columns: minmax(8rem, 14rem) 1fr; gap: 0.2rem 1.2rem;
  padding: 0.4rem 0; border-bottom: 1px solid var(--line); }
.terms dt { font-weight: 600; } .terms dd { margin: 0; max-width: 44rem; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 0.4rem; padding: 0.8rem 1rem;
  white-space: pre-wrap; font: 0.92rem/1.5 ui-monospace, monospace; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); color: var(--soft); font-size: 0.9rem; }
@media (max-width: 34rem) { .terms div { grid-template-columns: 1fr; } .share { width: 3rem; }
  th, td { padding-right: 0.9rem; } }
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto; } }
"""
ON_PAPER = """
@page { margin: 16mm 15mm; }
html { font-size: 9.5pt; }
body { max-width: none; padding: 0; }
.numbers { grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); }
nav, .skip { display: none; }
h2 { break-after: avoid; margin-top: 1.6rem; }
p { orphans: 3; widows: 3; }
a { text-decoration: none; }
figure, .verdict, .numbers, tr, .terms div, pre { break-inside: avoid; }
figcaption { break-before: avoid; }
thead { display: table-header-group; }
th, td { padding-top: 0.2rem; padding-bottom: 0.2rem; }
.scroll { overflow: visible; }
.paper { border: none; padding: 0; }
.drawing { min-width: 0 !important; }
.drawing svg, .drawing img { max-height: 200mm; }
.share, .share span { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
details { border: none; padding: 0; }
details::details-content { display: block; content-visibility: visible; block-size: auto; }
details > summary { list-style: none; }
"""
STYLE = (
    f":root {{ color-scheme: light dark; {_variables(LIGHT)} }}\n"
    f"@media (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}\n"
    f"{RULES.strip()}\n@media print {{\n:root {{ color-scheme: light; {_variables(PAPER)} }}{ON_PAPER}}}\n"
)
