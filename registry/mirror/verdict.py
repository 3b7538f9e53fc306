#!/usr/bin/env python3
"""verdict.py MODE IMAGES UNIQUE-BYTES RESULTS.jsonl...: ours against the floor of the same run, with the targets.

RESULTS are lines of the lab's run1, their labels WHO/PHASE, WHO being floor, ours or a peer. Figures are medians. Exits with 1
when a target is missed."""
import json, os, statistics, sys

mode, images, unique = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]) / 1e6
rows = {}
for name in sys.argv[4:]:
    for line in open(name):
        r = json.loads(line)
        r["requests"] = r["heads"] + r["gets"] + r["posts"]
        rows.setdefault(r["label"], []).append(r)
wan = mode.startswith("wan")
missed = 0


def med(who, phase, key):
    return statistics.median(r[key] for r in rows[f"{who}/{phase}"])


# figure is the line of perf/figure, for the page of "make bench-all".
def figure(what, key, phase, value, limit=None, peer="the floor", beside=None):
    if "FIGURES" not in os.environ:
        return
    runs = [r[key] for r in rows[f"ours/{phase}"]]
    f = {"figure": f"mirror/{mode}: {what}", "value": value, "unit": UNITS[key], "low": min(runs), "high": max(runs), "runs": len(runs)}
    if limit is not None:
        f["goal"] = limit
    if beside:
        f.update(peer=peer, peerValue=beside)
    with open(os.environ["FIGURES"], "a") as out:
        out.write(json.dumps(f) + "\n")


UNITS = {"wall": "s", "cpu": "CPU s", "rssMB": "MB of memory", "requests": "requests", "blobGets": "requests", "loMB": "MB", "diskMB": "MB"}


def line(what, ours, base, shown, target, ok):
    global missed
    missed += ok is False
    verdict = {True: "met", False: "MISSED", None: ""}[ok]
    print(f"| {what} | {ours} | {base} | {shown} | {target} | {verdict} |")


def ratio(what, phase, key, limit, digits=2):
    if f"ours/{phase}" not in rows:
        return
    a, b = med("ours", phase, key), med("floor", phase, key)
    x = a / max(b, 0.005)
    figure(what, key, phase, a, limit, beside=max(b, 0.005))
    line(what, f"{a:.{digits}f}", f"{b:.{digits}f}", f"{x:.3f}x", f"{limit}x" if limit else "", x <= limit if limit else None)


def most(what, phase, key, limit, digits=0):
    if f"ours/{phase}" not in rows:
        return
    a, b = med("ours", phase, key), med("floor", phase, key)
    figure(what, key, phase, a, limit)
    line(what, f"{a:.{digits}f}", f"{b:.{digits}f}", "", f"{limit:.{digits}f}", a <= limit)


print("| figure | ours | floor | ratio | target | verdict |\n|---|---|---|---|---|---|")
if "ours/cold" in rows:
    ratio("cold, s", "cold", "wall", 0.97 if wan else 1.15)
    ratio("cold, CPU s", "cold", "cpu", 1.2)
    most("cold, peak MB", "cold", "rssMB", 60)
    most("cold, requests", "cold", "requests", med("floor", "cold", "requests") + images)
    ratio("cold, MB moved", "cold", "loMB", 1.005, 1)
    most("cold, MB on disk", "cold", "diskMB", 1.01 * unique, 1)
    ratio("warm, s", "warm", "wall", 1.5 if wan else None)
    most("warm, requests", "warm", "requests", images)
    most("warm, requests for blobs", "warm", "blobGets", 0)
    ratio("one changed, s", "incr", "wall", 1.3 if wan else None)
    ratio("one changed, MB moved", "incr", "loMB", 1.01, 3)
# Pushing has no target but the floor that knows the old manifest and needs no
# ClusterImage's documents: what is printed is how far it is.
for phase, what in (("first", "push"), ("again", "push again"), ("changed", "push with one changed")):
    ratio(f"{what}, s", phase, "wall", None)
    ratio(f"{what}, requests", phase, "requests", None, 0)
    ratio(f"{what}, MB moved", phase, "loMB", None, 3)
# A peer beside our own: ahead of each at 30 ms, level with the best (within the
# tenth that the lab's figures differ by) without delay.
for phase in ("cold", "warm", "incr"):
    for label in rows:
        who, p = label.split("/", 1)
        if p == phase and who not in ("ours", "floor") and f"ours/{p}" in rows:
            a, b = med("ours", p, "wall"), med(who, p, "wall")
            figure(f"{phase}, s", "wall", p, a, (1 if wan else 1.1) if phase == "cold" else None, who, b)
            line(f"{phase}, s, beside {who}", f"{a:.2f}", f"{b:.2f} (peer)", f"{a/b:.2f}x", "1x" if wan else "1.1x", a <= b * (1 if wan else 1.1) if phase == "cold" else None)
sys.exit(missed > 0)
