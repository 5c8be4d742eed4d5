# %% [markdown]
# # recollect in Python
#
# Cells of a notebook for editors that know the marks, and a script for all others. The images are made here, so that it
# takes a few seconds: 16 x 16 pixels, grey, a pattern and noise. `pip install .` in the source of recollect installs
# the package; docs/python.md says more.

# %%
import tempfile
from pathlib import Path

import numpy

import recollect

SIZE = 16
y, x = numpy.mgrid[:SIZE, :SIZE]
PATTERNS = {"rows": y // 2 % 2 == 1, "columns": x // 2 % 2 == 1,
            "disc": (2 * y - SIZE + 1) ** 2 + (2 * x - SIZE + 1) ** 2 < 80,
            "frame": (y < 3) | (x < 3) | (y >= SIZE - 3) | (x >= SIZE - 3)}
random = numpy.random.default_rng(1)


def draw(names, count):
    """Images, uint8 (count, 16, 16), and the name of the class of each."""
    labels = numpy.array([names[i % len(names)] for i in range(count)])
    patterns = numpy.stack([numpy.where(PATTERNS[name], 150, 50) for name in labels])
    return (patterns + random.integers(0, 80, patterns.shape)).astype(numpy.uint8), labels


# %% [markdown]
# ## Teach it two classes
#
# The defaults suit photographs in folders: `recollect.Model().learn("animals/")` is all that it takes. Our images are
# small and easy, so a small net and few steps will do. `progress=print` would show how far it is; Ctrl-C stops it, and
# the model is then as it was before.

# %%
model = recollect.Model(threads=1, hold_out=0.2, net_width=8, generator_width=16, noise=32, batch=16, crop_pad=0,
                        flip=False, learning_rate=0.02, epochs=40, refine_epochs=15, min_steps=60, inversion_steps=200)
report = model.learn(*draw(["rows", "columns"], 80))
print(f"{model}: {report['accuracy']:.0f} % of {report['held_out_images']} images that were held out are right")

# %% [markdown]
# ## Ask it
#
# Arrays go in and come out, and pixels are not copied on the way. Paths of pictures will do as well.

# %%
images, labels = draw(["rows", "columns"], 6)
answers = model.predict(images, top=2)
for truth, names, probabilities in zip(labels, answers.names, answers.probabilities):
    print(f"{truth:8}", ", ".join(f"{name} {100 * p:.0f} %" for name, p in zip(names, probabilities)))
assert (answers.best == labels).all()

# %% [markdown]
# ## Teach it two more, without an image of the first
#
# This is what recollect is for. What passes from one lesson to the next is the model alone, here through a file.

# %%
with tempfile.TemporaryDirectory() as folder:
    model.save(Path(folder, "patterns.safetensors"))
    model = recollect.load(Path(folder, "patterns.safetensors"), threads=1)
print(f"{model.stored_bytes} bytes are all that is kept; images among them: {model.info()['bytes']['images']}")
model.learn(*draw(["disc", "frame"], 80))

# %% [markdown]
# ## How well does it do over all four?

# %%
result = model.evaluate(*draw(list(PATTERNS), 200))
print(f"{result['accuracy']:.0f} % right: {result['verdict_text']}")
print("taken for", *model.classes)
for name, row in zip(model.classes, result["confusion"]):
    print(f"{name:9}", *(f"{count:{len(other)}}" for count, other in zip(row, model.classes)))
assert result["accuracy"] >= 70

# %% [markdown]
# ## What it remembers
#
# Dreams of rows. The lesson of discs and frames needed none, since it taught the head alone; with `adapt="all"` the
# whole net learns, from new images and dreams. matplotlib's `imshow` would show them in a notebook; characters will do
# here.

# %%
for dream in model.dream("rows", 2):
    print("\n".join("".join(" .:-=+*#%@"[pixel // 26] for pixel in row) for row in dream[::2, :, 0]), end="\n\n")

# %% [markdown]
# ## In the shape of scikit-learn
#
# `fit` begins a new model, `partial_fit` adds classes to it. `Classifier` goes wherever scikit-learn takes a
# classifier.

# %%
classifier = recollect.Classifier(threads=1, random_state=1, method="finetune", epochs=20,
                                  options={"net_width": 8, "flip": False, "min_steps": 100})
classifier.fit(*draw(["rows", "columns", "disc"], 90))
print(classifier.classes_, classifier.predict_proba(images[:2]).round(2), classifier.score(images, labels))
assert classifier.score(images, labels) > 0.8

# %% [markdown]
# ## What goes wrong says so

# %%
for mistake in (lambda: model.predict(images / 255), lambda: recollect.load("nowhere.safetensors"),
                lambda: model.set(epoch=3)):
    try:
        mistake()
    except (recollect.RecollectError, TypeError) as error:
        print(f"{type(error).__name__}: {error}")
