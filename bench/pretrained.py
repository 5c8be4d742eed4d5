#!/usr/bin/env python3
"""The story of docs/pretrained.md: classes are added to a published net, and what it knew is scored before and after.

usage: bench/pretrained.py flowers --recollect PROGRAM --model MODEL --flowers DIR --imagenette DIR --mini DIR [--work DIR]
       bench/pretrained.py cifar --recollect PROGRAM --model MODEL --cifar10 DIR --cifar100 DIR [--work DIR]
           [--adapt WAY[:KEY=VALUE,...]]... [--classes N]... [--images N] [--backend NAME]
       bench/pretrained.py naive --weights FILE --labels FILE --flowers DIR --imagenette DIR --mini DIR [--work DIR]

flowers  MODEL is EfficientNet-Lite0, imported with the 1000 WordNet numbers of ImageNet's classes (n01440764, ...) as names.
         DIRs: Flowers-102 in train/, valid/ and test/, a folder for each of its numbers; Imagenette; mini-ImageNet in val/.
cifar    MODEL is akamaster's ResNet-32, imported with the names of CIFAR-10. DIRs: CIFAR-10's test images, a folder for each
         class; CIFAR-100 in its binary form. Needs Pillow. A WAY is head, top, all or nothing, which leaves the choice to the
         program; settings may follow it, as in all:learning_rate=0.01,epochs=10.
naive    What people do instead: the whole head is trained on the new images. Needs PyTorch, Pillow and the package
         efficientnet_lite_pytorch; the weights are the state_dict that the model was imported from, the labels its names.

Lines of the tables go to standard output, what is being done to standard error.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

# Species of Flowers-102 that ImageNet does not have, by number: the ten of the first day, the five of the next.
TEN = {77: 'passion flower', 46: 'wallflower', 89: 'watercress', 73: 'water lily', 81: 'frangipani', 94: 'foxglove',
       88: 'cyclamen', 65: 'californian poppy', 75: 'thorn apple', 8: 'bird of paradise'}
FIVE = {95: 'bougainvillea', 37: 'cape flower', 80: 'anthurium', 44: 'poinsettia', 12: "colt's foot"}
NEAR = {29: 'n07718747', 49: 'n11939491'}  # artichoke, and the oxeye daisy, which ImageNet calls daisy
TESTED = 30  # photos of each species
OLD_MINI = 10  # images of each class of mini-ImageNet


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def photos(root, number):
    """Those to learn from, and those to score: the second are valid/ and test/, filled up with the last of train/."""
    def find(part):
        return sorted((root / part / str(number)).glob('*.jpg'))
    train, test = find('train'), (find('valid') + find('test'))[:TESTED]
    fill = TESTED - len(test)
    return (train[:-fill], test + train[-fill:]) if fill else (train, test)


def link(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        target = folder / file.name
        if not target.exists():
            os.symlink(file.resolve(), target)


def run(program, *words):
    began = time.time()
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f'{" ".join(map(str, words))}: {done.stderr}')
    for line in done.stderr.splitlines():
        if line.startswith(('chosen', 'new classes stood')):
            say('  ' + line)
    return json.loads(done.stdout), time.time() - began


def score(arguments, model, sets):
    return {name: run(arguments.recollect, 'eval', model, folder, '--json')[0]['accuracy'] for name, folder in sets.items()}


def row(what, new, sets, seconds):
    olds = ' | '.join(f'{value:.1f}' for value in sets.values())
    print(f'| {what} | {new} | {olds} | {seconds} |', flush=True)


def lesson(arguments, model, folder, out, way='head', settings=()):
    words = ['--adapt', way] if way else []
    for setting in settings:
        words += ['--set', setting]
    return run(arguments.recollect, 'learn', model, folder, '--out', out, '--force', '--json', '--backend', arguments.backend,
               *words)


# ---- flowers ---------------------------------------------------------------------------------------------------------


def flower_sets(arguments, work):
    """Old classes: Imagenette's clean images, those of mini-ImageNet, and the two species that ImageNet has."""
    imagenette, mini, near = work / 'imagenette', work / 'mini', work / 'near'
    for file in sorted(arguments.imagenette.glob('*/*/ILSVRC2012_val*')):
        link(imagenette / file.parent.name, [file])
    for folder in sorted((arguments.mini / 'val').iterdir()):
        link(mini / folder.name, sorted(folder.iterdir())[:OLD_MINI])
    for number, name in NEAR.items():
        train, test = photos(arguments.flowers, number)
        link(near / name, (train + test)[:60])
    return {'Imagenette': imagenette, 'mini-ImageNet': mini, 'near': near}


def flower_folder(arguments, work, species, count):
    folder = work / f'{len(species)}-species-{count}'
    for number, name in species.items():
        train, test = photos(arguments.flowers, number)
        link(folder / 'train' / name, train[:count])
        link(folder / 'val' / name, test)
    return folder


def flowers(arguments):
    work = arguments.work
    sets = flower_sets(arguments, work)
    print('| | new species | ' + ' | '.join(sets) + ' | seconds |')
    print('| --- |' + ' --- |' * (len(sets) + 2))
    row('before', '', score(arguments, arguments.model, sets), '')
    for count in (5, 20, 50):
        out = work / f'ten-{count}.safetensors'
        result, seconds = lesson(arguments, arguments.model, flower_folder(arguments, work, TEN, count), out)
        row(f'ten species, {count} photos each', f'{result["accuracy"]:.1f}', score(arguments, out, sets), f'{seconds:.0f}')
    out = work / 'fifteen.safetensors'
    result, seconds = lesson(arguments, work / 'ten-20.safetensors', flower_folder(arguments, work, FIVE, 20), out)
    first = work / '10-species-20' / 'val'
    ten = run(arguments.recollect, 'eval', out, first, '--json')[0]['accuracy']
    row('five more the next day, 20 photos each', f'{result["accuracy"]:.1f} (the ten: {ten:.1f})',
        score(arguments, out, sets), f'{seconds:.0f}')


# ---- CIFAR -----------------------------------------------------------------------------------------------------------


def cifar100(arguments, work, classes, count):
    """Folders of the first `classes` classes of CIFAR-100, with `count` images each and all test images."""
    from PIL import Image
    folder = work / f'cifar100-{classes}-{count}'
    names = (arguments.cifar100 / 'fine_label_names.txt').read_text().split()
    for part, file, most in (('train', 'train.bin', count), ('val', 'test.bin', 100)):
        data = (arguments.cifar100 / file).read_bytes()
        met = {}
        for at in range(0, len(data), 3074):
            label = data[at + 1]
            met[label] = met.get(label, 0) + 1
            if label >= classes or met[label] > most:
                continue
            target = folder / part / names[label] / f'{met[label]}.png'
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                planes = [Image.frombytes('L', (32, 32), data[at + 2 + 1024 * c:at + 1026 + 1024 * c]) for c in range(3)]
                Image.merge('RGB', planes).save(target)
    return folder


def cifar(arguments):
    sets = {'CIFAR-10': arguments.cifar10}
    print('| | new classes | CIFAR-10 | seconds |')
    print('| --- | --- | --- | --- |')
    row('before', '', score(arguments, arguments.model, sets), '')
    for classes in arguments.classes or (10, 20, 50):
        folder = cifar100(arguments, arguments.work, classes, arguments.images)
        for what in arguments.adapt or ('head', 'top', 'all'):
            way, _, settings = what.partition(':')
            out = arguments.work / f'cifar-{classes}.safetensors'
            result, seconds = lesson(arguments, arguments.model, folder, out, way, settings.split(',') if settings else ())
            row(f'{classes} classes, {what or "chosen: " + result["adapt"]}', f'{result["accuracy"]:.1f}',
                score(arguments, out, sets), f'{seconds:.0f}')


# ---- what people do instead ------------------------------------------------------------------------------------------


def naive(arguments):
    import numpy as np
    import torch
    from PIL import Image
    from efficientnet_lite_pytorch import EfficientNet
    net = EfficientNet.from_name('efficientnet-lite0').eval()
    net.load_state_dict(torch.load(arguments.weights, weights_only=True))
    names = [line.strip() for line in arguments.labels.read_text().splitlines() if line.strip()]

    def load(path):
        image = Image.open(path).convert('RGB')
        scale = 256 / min(image.size)
        width, height = (max(256, round(side * scale)) for side in image.size)
        image = image.resize((width, height), Image.BICUBIC)
        left, top = (width - 224) // 2, (height - 224) // 2
        return (np.asarray(image.crop((left, top, left + 224, top + 224)), dtype=np.float32) - 127) / 128

    def features(paths):
        found = []
        with torch.no_grad():
            for at in range(0, len(paths), 16):
                batch = torch.from_numpy(np.stack([load(path) for path in paths[at:at + 16]])).permute(0, 3, 1, 2)
                found.append(net.extract_features(batch).mean((2, 3)))
        return torch.cat(found)

    def of_folder(folder, numbers):
        paths, labels = [], []
        for name in sorted(os.listdir(folder)):
            files = sorted((folder / name).iterdir())
            paths += files
            labels += [numbers[name]] * len(files)
        return features(paths), torch.tensor(labels)

    numbers = {name: i for i, name in enumerate(names)}
    sets = {name: of_folder(folder, numbers) for name, folder in flower_sets(arguments, arguments.work).items()}
    numbers.update({name: len(names) + i for i, name in enumerate(TEN.values())})
    print('| | new species | ' + ' | '.join(sets) + ' | seconds |')
    print('| --- |' + ' --- |' * (len(sets) + 2))
    for count in (5, 20, 50):
        folder = flower_folder(arguments, arguments.work, TEN, count)
        began = time.time()
        x, y = of_folder(folder / 'train', numbers)
        head = torch.nn.Linear(x.shape[1], len(numbers))
        torch.manual_seed(1)
        torch.nn.init.normal_(head.weight, std=0.01)
        with torch.no_grad():
            head.weight[:len(names)] = net._fc.weight
            head.bias[:len(names)] = net._fc.bias
            head.bias[len(names):] = 0
        optimiser = torch.optim.SGD(head.parameters(), lr=0.01, momentum=0.9)
        for _ in range(100):
            for batch in torch.randperm(len(x)).split(32):
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(head(x[batch]), y[batch]).backward()
                optimiser.step()
        seconds = time.time() - began

        def right(x, y):
            with torch.no_grad():
                return 100 * (head(x).argmax(1) == y).float().mean().item()
        new = right(*of_folder(folder / 'val', numbers))
        row(f'whole head, {count} photos each', f'{new:.1f}', {name: right(*of) for name, of in sets.items()}, f'{seconds:.0f}')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('story', choices=('flowers', 'cifar', 'naive'))
    for name in ('recollect', 'model', 'flowers', 'imagenette', 'mini', 'cifar10', 'cifar100', 'weights', 'labels'):
        parser.add_argument(f'--{name}', type=pathlib.Path)
    parser.add_argument('--adapt', action='append', help='WAY[:KEY=VALUE,...]; any number of times')
    parser.add_argument('--classes', type=int, action='append', help='of CIFAR-100 to add; any number of times')
    parser.add_argument('--backend', default='cpu')
    parser.add_argument('--images', type=int, default=100, help='of each class of CIFAR-100 to learn from')
    parser.add_argument('--work', type=pathlib.Path, default=pathlib.Path('pretrained-work'))
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    {'flowers': flowers, 'cifar': cifar, 'naive': naive}[arguments.story](arguments)


if __name__ == '__main__':
    main()
