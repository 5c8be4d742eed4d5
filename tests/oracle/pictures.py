"""Picture files of every kind, and what Pillow reads in them. pictures.txt has a line for each:

    NAME TOLERANCE    pictures/NAME must decode to pictures/NAME.expected (P5 or P6), no value off by more

Files that Pillow cannot write (16 bits, interlaced, text) are put together here.
"""
import io
import pathlib
import struct
import zlib

import numpy as np
import PIL
from PIL import Image, ImageOps


def colours(h, w):
    """A picture with smooth parts and edges, different at every corner."""
    y, x = np.mgrid[0:h, 0:w].astype(np.float64)
    red, green, blue = 255 * x / (w - 1), 255 * y / (h - 1), 127 + 120 * np.sin(x / 3.0) * np.cos(y / 4.0)
    out = np.stack([red, green, blue], axis=2)
    out[: h // 3, : w // 4] = (230, 40, 20)
    out[h // 2:, w // 2: w // 2 + 3] = (10, 10, 10)
    return out.astype(np.uint8)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(h, w, depth, colour, rows, interlace=0, extra=b""):
    """rows: the filtered bytes, before compression."""
    header = struct.pack(">IIBBBBB", w, h, depth, colour, 0, 0, interlace)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", zlib.compress(rows, 9)) +
            chunk(b"IEND", b""))


def plain_rows(array):
    return b"".join(b"\0" + row.tobytes() for row in array)


def adam7(array):
    rows = b""
    for y, x, dy, dx in ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2),
                         (1, 0, 2, 1)):
        part = array[y::dy, x::dx]
        if part.size:
            rows += plain_rows(np.ascontiguousarray(part))
    return rows


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def expected(image):
    image = image.convert("L" if image.mode in ("L", "1", "I;16", "LA", "I") else "RGB")
    return (b"P5" if image.mode == "L" else b"P6") + b"\n%d %d\n255\n" % image.size + image.tobytes()


class Folder:
    def __init__(self):
        self.lines = [f"# Made by script/fixtures with Pillow {PIL.__version__}; told in tests/oracle/pictures.py"]
        self.files = {}

    def add(self, name, data, tolerance=0, result=None):
        image = Image.open(io.BytesIO(data))
        self.lines.append(f"{name} {tolerance}")
        self.files[name] = data
        self.files[name + ".expected"] = result or expected(ImageOps.exif_transpose(image))

    def save(self, path):
        path.write_text("\n".join(self.lines) + "\n", encoding="ascii")
        folder = path.with_suffix("")
        folder.mkdir(exist_ok=True)
        for name, data in self.files.items():
            pathlib.Path(folder / name).write_bytes(data)


def add_jpegs(folder):
    image = Image.fromarray(colours(29, 37))
    folder.add("baseline_420.jpg", saved(image, "JPEG", quality=90, subsampling=2), 1)
    folder.add("baseline_444.JPG", saved(image, "JPEG", quality=90, subsampling=0), 1)
    folder.add("baseline_422.jpeg", saved(image, "JPEG", quality=60, subsampling=1), 1)
    folder.add("progressive.jpg", saved(image, "JPEG", quality=85, progressive=True), 1)
    folder.add("restarts.jpg", saved(image, "JPEG", quality=85, restart_marker_blocks=2), 1)
    folder.add("grey.jpg", saved(image.convert("L"), "JPEG", quality=85), 1)
    folder.add("cmyk.jpg", saved(image.convert("CMYK"), "JPEG", quality=85), 1)
    small = Image.fromarray(colours(12, 18))
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x010F] = "camera"
        exif[0x0112] = orientation
        folder.add(f"orientation_{orientation}.jpg", saved(small, "JPEG", quality=95, subsampling=0, exif=exif), 1)


def add_pngs(folder):
    array = colours(13, 21)
    image = Image.fromarray(array)
    alpha = Image.fromarray((np.arange(13 * 21) % 256).astype(np.uint8).reshape(13, 21))
    with_alpha = image.copy()
    with_alpha.putalpha(alpha)
    grey = image.convert("L")
    folder.add("rgb.png", saved(image, "PNG"))
    folder.add("rgba.png", saved(with_alpha, "PNG"), 0, expected(image))
    folder.add("grey.png", saved(grey, "PNG"))
    folder.add("grey_alpha.png", saved(with_alpha.convert("LA"), "PNG"))
    folder.add("palette.png", saved(image.quantize(13), "PNG"))
    folder.add("palette_transparent.png", saved(image.quantize(13), "PNG", transparency=3), 0,
               expected(image.quantize(13)))
    folder.add("one_bit.png", saved(image.convert("1"), "PNG"))
    quarter = np.asarray(grey) // 64
    packed = np.zeros((13, 6), np.uint8)
    for x in range(21):
        packed[:, x // 4] |= (quarter[:, x] << (6 - 2 * (x % 4))).astype(np.uint8)
    folder.add("two_bit.png", png(13, 21, 2, 0, plain_rows(packed)))
    deep = (array.astype(">u2") * 256 + np.arange(21 * 3).reshape(1, 21, 3)).astype(">u2")
    folder.add("rgb_16.png", png(13, 21, 16, 2, plain_rows(deep)))
    folder.add("grey_16.png", png(13, 21, 16, 0, plain_rows(np.ascontiguousarray(deep[:, :, 1]))), 0,
               expected(Image.fromarray(array[:, :, 1])))
    folder.add("interlaced.png", png(13, 21, 8, 2, adam7(array), 1))
    exif = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
    folder.add("orientation_6.png", png(13, 21, 8, 2, plain_rows(array), 0, chunk(b"eXIf", exif)))


def add_pnms(folder):
    array = colours(9, 11)
    grey = np.asarray(Image.fromarray(array).convert("L"))
    text = " ".join(str(v) for v in array.reshape(-1))
    folder.add("text.ppm", b"P3\n# a comment\n11 9 # another\n255\n" + text.encode())
    folder.add("text.pgm", b"P2 11 9 15\n" + "\n".join(str(v) for v in (grey // 16).reshape(-1)).encode() + b"\n")
    folder.add("bytes.ppm", b"P6\n11 9\n255\n" + array.tobytes())
    folder.add("bytes.pgm", b"P5 11 9 255 " + grey.tobytes())
    folder.add("small_range.pgm", b"P5\n11 9\n100\n" + (grey % 101).astype(np.uint8).tobytes())
    deep = array.astype(np.uint16) * 256 + 77
    folder.add("sixteen.ppm", b"P6\n11 9\n65535\n" + deep.astype(">u2").tobytes())


def make():
    folder = Folder()
    add_jpegs(folder)
    add_pngs(folder)
    add_pnms(folder)
    return folder
