"""Images that take no time to make or to learn: 16 x 16 pixels, grey, a pattern and noise."""
import numpy

SIZE = 16
y, x = numpy.mgrid[:SIZE, :SIZE]
PATTERNS = {
    "rows": y // 2 % 2 == 1,
    "columns": x // 2 % 2 == 1,
    "disc": (2 * y - SIZE + 1) ** 2 + (2 * x - SIZE + 1) ** 2 < 80,
    "frame": (y < 3) | (x < 3) | (y >= SIZE - 3) | (x >= SIZE - 3),
}
# Enough for a small net to tell them apart, and for lessons of a tenth of a second.
QUICK = {"net_width": 4, "generator_width": 8, "noise": 16, "batch": 16, "crop_pad": 0, "flip": False,
         "learning_rate": 0.05, "epochs": 8, "refine_epochs": 1, "min_steps": 40, "inversion_steps": 10}


def draw(names, count, seed=0):
    """Images (count, 16, 16) and the name of the class of each."""
    noise = numpy.random.default_rng(seed).integers(0, 80, (count, SIZE, SIZE))
    labels = numpy.array([names[i % len(names)] for i in range(count)])
    return (numpy.stack([numpy.where(PATTERNS[name], 150, 50) for name in labels]) + noise).astype(numpy.uint8), labels


def write(folder, images, labels):
    """The images as folder/CLASS/N.pgm. Returns the paths."""
    paths = []
    for i, (image, label) in enumerate(zip(images, labels)):
        path = folder / label / f"{i}.pgm"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"P5 %d %d 255\n" % image.shape[::-1] + image.tobytes())
        paths.append(path)
    return paths
