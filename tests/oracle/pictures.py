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
        self.lines.append(f"{name} {tolerance}")
        self.files[name] = data
        self.files[name + ".expected"] = result or expected(ImageOps.exif_transpose(Image.open(io.BytesIO(data))))

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


def bmp(h, w, bits, rows, kind=0, palette=b"", masks=b"", header=40):
    """rows: as they come, each of a multiple of four bytes; h below 0: the first row comes first."""
    if header == 12:
        about = struct.pack("<IHHHH", 12, w, h, 1, bits)
    else:
        about = struct.pack("<IiiHHIIiiII", header, w, h, 1, bits, kind, 0, 2835, 2835, len(palette) // 4, 0)
        about += masks.ljust(header - 40, b"\0") if header > 40 else masks
    begin = 14 + len(about) + len(palette)
    return b"BM" + struct.pack("<IHHI", begin + len(rows), 0, 0, begin) + about + palette + rows


def padded(rows):
    return b"".join(row.tobytes() + b"\0" * (-len(row.tobytes()) % 4) for row in rows)


def rgb(array):
    return expected(Image.fromarray(np.ascontiguousarray(array)))


def add_bmps(folder):
    array = colours(13, 21)
    image = Image.fromarray(array)
    grey = image.convert("L")
    folder.add("rgb.bmp", saved(image, "BMP"))
    folder.add("grey.bmp", saved(grey, "BMP"))
    folder.add("palette.bmp", saved(image.quantize(13), "BMP"))
    folder.add("one_bit.bmp", saved(image.convert("1"), "BMP"))
    folder.add("top_down.BMP", bmp(-13, 21, 24, padded(array[:, :, ::-1])))
    palette = b"".join(bytes((5 * i, 3 * i, 16 * i, 0)) for i in range(16))
    index = np.asarray(grey) // 16
    packed = np.zeros((13, 11), np.uint8)
    for x in range(21):
        packed[:, x // 2] |= (index[:, x] << (4 if x % 2 == 0 else 0)).astype(np.uint8)
    colour_of = np.array([[16 * i, 3 * i, 5 * i] for i in range(16)], np.uint8)
    folder.add("four_bit.bmp", bmp(13, 21, 4, padded(packed[::-1]), palette=palette), 0, rgb(colour_of[index]))
    fewer = 15 * b"\x40\x50\x60\0"  # a colour that the palette lacks is black
    folder.add("short_palette.bmp", bmp(13, 21, 4, padded(packed[::-1]), palette=fewer), 0,
               rgb(np.where((index == 15)[:, :, None], 0, np.array([0x60, 0x50, 0x40])).astype(np.uint8)))
    old = b"".join(bytes((5 * i, 3 * i, 16 * i)) for i in range(16))
    folder.add("old.bmp", bmp(13, 21, 4, padded(packed[::-1]), palette=old, header=12), 0, rgb(colour_of[index]))
    five = array.astype(np.uint16) * 31 // 255
    halves = (five[:, :, 0] << 10 | five[:, :, 1] << 5 | five[:, :, 2]).astype("<u2")
    folder.add("sixteen.bmp", bmp(13, 21, 16, padded(halves[::-1])))
    six = array[:, :, 1].astype(np.uint16) * 63 // 255
    masked = (five[:, :, 0] << 11 | six << 5 | five[:, :, 2]).astype("<u2")
    folder.add("masks_16.bmp", bmp(13, 21, 16, padded(masked[::-1]), 3, masks=struct.pack("<III", 0xF800, 0x7E0, 0x1F)))
    wide = np.concatenate([array[:, :, ::-1], np.full((13, 21, 1), 77, np.uint8)], axis=2)
    folder.add("thirty_two.bmp", bmp(13, 21, 32, padded(wide[::-1])))
    turned = np.concatenate([np.full((13, 21, 1), 77, np.uint8), array[:, :, ::-1]], axis=2)
    folder.add("masks_32.bmp", bmp(-13, 21, 32, padded(turned), 3, header=124,
                                   masks=struct.pack("<IIII", 0xFF000000, 0xFF0000, 0xFF00, 0xFF)), 0, rgb(array))
    ten = (array.astype(np.uint32) * 4 + 1)
    ten = (ten[:, :, 0] << 20 | ten[:, :, 1] << 10 | ten[:, :, 2]).astype("<u4")
    folder.add("ten_bit.bmp", bmp(13, 21, 32, padded(ten[::-1]), 3,
                                  masks=struct.pack("<III", 0x3FF00000, 0xFFC00, 0x3FF)), 0,
               rgb((((array.astype(np.uint64) * 4 + 1) * 255) // 1023).astype(np.uint8)))


def riff(*chunks):
    body = b"WEBP" + b"".join(kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)
                              for kind, data in chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def three(value):
    return struct.pack("<I", value)[:3]


def add_webps(folder):
    array = colours(29, 37)
    image = Image.fromarray(array)
    with_alpha = image.copy()
    with_alpha.putalpha(Image.fromarray((np.arange(29 * 37) % 256).astype(np.uint8).reshape(29, 37)))
    folder.add("lossy.webp", saved(image, "WEBP", quality=80), 1)
    folder.add("lossless.webp", saved(image, "WEBP", lossless=True))
    folder.add("alpha.webp", saved(with_alpha, "WEBP", lossless=True, exact=True), 0, expected(image))
    folder.add("lossy_alpha.webp", saved(with_alpha, "WEBP", quality=80, exact=True), 1)
    small = Image.fromarray(colours(12, 18))
    exif = Image.Exif()
    exif[0x0112] = 8
    folder.add("orientation_8.webp", saved(small, "WEBP", lossless=True, exif=exif))
    pixels = saved(small, "WEBP", lossless=True)[20:]  # what the one chunk of the file holds
    notes = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
    folder.add("orientation_6.webp", riff((b"VP8X", b"\x08\0\0\0" + three(17) + three(11)), (b"VP8L", pixels),
                                          (b"EXIF", notes)), 0, expected(small.transpose(Image.Transpose.ROTATE_270)))
    frame = three(2) + three(3) + three(17) + three(11) + three(100) + b"\0" + riff((b"VP8L", pixels))[12:]
    whole = Image.new("RGB", (30, 20))
    whole.paste(small, (4, 6))
    folder.add("part.webp", riff((b"VP8X", b"\x02\0\0\0" + three(29) + three(19)), (b"ANIM", b"\0" * 6),
                                 (b"ANMF", frame)), 0, expected(whole))
    second = Image.fromarray(255 - colours(12, 18))
    folder.add("animated.webp", saved(small, "WEBP", lossless=True, save_all=True, append_images=[second]), 0,
               expected(small))


def tiled_tiff(array, colours_of=None):
    """Without compression, in tiles of 16 x 16. The first channel behind grey or colours is transparency. colours_of:
    (256, 3)."""
    h, w, channels = array.shape
    others = channels - (3 if channels >= 3 else 1)
    padded = np.zeros((-(-h // 16) * 16, -(-w // 16) * 16, channels), array.dtype)
    padded[:h, :w] = array
    tiles = [padded[y:y + 16, x:x + 16].tobytes() for y in range(0, h, 16) for x in range(0, w, 16)]
    at, place = [], 8
    for tile in tiles:
        at.append(place)
        place += len(tile)
    short, long = 3, 4
    meaning = 3 if colours_of is not None else 2 if channels >= 3 else 1
    entries = [(256, short, [w]), (257, short, [h]), (258, short, [array.itemsize * 8] * channels), (259, short, [1]),
               (262, short, [meaning]), (277, short, [channels]), (322, short, [16]), (323, short, [16]), (324, long, at),
               (325, long, [len(tile) for tile in tiles])]
    if colours_of is not None:
        entries.insert(6, (320, short, (colours_of.T.astype(int) * 257).reshape(-1).tolist()))
    if others > 0:
        entries.append((338, short, [2] + [0] * (others - 1)))
    folder, more, end = b"", b"", place + 2 + 12 * len(entries) + 4
    for tag, kind, values in entries:
        data = struct.pack(f"<{len(values)}{'H' if kind == short else 'I'}", *values)
        if len(data) > 4:
            more, data = more + data, struct.pack("<I", end + len(more))
        folder += struct.pack("<HHI", tag, kind, len(values)) + data.ljust(4, b"\0")
    return (b"II*\0" + struct.pack("<I", place) + b"".join(tiles) + struct.pack("<H", len(entries)) + folder + b"\0" * 4 +
            more)


def add_tiled_tiffs(folder):
    """Tiles that reach beyond the picture, of pixels of several bytes."""
    image = Image.fromarray(colours(13, 21))
    grey, few = np.asarray(image.convert("L")), image.quantize(13)
    place, alpha = np.asarray(few), (np.arange(13 * 21) % 256).astype(np.uint8).reshape(13, 21)
    colours_of = np.array(few.getpalette() + [0] * 768, np.uint8)[:768].reshape(-1, 3)
    folder.add("tiles_rgb.tif", tiled_tiff(np.asarray(image)))
    folder.add("tiles_grey_16.tif", tiled_tiff((grey.astype("<u2") * 256 + 77)[:, :, None]), 0,
               expected(image.convert("L")))
    folder.add("tiles_grey_alpha.tif", tiled_tiff(np.stack([grey, alpha], 2)), 0, expected(image.convert("L")))
    folder.add("tiles_rgb_alpha_more.tif", tiled_tiff(np.dstack([np.asarray(image), alpha, grey])), 0, expected(image))
    folder.add("tiles_palette_alpha.tif", tiled_tiff(np.stack([place, alpha], 2), colours_of), 0, expected(few))


def add_tiffs(folder):
    array = colours(13, 21)
    image = Image.fromarray(array)
    with_alpha = image.copy()
    with_alpha.putalpha(Image.fromarray((np.arange(13 * 21) % 256).astype(np.uint8).reshape(13, 21)))
    grey = image.convert("L")
    folder.add("rgb.tif", saved(image, "TIFF"))
    folder.add("lzw.tiff", saved(image, "TIFF", compression="tiff_lzw"))
    folder.add("deflate.tif", saved(image, "TIFF", compression="tiff_adobe_deflate"))
    folder.add("packbits.tif", saved(image, "TIFF", compression="packbits"))
    folder.add("jpeg.tif", saved(image, "TIFF", compression="jpeg", quality=90), 1)
    folder.add("alpha.tif", saved(with_alpha, "TIFF"), 0, expected(image))
    folder.add("grey.tif", saved(grey, "TIFF"))
    folder.add("palette.tif", saved(image.quantize(13), "TIFF"))
    folder.add("fax.tif", saved(image.convert("1"), "TIFF", compression="group4"))
    folder.add("cmyk.tif", saved(image.convert("CMYK"), "TIFF"), 1)
    deep = Image.fromarray((np.asarray(grey).astype(np.uint16) * 256 + 77))
    folder.add("grey_16.tif", saved(deep, "TIFF"), 0, expected(grey))
    small = Image.fromarray(colours(12, 18))
    for orientation in (1, 2, 3, 4, 5, 6, 7, 8):
        folder.add(f"orientation_{orientation}.tif", saved(small, "TIFF", tiffinfo={274: orientation},
                                                           compression="tiff_lzw"))
    second = Image.fromarray(255 - colours(12, 18))
    folder.add("pages.tif", saved(small, "TIFF", save_all=True, append_images=[second], compression="tiff_lzw"))
    add_tiled_tiffs(folder)


def gif_header(h, w, palette, background=0):
    bits = max(1, (len(palette) // 3 - 1).bit_length())
    return b"GIF89a" + struct.pack("<HHBBB", w, h, 0x80 | (bits - 1), background, 0) + palette.ljust(3 << bits, b"\0")


def gif_codes(pixels):
    """LZW without compression: 8-bit pixels as 9-bit codes, and a code that clears the table before it grows."""
    codes, value, bits, out = [], 0, 0, b""
    for i, pixel in enumerate(pixels):
        if i % 250 == 0:
            codes.append(256)
        codes.append(pixel)
    for code in codes + [257]:
        value |= code << bits
        bits += 9
        while bits >= 8:
            out += bytes([value & 255])
            value >>= 8
            bits -= 8
    out += bytes([value & 255])
    blocks = b"".join(bytes([len(out[i:i + 255])]) + out[i:i + 255] for i in range(0, len(out), 255))
    return b"\x08" + blocks + b"\0"


def gif_frame(index, top=0, left=0, interlaced=False):
    h, w = index.shape
    if interlaced:
        index = np.concatenate([index[0::8], index[4::8], index[2::4], index[1::2]])
    place = struct.pack("<HHHHB", left, top, w, h, 0x40 if interlaced else 0)
    return b"," + place + gif_codes(index.reshape(-1).tolist())


def add_gifs(folder):
    image = Image.fromarray(colours(13, 21))
    few = image.quantize(13)
    index = np.asarray(few)
    palette = bytes(few.getpalette()[:39])
    colour_of = np.frombuffer(palette, np.uint8).reshape(-1, 3)
    folder.add("palette.gif", saved(few, "GIF"))
    folder.add("grey.gif", saved(image.convert("L"), "GIF"), 0, expected(image.convert("L")))
    folder.add("interlaced.gif", gif_header(13, 21, palette) + gif_frame(index, interlaced=True) + b";", 0,
               rgb(colour_of[index]))
    transparent = b"!\xF9\x04\x01\0\0\x03\0"
    folder.add("transparent.gif", gif_header(13, 21, palette) + transparent + gif_frame(index) + b";", 0,
               rgb(colour_of[index]))
    within = np.full((17, 30), 5, np.uint8)
    within[3:16, 4:25] = index
    folder.add("part.gif", gif_header(17, 30, palette, 5) + gif_frame(index, 3, 4) + b";", 0, rgb(colour_of[within]))
    second = Image.fromarray(255 - colours(13, 21)).quantize(13)
    folder.add("animated.gif", saved(few, "GIF", save_all=True, append_images=[second]))


def make():
    folder = Folder()
    add_jpegs(folder)
    add_pngs(folder)
    add_pnms(folder)
    add_bmps(folder)
    add_webps(folder)
    add_tiffs(folder)
    add_gifs(folder)
    return folder
