"""Made-up photographs and sounds, to try things on without a dataset.

They are like photographs in what matters to a loader: sizes, bytes a picture, chroma subsampling, some grey
pictures. The hue of the largest shape and its outline show the class. Therefore a small network learns the
classes in a minute.
"""

from __future__ import annotations

import colorsys
import io
import os
import wave
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

try:
    import simplejpeg
except ModuleNotFoundError:  # it has no wheel for every Python
    simplejpeg = None

__all__ = ["make_pictures", "make_sounds"]

SUBSAMPLINGS = ("444", "444", "444", "420", "420", "422", "440")
PILLOWS = {"444": 0, "422": 1, "440": 1, "420": 2}  # Pillow has no name for 4:4:0
GREY_SHARE = 0.03
GRAIN_SIDE = 1024  # of the sheet of noise from which every picture cuts its grain
OUTLINES = 5


def make_pictures(
    folder: str | os.PathLike[str],
    count: int = 2000,
    classes: int = 10,
    seed: int = 0,
    *,
    sides: tuple[int, int] = (300, 600),
) -> Path:
    """Write JPEGs of some 90 kB each into ``folder/class_00/picture_00000.jpg`` and so on.

    Equal arguments give equal bytes. One thread runs for each core. A picture of the standard size takes
    some 6 ms of a core. If ``simplejpeg`` is not installed, Pillow writes the files: their bytes differ, and
    none is subsampled in height alone.

    Args:
        folder: Created if it is missing. Pictures of the same names are replaced.
        count: The number of pictures. They are dealt out to the classes in turn.
        classes: The number of classes, at least 1.
        seed: Another seed gives other pictures of the same classes.
        sides: Least and greatest height and width, in pixels.

    Returns:
        ``folder``.

    Raises:
        ValueError: ``count`` or ``classes`` is below 1, or ``sides`` are not rising from 16 up.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     made = make_pictures(folder, count=3, classes=2, sides=(32, 64))
        ...     sorted(str(path.relative_to(made)) for path in made.glob("*/*"))
        ['class_00/picture_00000.jpg', 'class_00/picture_00002.jpg', 'class_01/picture_00001.jpg']
    """
    if count < 1 or classes < 1:
        raise ValueError(f"count and classes are at least 1, but got count={count}, classes={classes}")
    if not 16 <= sides[0] <= sides[1]:
        raise ValueError(f"sides are (least, greatest), from 16 pixels up, but got {sides}")
    target = Path(folder)
    for label in range(min(classes, count)):
        (target / f"class_{label:02d}").mkdir(parents=True, exist_ok=True)
    grain = np.random.default_rng(seed).normal(0, 1, (GRAIN_SIDE, GRAIN_SIDE, 3)).astype(np.float32)

    def write(index: int) -> None:
        label = index % classes
        # Each picture has its own generator. Therefore threads may take them in any order.
        rng = np.random.default_rng([seed, index])
        pixels = _paint(rng, label, classes, sides, grain)
        (target / f"class_{label:02d}" / f"picture_{index:05d}.jpg").write_bytes(_encode(rng, pixels))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(write, range(count)):
            pass
    return target


def make_sounds(
    folder: str | os.PathLike[str],
    count: int = 200,
    classes: int = 10,
    seed: int = 0,
    *,
    rate: int = 16000,
    channels: int = 1,
    seconds: tuple[float, float] = (0.5, 1.5),
) -> Path:
    """Write WAV files of 16 bits into ``folder/class_00/sound_00000.wav`` and so on.

    The pitch shows the class: each is three half-tones above the one before. Equal arguments give equal
        bytes.

    Args:
        folder: Created if it is missing. Sounds of the same names are replaced.
        count: The number of sounds. They are dealt out to the classes in turn.
        classes: The number of classes, at least 1.
        seed: Another seed gives other sounds of the same classes.
        rate: Frames a second.
        channels: How many channels each has.
        seconds: Least and greatest length.

    Returns:
        ``folder``.

    Raises:
        ValueError: ``count``, ``classes``, ``rate`` or ``channels`` is below 1, or ``seconds`` are not rising
            from above 0.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     made = make_sounds(folder, count=3, classes=2)
        ...     sorted(str(path.relative_to(made)) for path in made.glob("*/*"))
        ['class_00/sound_00000.wav', 'class_00/sound_00002.wav', 'class_01/sound_00001.wav']
    """
    if min(count, classes, rate, channels) < 1:
        raise ValueError(
            "count, classes, rate and channels are at least 1, but got "
            f"{count}, {classes}, {rate}, {channels}"
        )
    if not 0 < seconds[0] <= seconds[1]:
        raise ValueError(f"seconds are (least, greatest), above 0, but got {seconds}")
    target = Path(folder)
    for index in range(count):
        rng = np.random.default_rng([seed, index])
        label = index % classes
        (target / f"class_{label:02d}").mkdir(parents=True, exist_ok=True)
        frames = max(1, round(rate * rng.uniform(*seconds)))
        pitch = 110 * 2 ** (label / 4 + rng.uniform(-0.05, 0.05))
        time = np.arange(frames)[:, None] / rate + rng.uniform(0, 1, channels)
        tone = sum(rng.uniform(0.1, 0.3) * np.sin(2 * np.pi * pitch * (k + 1) * time) for k in range(3))
        noisy = np.clip(tone + rng.normal(0, 0.02, (frames, channels)), -1, 1)
        with wave.open(str(target / f"class_{label:02d}" / f"sound_{index:05d}.wav"), "wb") as file:
            file.setnchannels(channels)
            file.setsampwidth(2)
            file.setframerate(rate)
            file.writeframes((noisy * 32767).astype("<i2").tobytes())
    return target


def _paint(
    rng: np.random.Generator, label: int, classes: int, sides: tuple[int, int], grain: np.ndarray
) -> np.ndarray:
    """Paint one picture: clouds, a few small shapes, the large shape of its class, and grain over all."""
    height, width = (int(side) for side in rng.integers(sides[0], sides[1] + 1, 2))
    # A few dull colours stretched over the frame make the soft light of a background.
    patches = int(rng.integers(2, 7)), int(rng.integers(2, 7))
    colours = rng.integers(60, 196, (*patches, 1)) + rng.integers(-25, 26, (*patches, 3))
    picture = Image.fromarray(colours.astype(np.uint8)).resize((width, height), Image.Resampling.BICUBIC)
    draw = ImageDraw.Draw(picture)
    short = min(height, width)
    for _ in range(int(rng.integers(4, 12))):
        _shape(
            draw, rng, int(rng.integers(OUTLINES)), short * rng.uniform(0.03, 0.1), _colour(rng, rng.random())
        )
    hue = (label + rng.uniform(-0.2, 0.2)) / classes
    _shape(draw, rng, label % OUTLINES, short * rng.uniform(0.25, 0.4), _colour(rng, hue))
    strength = np.float32(rng.uniform(4, 14))
    repeats = -(-max(height, width) // GRAIN_SIDE)
    sheet = grain if repeats == 1 else np.tile(grain, (repeats, repeats, 1))
    top, left = (int(rng.integers(0, len(sheet) - side + 1)) for side in (height, width))
    sheet = sheet[top : top + height, left : left + width]
    noisy = np.asarray(picture, np.float32) + strength * sheet
    return np.clip(noisy, 0, 255, out=noisy).astype(np.uint8)


def _shape(
    draw: ImageDraw.ImageDraw,
    rng: np.random.Generator,
    outline: int,
    radius: float,
    colour: tuple[int, int, int],
) -> None:
    """Draw one of five outlines, turned by a random angle, wholly or mostly inside the picture."""
    width, height = draw.im.size
    centre = np.array([rng.uniform(0.3, 0.7) * width, rng.uniform(0.3, 0.7) * height])
    if outline == 0:
        draw.ellipse([*(centre - radius), *(centre + radius)], fill=colour)
        return
    # 3, 4 and 6 corners, and a star, whose every second corner lies further in.
    corners = (3, 4, 6, 10)[outline - 1]
    angles = rng.uniform(0, 2 * np.pi) + np.arange(corners) * 2 * np.pi / corners
    reach = np.where((np.arange(corners) % 2 == 1) & (corners == 10), 0.45, 1.0) * radius
    points = centre + reach[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    draw.polygon([(float(x), float(y)) for x, y in points], fill=colour)


def _colour(rng: np.random.Generator, hue: float) -> tuple[int, int, int]:
    """A strong colour of this hue, lighter or darker as it comes."""
    red, green, blue = colorsys.hsv_to_rgb(hue % 1, rng.uniform(0.7, 1), rng.uniform(0.6, 1))
    return round(255 * red), round(255 * green), round(255 * blue)


def _encode(rng: np.random.Generator, pixels: np.ndarray) -> bytes:
    """A JPEG of one of the kinds found in the wild."""
    quality = int(rng.integers(84, 95))
    if rng.random() < GREY_SHARE:
        grey = np.asarray(Image.fromarray(pixels).convert("L"))
        if simplejpeg is None:
            return _by_pillow(grey, quality=quality)
        return bytes(simplejpeg.encode_jpeg(np.ascontiguousarray(grey[:, :, None]), quality, "GRAY", "Gray"))
    subsampling = SUBSAMPLINGS[int(rng.integers(len(SUBSAMPLINGS)))]
    if simplejpeg is None:
        return _by_pillow(pixels, quality=quality, subsampling=PILLOWS[subsampling])
    return bytes(simplejpeg.encode_jpeg(pixels, quality, "RGB", subsampling))


def _by_pillow(pixels: np.ndarray, **options: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", **options)
    return file.getvalue()
