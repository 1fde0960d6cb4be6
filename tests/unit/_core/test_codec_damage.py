"""Files that are not what they should be: pixels or a clear error, never anything else."""

import base64
import io
import re
import threading

import numpy as np
import pytest
from PIL import Image

from seneca._core.codec import Codec
from seneca._core.plan import Plan
from seneca.errors import DecodeError, LeftToPillowError, PictureTooLargeError

WHOLE = Plan([], 0, "uint8", True, (0, 0, 0), (1, 1, 1))
TRAIN = Plan(
    [
        ("random_resized_crop", {"size": (32, 32), "scale": (0.08, 1.0), "ratio": (3 / 4, 4 / 3)}),
        ("random_hflip", {"p": 0.5}),
    ],
    0, "float32", False, (0, 0, 0), (1, 1, 1),
)  # fmt: skip


def saved(height, width, **options):
    file = io.BytesIO()
    pixels = np.random.default_rng(5).integers(0, 256, (height, width, 3), np.uint8)
    Image.fromarray(pixels).save(file, "JPEG", quality=80, **options)
    return file.getvalue()


@pytest.mark.parametrize("options", [{}, {"progressive": True}])
@pytest.mark.parametrize("cut", [1, 2, 3, 50, 500])
def test_a_truncated_file_is_refused_as_pillow_refuses_it(cut, options):
    data = saved(64, 64, **options)[:-cut]
    with pytest.raises(OSError, match="truncated"):
        Image.open(io.BytesIO(data)).load()
    with pytest.raises(DecodeError, match="truncated"):
        Codec().decode(WHOLE, data)


@pytest.mark.parametrize("data", [b"", b"\xff", b"\xff\xd8", b"\x89PNG\r\n\x1a\n", b"GIF89a", bytes(1000)])
def test_what_does_not_begin_as_a_jpeg_is_not_one(data):
    for call in (Codec().probe, lambda data: Codec().decode(WHOLE, data)):
        with pytest.raises(LeftToPillowError):
            call(data)


@pytest.mark.parametrize("frame", [0xC5, 0xC6, 0xC7, 0xCD])  # hierarchical ones
def test_a_jpeg_of_a_kind_that_libjpeg_does_not_know_is_left_to_pillow(frame):
    data = saved(64, 64).replace(b"\xff\xc0\x00\x11", b"\xff%c\x00\x11" % frame)
    for call in (Codec().probe, lambda data: Codec().decode(WHOLE, data)):
        with pytest.raises(LeftToPillowError):
            call(data)


@pytest.mark.parametrize("cut", [1, 50, 500])
def test_a_plan_may_leave_damage_to_pillow(cut):
    leaving = Plan([], 0, "uint8", True, (0, 0, 0), (1, 1, 1), leaves_damaged=True)
    data = saved(64, 64)
    np.testing.assert_array_equal(Codec().decode(leaving, data), Codec().decode(WHOLE, data))
    for bad in (data[:-cut], data[:200], data[:2] + data[30:]):
        with pytest.raises(LeftToPillowError):
            Codec().decode(leaving, bad)


def test_a_header_alone_is_damage():
    with pytest.raises(DecodeError):
        Codec().decode(WHOLE, b"\xff\xd8\xff")


def test_a_codec_goes_on_after_a_failure():
    codec, data = Codec(), saved(40, 40)
    expected = codec.decode(WHOLE, data)
    for bad in (data[:100], data[:-10], b"no", data[:2] + data[30:]):
        with pytest.raises(DecodeError):
            codec.decode(WHOLE, bad)
        np.testing.assert_array_equal(codec.decode(WHOLE, data), expected)


@pytest.mark.small(1)
@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_blocks": 2}])
def test_random_damage_gives_pixels_or_a_clear_error(options):
    rng, codec = np.random.default_rng(17), Codec(max_pixels=1_000_000)
    good = np.frombuffer(saved(48, 56, **options), np.uint8)
    outcomes = {True: 0, False: 0}
    for k in range(1500):
        data = good.copy()
        # Mostly the header, where the harm is done; sometimes the rest.
        reach = 700 if k % 3 else len(data)
        for _ in range(rng.integers(1, 6)):
            data[rng.integers(2, reach)] = rng.integers(256)
        if k % 7 == 0:
            data = np.delete(data, slice(a := int(rng.integers(3, len(data))), a + int(rng.integers(1, 40))))
        try:
            picture = codec.decode(WHOLE, data)
            crop = codec.augment_encoded(TRAIN, data, k, 0, 0, 0)
            outcomes[True] += picture.size > 0 and crop.shape == (32, 32, 3)
        except DecodeError as error:
            assert str(error)
            outcomes[False] += 1
    assert outcomes[True] > 50 and outcomes[False] > 50  # else the damage says nothing


def damaged_below(data, at):
    """A JPEG, damaged behind its first ``at`` bytes in various ways."""
    rest, end = len(data) - at, data[-2:]
    tails = {f"a tail of {value}": data[:at] + bytes([value]) * rest for value in (0, 0x55, 0xAA, 0xFF)}
    holes = {f"a hole of {value}": data[:at] + bytes([value]) * (rest - 2) + end for value in (0, 0x55, 0xAA)}
    markers = {
        f"the marker {value:x} in between": data[:at] + bytes([0xFF, value]) + data[at + 2 :]
        for value in (0x01, 0x03, 0xC0, 0xC4, 0xD1, 0xD6, 0xD8, 0xD9, 0xDA, 0xDC, 0xFE)
    }
    return tails | holes | markers | {
        "cut": data[:at],
        "no end marker": data[:-2],
        "no end marker but zeros": data[:-2] + bytes(100),
        "no end marker but FFs": data[:-2] + b"\xff" * 1000,
        "no end marker but FFs and a zero": data[:-2] + b"\xff" * 1000 + bytes(1),
        "no end marker but FFs and zeros": data[:-2] + b"\xff" * 1000 + bytes(100),
        "no end marker but FFs and a byte": data[:-2] + b"\xff" * 1000 + b"\x11",
        "FFs before the end marker": data[:-2] + b"\xff" * 1000 + end,
        "zeros behind the end": data + bytes(5000),
        "another file behind the end": data + data[:at],
    }  # fmt: skip


@pytest.mark.small(2)
@pytest.mark.parametrize(
    "options",
    [
        {}, {"subsampling": 0}, {"restart_marker_blocks": 2}, {"progressive": True}, {"optimize": True},
    ],
)  # fmt: skip
def test_a_damaged_file_has_one_outcome_whatever_the_crop_and_it_is_pillows(options):
    good, codec, outcomes = saved(96, 80, **options), Codec(), set()
    fast = Plan([("resize", {"size": (9, 9)})], 1, "uint8", True, (0, 0, 0), (1, 1, 1), decode="fast")
    crop = Plan([("center_crop", {"size": (40, 40)})], 1, "uint8", True, (0, 0, 0), (1, 1, 1))
    leaving = Plan(
        [("center_crop", {"size": (40, 40)})], 1, "uint8", True, (0, 0, 0), (1, 1, 1), leaves_damaged=True
    )
    for at in (len(good) // 2, len(good) * 9 // 10):
        for damage, data in damaged_below(good, at).items():
            try:
                theirs = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
            except OSError:
                theirs = None
            outcomes.add(theirs is None)
            for top, left, height, width in ((0, 0, 1, 1), (0, 30, 40, 20), (30, 0, 9, 80), (90, 7, 6, 8)):
                if theirs is None:
                    with pytest.raises(DecodeError):
                        codec.decode_region(data, top, left, height, width)
                else:
                    region = codec.decode_region(data, top, left, height, width)
                    expected = theirs[top : top + height, left : left + width]
                    np.testing.assert_array_equal(region, expected, damage)
            if theirs is None:
                for plan, error in ((fast, DecodeError), (crop, DecodeError), (leaving, LeftToPillowError)):
                    with pytest.raises(error):
                        codec.decode(plan, data)
            else:
                assert codec.decode(fast, data).shape == (9, 9, 3)
                np.testing.assert_array_equal(codec.decode(crop, data), theirs[28:68, 20:60], damage)
    assert outcomes == {True, False}


def with_size(data, height, width):
    at = next(i for i in range(len(data)) if data[i] == 0xFF and data[i + 1] in (0xC0, 0xC2)) + 5
    return data[:at] + height.to_bytes(2, "big") + width.to_bytes(2, "big") + data[at + 4 :]


@pytest.mark.parametrize("options", [{}, {"progressive": True}])
def test_a_header_that_claims_too_many_pixels_is_refused(options):
    data, codec = with_size(saved(16, 16, **options), 65500, 65000), Codec(64_000_000)
    for call in (codec.probe, lambda data: codec.decode(WHOLE, data)):
        with pytest.raises(PictureTooLargeError, match=r"65500 x 65000 .*max_pixels=64000000: .*allow more"):
            call(data)


def test_the_limit_of_pixels_is_the_callers():
    data = saved(20, 30)
    assert Codec(max_pixels=600).decode(WHOLE, data).shape == (20, 30, 3)
    for call in (Codec(max_pixels=599).probe, lambda data: Codec(max_pixels=599).decode(WHOLE, data)):
        with pytest.raises(PictureTooLargeError, match=r"20 x 30 .*max_pixels=599: .*allow more"):
            call(data)


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP"])
def test_a_plan_may_leave_large_pictures_to_pillow(format):
    file = io.BytesIO()
    Image.new("RGB", (30, 20)).save(file, format)
    for most, is_left in ((600, False), (None, False), (599, True), (0, True)):
        plan = Plan([], 0, "uint8", True, (0, 0, 0), (1, 1, 1), leaves_above=most)
        if is_left:
            with pytest.raises(LeftToPillowError):
                Codec().decode(plan, file.getvalue())
        else:
            assert Codec().decode(plan, file.getvalue()).shape == (20, 30, 3)


def head_of(*ops):
    return Plan(list(ops), len(ops), "uint8", True, (0, 0, 0), (1, 1, 1))


def test_no_step_makes_more_pixels_than_the_limit():
    data, pixels = saved(20, 30), np.zeros((20, 30, 3), np.uint8)
    for name, ops, size in [
        ("an enlarging", [("resize", {"size": (100, 101)})], "100 x 101"),
        ("a padding", [("center_crop", {"size": (101, 100)})], "101 x 100"),
        # What leaves the pipeline is small, what it makes on the way is not.
        (
            "one in between",
            [("center_crop", {"size": (2000, 2000)}), ("resize", {"size": 8})],
            "2000 x 2000",
        ),
    ]:
        codec, plan = Codec(max_pixels=10_000), head_of(*ops)
        for call, picture in ((codec.decode, data), (codec.head, pixels)):
            with pytest.raises(PictureTooLargeError) as error:
                call(plan, picture)
            message = str(error.value)
            assert re.search(f"20 x 30 becomes {size} .*max_pixels=10000: .*allow more", message), name
    assert Codec(max_pixels=10_000).decode(head_of(("resize", {"size": (100, 100)})), data).shape[0] == 100


def test_a_picture_that_was_decoded_elsewhere_is_held_to_the_limit_too():
    pixels = np.zeros((40, 50, 3), np.uint8)
    crop = head_of(("center_crop", {"size": (2, 2)}))
    assert Codec(max_pixels=2000).head(crop, pixels).shape == (2, 2, 3)
    with pytest.raises(PictureTooLargeError, match=r"40 x 50 .*max_pixels=1999: .*allow more"):
        Codec(max_pixels=1999).head(crop, pixels)


def test_a_resize_beyond_the_limit_is_refused_before_it_is_made():
    tall = np.zeros((3000, 1, 3), np.uint8)
    with pytest.raises(PictureTooLargeError, match=r"3000 x 1 becomes 768000 x 256 .*allow more"):
        Codec(64_000_000).head(head_of(("resize", {"size": 256})), tall)
    with pytest.raises(PictureTooLargeError, match=r"2000 x 1 becomes 2000000 x 1000 .*sides"):
        Codec(1 << 33).head(head_of(("resize", {"size": 1000})), tall[:2000])


# Progressive, with arithmetic coding, which Pillow does not write: 64 x 64 of one grey.
ARITHMETIC = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAMCAgMCAgMDAwMEAwMEBQgFBQQEBQoHBwYIDAoMDAsKCwsNDhIQDQ4RDgsLEBYQERMUFRUV"
    "DA8XGBYUGBIUFRT/ygALCABAAEABAREA/8wABAAQ/9oACAEBAAAAAVD/zAAEEAX/2gAIAQEAAQUCqP/MAAQQBf/aAAgBAQAGPwKo/8wA"
    "BBAF/9oACAEBAAE/Iaj/2gAIAQEAAAAQS8b/zAAEEAX/2gAIAQEAAT8QqP/Z"
)


def segment(marker, payload):
    return bytes([0xFF, marker]) + (len(payload) + 2).to_bytes(2, "big") + payload


def in_a_scan_each():
    """64 x 64 of one grey, in colour, each component in a scan of its own; the bits 00 are an empty block."""
    frame = b"\x08\x00\x40\x00\x40\x03" + b"".join(bytes([i, 0x11, 0]) for i in (1, 2, 3))
    one_code = bytes([1, *[0] * 15, 0])
    parts = [
        segment(0xDB, b"\x00" + bytes([1] * 64)),
        segment(0xC0, frame),
        segment(0xC4, b"\x00" + one_code),
        segment(0xC4, b"\x10" + one_code),
        *(segment(0xDA, bytes([1, i, 0, 0, 63, 0])) + bytes(16) for i in (1, 2, 3)),
    ]
    return b"\xff\xd8" + b"".join(parts) + b"\xff\xd9"


def scans_of(data):
    """Where each begins."""
    return [match.start() for match in re.finditer(b"\xff\xda", data)]


def last_scan_again(data, scans):
    """The file with its last scan so often that it has so many; of the same pixels."""
    at = scans_of(data)
    return data[: at[-1]] + data[at[-1] : -2] * (scans - len(at) + 1) + data[-2:]


def sized(data, height, width):
    """The file with another size in its header; what its scans leave out costs nearly no time."""
    at = re.search(b"\xff[\xc0-\xc2\xc9\xca]\x00", data).start() + 5
    return data[:at] + height.to_bytes(2, "big") + width.to_bytes(2, "big") + data[at + 4 :]


HEAD = Plan([("resize", {"size": (32, 32)})], 1, "uint8", True, (0, 0, 0), (1, 1, 1), decode="fast")
FAST = Plan([("resize", {"size": (32, 32)})], 0, "uint8", True, (0, 0, 0), (1, 1, 1), decode="fast")
ROUTES = {
    "whole": lambda data: Codec().decode(WHOLE, data),
    "head, fast": lambda data: Codec().decode(HEAD, data),
    "region": lambda data: Codec().decode_region(data, 8, 8, 8, 8),
    "crop": lambda data: Codec().augment_encoded(TRAIN, data, 0, 0, 0, 0),
    "crop, fast": lambda data: Codec().augment_encoded(FAST, data, 0, 0, 0, 0),
}


@pytest.mark.parametrize("route", ROUTES)
def test_a_file_of_endless_scans_is_stopped_whatever_is_decoded_of_it(route):
    data = saved(64, 64, progressive=True)
    ROUTES[route](last_scan_again(data, 500))
    with pytest.raises(PictureTooLargeError, match=r"64 x 64 pixels in more than 500 scans.*save it anew"):
        ROUTES[route](last_scan_again(data, 501))


@pytest.mark.small(1)
@pytest.mark.parametrize(("side", "scans"), [(2000, 500), (2500, 320), (5000, 80), (7900, 32)])
def test_the_larger_a_picture_the_fewer_scans_it_may_have(side, scans):
    """The most of each take as long, some two seconds; encoders write 10 scans, or 18 for four colours."""
    data = sized(saved(16, 16, progressive=True), side, side)
    Codec().decode_region(last_scan_again(data, scans), 0, 0, 1, 1)
    with pytest.raises(PictureTooLargeError, match=f"{side} x {side} pixels in more than {scans} scans"):
        Codec().decode_region(last_scan_again(data, scans + 1), 0, 0, 1, 1)


@pytest.mark.whole_size(shown_by="test_the_larger_a_picture_the_fewer_scans_it_may_have")
def test_a_picture_for_which_the_limit_was_raised_may_have_as_many_scans_as_the_largest_without():
    data = sized(saved(16, 16, progressive=True), 9000, 9000)
    with pytest.raises(PictureTooLargeError, match="more than 32 scans"):
        Codec(1 << 28).decode_region(last_scan_again(data, 33), 0, 0, 1, 1)


@pytest.mark.whole_size(shown_by="test_the_larger_a_picture_the_fewer_scans_it_may_have")
def test_scans_with_arithmetic_coding_count_fourfold():
    data = sized(ARITHMETIC, 5000, 5000)
    try:
        Codec().decode_region(data, 0, 0, 1, 1)
    except DecodeError as error:
        pytest.skip(f"not in this libjpeg: {error}")
    with pytest.raises(PictureTooLargeError, match="more than 20 scans"):
        Codec().decode_region(last_scan_again(data, 21), 0, 0, 1, 1)


@pytest.mark.whole_size(shown_by="test_the_larger_a_picture_the_fewer_scans_it_may_have")
def test_scans_that_are_not_progressive_count_as_well():
    data = sized(in_a_scan_each(), 5000, 5000)
    Codec().decode_region(last_scan_again(data, 80), 0, 0, 1, 1)
    with pytest.raises(PictureTooLargeError, match="more than 80 scans"):
        Codec().decode_region(last_scan_again(data, 81), 0, 0, 1, 1)


def test_codecs_in_many_threads_do_not_disturb_one_another():
    files = [saved(50 + 7 * k, 90 - 5 * k) for k in range(4)]
    expected = [Codec().augment_encoded(TRAIN, data, 1, 2, 3, 4) for data in files]
    wrong = []

    def work(k):
        codec = Codec()
        for _ in range(50):
            if not np.array_equal(codec.augment_encoded(TRAIN, files[k], 1, 2, 3, 4), expected[k]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
