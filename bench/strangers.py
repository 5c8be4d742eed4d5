#!/usr/bin/env python3
"""How well predict tells strangers: teaches folders, lesson by lesson, and asks about test images of known and of other
classes. The tables of docs/unfamiliarity.md are made with it.

usage: strangers.py RECOLLECT TEST LESSON... [-- OPTIONS OF learn]

TEST/CLASS/* are test images. A LESSON is a folder LESSON/CLASS/*; classes of TEST that no lesson so far had are
strangers. Prints after every lesson: AUROC of `unfamiliarity` and of 1 - max probability; how many of the known images
(all, those of earlier lessons, of the last one) predict calls strangers below 5 and 10 %, and how many of the strangers
it finds there.
"""
import json
import os
import subprocess
import sys
import tempfile


def auroc(known, strange):
    """Part of the pairs in which the stranger is stranger; ties count half."""
    values = sorted([(x, 0) for x in known] + [(x, 1) for x in strange])
    rank = total = 0
    while rank < len(values):
        end = rank
        while end < len(values) and values[end][0] == values[rank][0]:
            end += 1
        total += (rank + 1 + end) / 2 * sum(kind for _, kind in values[rank:end])
        rank = end
    n, m = len(known), len(strange)
    return (total - m * (m + 1) / 2) / (n * m) if n and m else float('nan')


def below(rates, limit):
    if not rates or None in rates:
        return '   -'
    return f'{100 * sum(rate < limit for rate in rates) / len(rates):4.1f}'


def ask(recollect, model, folder):
    """(unfamiliarity, 1 - max probability, rate) of every image, by class."""
    found = {}
    for name in sorted(os.listdir(folder)):
        text = subprocess.run([recollect, 'predict', model, os.path.join(folder, name), '--json', '--top', '1'],
                              check=True, stdout=subprocess.PIPE, text=True).stdout
        answers = [json.loads(line) for line in text.splitlines()]
        found[name] = [(a['unfamiliarity'], 1 - a['top'][0]['probability'], a['stranger']) for a in answers]
    return found


def main():
    arguments, options = sys.argv[1:], []
    if '--' in arguments:
        cut = arguments.index('--')
        arguments, options = arguments[:cut], arguments[cut + 1:]
    if len(arguments) < 3:
        sys.exit(__doc__)
    recollect, test, lessons = arguments[0], arguments[1], arguments[2:]
    known = set()
    print('classes  AUROC  1-max   false alarms at 5 %: all  old  new   at 10 %: all  old  new   found at 5, 10, 20 %')
    with tempfile.TemporaryDirectory() as work:
        model = None
        for number, lesson in enumerate(lessons):
            new = set(os.listdir(lesson))
            made = os.path.join(work, f'{number}.safetensors')
            command = [recollect, 'learn'] + ([model] if model else []) + [lesson, '--out', made] + options
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            model = made
            groups = {'old': [], 'new': [], 'strange': []}
            for name, answers in ask(recollect, model, test).items():
                groups['new' if name in new else 'old' if name in known else 'strange'] += answers
            known |= new
            groups['all'] = groups['old'] + groups['new']
            column = {name: list(zip(*group)) or [[], [], []] for name, group in groups.items()}
            alarms = [[below(list(column[name][2]), limit) for name in ('all', 'old', 'new')] for limit in (0.05, 0.1)]
            hits = [below(list(column['strange'][2]), limit) for limit in (0.05, 0.1, 0.2)]
            print(f'{len(known):7}  {auroc(column["all"][0], column["strange"][0]):.3f}  '
                  f'{auroc(column["all"][1], column["strange"][1]):.3f}   {"":20} {"  ".join(alarms[0])}   {"":8} '
                  f'{"  ".join(alarms[1])}   {"  ".join(hits)}', flush=True)


main()
