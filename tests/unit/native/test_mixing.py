"""torchvision's recipe for MixUp and CutMix: recognised, and computed in the batch's own memory."""

import functools

import pytest
import torch
import torch.utils.data
from torch.utils.data import default_collate
from torchvision_here import v2

import seneca
from seneca import transforms as T
from seneca.native.mixing import mixing_of

MIXUP = v2.MixUp(num_classes=5)
CUTMIX = v2.CutMix(num_classes=5)
EITHER = v2.RandomChoice([MIXUP, CUTMIX])
KEPT = []


def recipe(batch):
    return EITHER(*default_collate(batch))


def by_module(batch):
    return MIXUP(*torch.utils.data.default_collate(batch))


def in_lines(batch):
    images, labels = default_collate(batch)
    images, labels = CUTMIX(images, labels)
    return images, labels


def in_a_closure(mix):
    return lambda batch: mix(*default_collate(batch))


def by_default(batch, mix=MIXUP):
    return mix(*default_collate(batch))


class Mixed:
    def __init__(self, mix):
        self.mix = mix

    def __call__(self, batch):
        return self.mix(*default_collate(batch))

    def collate(self, batch):
        batch = default_collate(batch)
        return self.mix(*batch)


RECIPES = {
    "one line": recipe,
    "by its module": by_module,
    "several lines": in_lines,
    "closure": in_a_closure(v2.RandomChoice([CUTMIX, EITHER], p=[0.3, 0.7])),
    "default": by_default,
    "object": Mixed(MIXUP),
    "method": Mixed(CUTMIX).collate,
}


def items_of(pictures):
    return [(picture, n % 5) for n, picture in enumerate(pictures)]


@pytest.mark.small(3)
@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_a_recipe_is_computed_in_place_to_the_last_bit(name, dtype, count):
    mixed = mixing_of(RECIPES[name])
    assert mixed is not None
    for seed in range(4):
        pictures = torch.randn(count, 3, 9, 11).to(dtype)
        torch.manual_seed(seed)
        images, labels = RECIPES[name](items_of(pictures.clone()))
        after = torch.rand(())
        torch.manual_seed(seed)
        result = mixed(pictures, default_collate([n % 5 for n in range(count)]))
        assert type(result) is tuple and result[0] is pictures, "in the batch's own memory"
        assert torch.equal(result[0], images) and torch.equal(result[1], labels)
        assert torch.equal(torch.rand(()), after), "it draws as many random numbers"


def test_it_mixes_pictures_of_either_layout():
    for layout in (torch.contiguous_format, torch.channels_last):
        pictures = torch.randn(4, 3, 8, 6).contiguous(memory_format=layout)
        torch.manual_seed(0)
        wanted = MIXUP(pictures.clone(), torch.arange(4))[0]
        torch.manual_seed(0)
        assert torch.equal(mixing_of(by_module)(pictures, torch.arange(4))[0], wanted)
        assert pictures.is_contiguous(memory_format=layout)


def more_of_the_images(batch):
    images, labels = default_collate(batch)
    return MIXUP(images * 2, labels)


def the_images_besides(batch):
    images, labels = default_collate(batch)
    mixed, labels = MIXUP(images, labels)
    return mixed, images


def kept_in_a_list(batch):
    images, labels = default_collate(batch)
    KEPT.append(images)
    return MIXUP(images, labels)


def kept_by_its_name(batch):
    global LAST
    LAST, labels = default_collate(batch)
    return MIXUP(LAST, labels)


def caught(batch):
    images, labels = default_collate(batch)
    try:  # noqa: SIM105
        images = images / 2
    except:  # noqa: E722
        pass
    return MIXUP(images, labels)


def twice(batch):
    return MIXUP(*MIXUP(*default_collate(batch)))


def twice_for_nothing(batch):
    batch = default_collate(batch)
    MIXUP(*batch)
    return MIXUP(*batch)


def in_a_list(batch):
    images, labels = MIXUP(*default_collate(batch))
    return [images, labels]


def if_there_are_many(batch):
    if len(batch) > 3:
        return MIXUP(*default_collate(batch))
    return default_collate(batch)


def if_it_is_something(batch):
    return default_collate(batch) if batch == [] else MIXUP(*default_collate(batch))


def exchanged(batch):
    images, labels = default_collate(batch)
    return MIXUP(labels, images)


def a_part(batch):
    return MIXUP(*default_collate(batch[:2]))


def said(batch):
    print("a batch")
    return MIXUP(*default_collate(batch))


def counted(batch):
    KEPT[0] += 1
    return MIXUP(*default_collate(batch))


class Keeps(Mixed):
    def __call__(self, batch):
        self.images, labels = default_collate(batch)
        return self.mix(self.images, labels)


class MyMixUp(v2.MixUp):
    pass


def changed(mix):
    mix.make_params = lambda flat: {"lam": 0.5}
    return mix


def hooked(mix):
    mix.register_forward_hook(lambda module, args, output: output)
    return mix


OTHERS = {
    "other images": more_of_the_images,
    "returns the images": the_images_besides,
    "a list keeps the images": kept_in_a_list,
    "a name keeps the images": kept_by_its_name,
    "an attribute keeps the images": Keeps(MIXUP),
    "catches exceptions": caught,
    "mixes twice": twice,
    "mixes twice for nothing": twice_for_nothing,
    "returns a list": in_a_list,
    "depends on the length": if_there_are_many,
    "depends on equality": if_it_is_something,
    "exchanges images and labels": exchanged,
    "a part": a_part,
    "prints": said,
    "counts": counted,
    "default_collate": default_collate,
    "a generator": lambda batch: (yield MIXUP(*default_collate(batch))),
    "a subclass": in_a_closure(MyMixUp(num_classes=5)),
    "a changed object": in_a_closure(changed(v2.MixUp(num_classes=5))),
    "a hook": in_a_closure(hooked(v2.MixUp(num_classes=5))),
    "a choice of others": in_a_closure(v2.RandomChoice([MIXUP, v2.Identity()])),
    "another transform": in_a_closure(v2.Identity()),
    "a function": in_a_closure(lambda images, labels: (images, labels)),
    "partial": functools.partial(by_default, mix=MIXUP),
    "the transform": MIXUP,
    "None": None,
}


@pytest.mark.parametrize("name", OTHERS)
def test_anything_else_is_left_to_the_users_code(name):
    assert mixing_of(OTHERS[name]) is None
    assert not KEPT, "the user's values were out of reach"


def test_what_torchvision_refuses_it_refuses():
    mixed = mixing_of(by_module)
    pictures = torch.randn(4, 3, 8, 6)
    with pytest.raises(ValueError, match="does not match the batch size of the labels"):
        mixed(pictures, torch.arange(3))
    with pytest.raises(ValueError, match="or a tensor, but got"):
        mixed(pictures, ["a"] * 4)
    with pytest.raises(RuntimeError, match="can't be cast"):
        mixed(torch.zeros(4, 3, 8, 6, dtype=torch.uint8), torch.arange(4))


def plain(batch):
    return MIXUP(*default_collate(list(batch)))  # `list` makes it another function


def test_a_loader_gives_the_same_batches_as_with_the_users_code(picture_folder):
    assert mixing_of(by_module) is not None and mixing_of(plain) is None
    epochs = []
    for collate_fn in (by_module, plain):
        dataset = seneca.ImageFolder(
            picture_folder, transform=T.Compose([T.RandomResizedCrop(16), T.ToTensor()])
        )
        torch.manual_seed(3)
        loader = seneca.DataLoader(
            dataset, batch_size=6, shuffle=True, num_workers=2, collate_fn=collate_fn, cache=None
        )
        epochs.append([batch for _ in range(2) for batch in loader])
        assert loader.explain().startswith("native")
        assert ("is computed in the batch's own memory" in loader.explain()) == (collate_fn is by_module)
    for ours, wanted in zip(*epochs, strict=True):
        assert torch.equal(ours[0], wanted[0]) and torch.equal(ours[1], wanted[1])


def test_items_that_come_alone_are_the_users(picture_folder):
    dataset = seneca.ImageFolder(picture_folder, transform=T.Compose([T.RandomResizedCrop(16), T.ToTensor()]))
    loader = seneca.DataLoader(dataset, batch_size=None, cache=None, collate_fn=by_module)
    with pytest.raises(TypeError, match="expected Tensor as element 1"):
        next(iter(loader))
    assert "called in this process" in loader.explain()
