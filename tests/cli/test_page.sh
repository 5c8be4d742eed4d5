#!/usr/bin/env bash
# A report in a real browser: nothing that a class is named runs, columns sort, the page is what it should be on a screen in
# light and on a phone in dark. Skipped (code 77) where there is no chromium, which is a failure where
# RECOLLECT_TEST_NO_SKIP is set.
#
# usage: test_page.sh PROGRAM LOOK RESULTS    LOOK: look_at_page; RESULTS: the folder of the results of real runs
set -euo pipefail
program=$1 look=$2 results=$3
browser=$(command -v chromium || command -v chromium-browser || true)
if [ -z "$browser" ]; then
    echo "skipped: there is no chromium"
    if [ -n "${RECOLLECT_TEST_NO_SKIP:-}" ]; then exit 1; fi
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
browse() { # browse ARGUMENT...: with a profile of its own, and no network
    timeout 120 "$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars --no-first-run --disable-extensions \
        --disable-background-networking --disable-dev-shm-usage --user-data-dir="$work/profile" \
        --proxy-server=127.0.0.1:9 "$@" 2>"$work/log" || { cat "$work/log" >&2; fail "the browser: $*"; }
}

mkdir -p "$work/run/cwd"
# Names that would act, if anything did.
sed -e 's|"name": "53"|"name": "<script>document.title=1234567</script>"|' \
    -e 's|"name": "37"|"name": "\\"><img src=x onerror=document.title=1234567>"|' \
    -e 's|"name": "65"|"name": "שלום"|' "$results/cifar100-20-cwd-order-1.json" >"$work/run/cwd/results.json"
grep -q onerror "$work/run/cwd/results.json" || fail "the names are not in the results"
"$program" report "$work/run" >/dev/null
page=file://$work/run/report.html

# A script that got into a page in spite of all that does not run either: a copy has one.
sed 's|<main>|<main><script>document.title="acted"</script>|' "$work/run/report.html" >"$work/forged.html"
grep -q acted "$work/forged.html" || fail "there is no script to try"
browse --dump-dom "file://$work/forged.html" >"$work/dom"
grep -q '<title>recollect: cifar100</title>' "$work/dom" || fail "a name has changed the title: $(grep '<title>r' "$work/dom")"
grep -q 'tabindex="0"' "$work/dom" || fail "the page's own script did not run"
grep -qF '&lt;script&gt;document.title=1234567&lt;/script&gt;' "$work/dom" || fail "the name is not shown"
grep -q 'שלום' "$work/dom" || fail "a name from right to left is not shown"
if grep -q '<img' "$work/dom"; then fail "a name has become an element"; fi

# What a person does: a script at the end of a copy sorts a table by clicks, asks for a drawing's hint with a finger, and
# looks whether anything is wider than the window of a phone.
probe='const rows = t => [...document.querySelectorAll(t + " tbody tr")].map(r => r.cells[0].textContent).slice(0, 3).join();
const click = (t, n) => document.querySelector(t + " th:nth-child(" + n + ")").click();
const said = [];
click(".paper", 3); said.push("down " + rows(".paper"));
click(".paper", 3); said.push("up " + rows(".paper"));
click(".paper", 2); said.push("known first " + rows(".paper"));
click(".paper", 1); said.push("letters " + rows(".paper"));
document.querySelector("circle").dispatchEvent(new PointerEvent("pointerdown", {bubbles: true, pointerType: "touch"}));
said.push("hint " + document.getElementById("tip").textContent);
said.push("wide " + (document.documentElement.scrollWidth - innerWidth));
addEventListener("load", () => setTimeout(() => {
    const times = performance.getEntriesByType("navigation")[0];
    document.body.textContent = said.join("\n") + "\nopened in " + Math.round(times.loadEventEnd) + " ms";
}));'
{ # whose policy lets it run
    sed -e "s/script-src /script-src 'nonce-probe' /" -e '/<\/body>/,$d' "$work/run/report.html"
    echo "<script nonce=\"probe\">$probe</script></body></html>"
} >"$work/probe.html"
browse --window-size=390,900 --dump-dom "file://$work/probe.html" >"$work/said"
for line in 'down LODE 5120,ER 5120,CwD' 'up DGR,LwF,DeepInversion' 'known first CwD,' 'letters ABD,ACE,CwD' \
    'hint CwD after task 1: 88.60 % (1 run)' 'wide 0'; do
    grep -q "^\(.*<body>\)\?$line" "$work/said" || fail "'$line' is not what was seen: $(tail -n 12 "$work/said")"
done
grep -o 'opened in [0-9]* ms' "$work/said"

# No text of a drawing is cut off by its edge: long labels and long names, small numbers at an axis.
mkdir -p "$work/long/cwd"
cat >"$work/long/cwd/results.json" <<'JSON'
{"method": "cwd", "task_sizes": [1, 1], "tasks_done": 2,
 "tasks": [{"classes": 1, "accuracy": 50, "by_task": [50], "new_norm": 0.009, "seconds": {}},
           {"classes": 2, "accuracy": 50, "by_task": [50, 50], "old_norm": 0.008, "new_norm": 0.009, "seconds": {}}],
 "classes": [{"name": "Chrysanthemum morifolium", "accuracy": 50, "head_norm": 0.008},
             {"name": "Macleaya microcarpa", "accuracy": 50, "head_norm": 0.009}],
 "confusion": [[1, 1], [1, 1]]}
JSON
"$program" report "$work/long" "$results"/cifar100-5-{finetune,without-drawn-cwd+,without-moved-cwd+,joint}-order-0.json \
    --out "$work/long.html" >/dev/null
probe='for (const folded of document.querySelectorAll("details")) folded.open = true;
const cut = [...document.querySelectorAll("svg text")].filter(text => {
    const own = text.getBoundingClientRect(), all = text.ownerSVGElement.getBoundingClientRect();
    return own.left < all.left - 1 || own.right > all.right + 1 || own.top < all.top - 1 || own.bottom > all.bottom + 1;
}).map(text => text.textContent);
addEventListener("load", () => setTimeout(() => { document.body.textContent = "cut: " + cut.join(); }));'
{
    sed -e "s/script-src /script-src 'nonce-probe' /" -e '/<\/body>/,$d' "$work/long.html"
    echo "<script nonce=\"probe\">$probe</script></body></html>"
} >"$work/probe.html"
for width in 390 1280; do
    browse --window-size=$width,900 --dump-dom "file://$work/probe.html" >"$work/said"
    grep -q '<body>cut: </body>' "$work/said" || fail "in a window of $width pixels: $(tail -n 1 "$work/said")"
done

browse --force-device-scale-factor=1 --window-size=1280,900 --screenshot="$work/light.png" "$page" >/dev/null
"$look" "$work/light.png" 1280 900 f6f5f1 2563c9 || fail "the page in light"
browse --force-device-scale-factor=1 --window-size=390,900 --blink-settings=preferredColorScheme=0 \
    --screenshot="$work/dark.png" "$page" >/dev/null
"$look" "$work/dark.png" 390 900 12151b 6ea3ff || fail "the page in dark"
echo "passed"
