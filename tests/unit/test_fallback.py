"""Where Seneca is off, a script for it runs unchanged on plain torch, and Seneca says so once."""

import os
import subprocess
import sys
import textwrap
import warnings

import pytest
import ready
import torch

from seneca import fallback


def run(code, *arguments, **environment):
    return ready.run("-c", textwrap.dedent(code), *arguments, env={**os.environ, **environment}, fresh=True)


def test_senecas_arguments_are_taken_stored_and_without_effect():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loader = fallback.DataLoader(
            range(10),
            4,
            cache="mine",
            cache_bytes="1GiB",
            split="58-42-0",
            share="none",
            memory_format=torch.channels_last,
            uint8_batches=True,
            snapshot_every_n_steps=10,
        )
    assert loader.snapshot_every_n_steps == 10
    assert (loader.cache, loader.cache_bytes, loader.split) == ("mine", "1GiB", "58-42-0")
    assert (loader.share, loader.on_error, loader.stats()) == ("none", "raise", {})
    assert loader.memory_format is torch.channels_last
    assert loader.uint8_batches and loader.normalizer(loader) is loader  # batches are complete
    assert [batch.tolist() for batch in loader] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_a_wrong_argument_is_refused_as_by_the_real_loader():
    with pytest.raises(ValueError, match="share is"):
        fallback.DataLoader(range(10), share="everything")
    with pytest.raises(ValueError, match="memory_format is"):
        fallback.DataLoader(range(10), memory_format="flat")
    with pytest.raises(TypeError):
        fallback.DataLoader(range(10), cash="auto")


def test_notice_is_given_once_a_process():
    fallback._give_notice.cache_clear()
    with pytest.warns(UserWarning, match="nothing is shared"):
        fallback.DataLoader(range(4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fallback.DataLoader(range(4))


@pytest.mark.whole_size(shown_by="test_off_is_enough_to_do_without_the_native_core")
def test_a_whole_script_runs_on_plain_torch_with_workers(picture_folder):
    done = run(
        """
        import sys, torch, seneca
        from seneca import transforms as T
        train = seneca.ImageFolder(sys.argv[1], transform=T.Compose([
            T.RandomCrop(40, 4, pad_if_needed=True), T.ColorJitter(0.4, 0.4, 0.4, 0.1), T.Resize((32, 32)),
            T.ToDtype(torch.bfloat16, scale=True), T.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD),
            T.RandomErasing(value="random")]), apply_exif_orientation=True, decode="fast")
        loader = seneca.DataLoader(train, 16, shuffle=True, num_workers="auto", cache_bytes="1GiB")
        assert isinstance(loader, torch.utils.data.DataLoader)
        print([(images.dtype, *images.shape) for images, labels in loader])
        """,
        str(picture_folder),
        SENECA_DISABLE="1",
    )
    assert done.stdout.strip() == str([(torch.bfloat16, 16, 3, 32, 32)] * 3), done.stderr
    assert done.stderr.count("nothing is shared") == 1


def test_importing_seneca_needs_neither_torch_nor_the_native_core():
    code = """
        import sys
        sys.modules["torch"] = sys.modules["seneca._core"] = None  # importing them raises
        import seneca
        from seneca import transforms as T
        print(seneca.Split.parse("50-50-0"), T.Resize(8))
        assert "DataLoader" in seneca.__all__ and not hasattr(seneca, "Dataloader")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_off_is_enough_to_do_without_the_native_core(picture_folder):
    code = """
        import sys
        sys.modules["seneca._core"] = None
        import torch, seneca
        print(next(iter(seneca.DataLoader(torch.arange(6), batch_size=3))))
        from seneca import transforms as T
        print(seneca.ImageFolder(sys.argv[1], T.CenterCrop(8))[0][0].shape)
    """
    off = run(code, str(picture_folder), SENECA_DISABLE="1")
    assert "[0, 1, 2]" in off.stdout and "use torchvision's transforms" in off.stderr
    built = run(
        code.replace('sys.modules["seneca._core"] = None', ""), str(picture_folder), SENECA_DISABLE="1"
    )
    assert "[3, 8, 8]" in built.stdout
    if sys.platform.startswith("linux"):  # a broken build is no reason to be slow in silence
        broken = run(code, str(picture_folder), SENECA_DISABLE="0")
        assert broken.returncode != 0 and "seneca._core" in broken.stderr


def test_torch_is_a_subclass_away():
    assert issubclass(fallback.DataLoader, torch.utils.data.DataLoader)


def test_a_script_that_asks_why_it_waits_gets_an_answer():
    loader_off = fallback.DataLoader(range(10), 4)
    with pytest.raises(RuntimeError, match="nothing to say yet"):
        loader_off.diagnose()
    assert len(list(loader_off)) == 3 and loader_off.last_indices is None
    assert loader_off.diagnose().delivered == 10
    assert str(loader_off.diagnose()) == "epoch 0: it is not known how long the training loop waits"


def test_an_attribute_is_set_on_the_dataset_and_batches_are_made_as_it_makes_them():
    class Items(torch.utils.data.Dataset):
        transform = None

        def __len__(self):
            return 4

        def __getitem__(self, index):
            return index

        def __getitems__(self, indices):
            return [(index, self.transform) for index in indices]

    shared = fallback.SharedDataset(Items(), remote="redis://127.0.0.1")
    shared.transform, shared.cache_bytes = 5, "1MiB"
    assert shared.dataset.transform == 5 and not hasattr(shared.dataset, "cache_bytes")
    assert shared.__getitems__([1, 2]) == [(1, 5), (2, 5)] and shared.join() is None
