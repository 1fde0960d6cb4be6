"""Whether a transform of torchvision's is torchvision's."""

from torchvision_here import v1

from seneca.transforms._genuine import is_genuine, is_library_code, replaced_in_torchvision


def mine(*_):
    raise NotImplementedError


def test_an_object_of_torchvisions_is_genuine_and_one_of_a_subclass_is_not():
    class CenterCrop(v1.CenterCrop):
        pass

    assert is_genuine(v1.CenterCrop(3)) and not is_genuine(CenterCrop(3))


def test_a_method_of_ones_own_and_a_hook_make_it_another(monkeypatch):
    crop = v1.CenterCrop(3)
    crop.forward = mine
    hooked = v1.CenterCrop(3)
    hooked.register_forward_hook(mine)
    assert not is_genuine(crop) and not is_genuine(hooked)
    monkeypatch.setattr(v1.CenterCrop, "forward", mine)
    assert not is_genuine(v1.CenterCrop(3))


def test_a_function_that_is_replaced_on_the_way_is_named(monkeypatch):
    assert replaced_in_torchvision() is None
    monkeypatch.setattr(v1.functional, "center_crop", mine)
    assert replaced_in_torchvision() == "torchvision.transforms.functional.center_crop"
    assert is_library_code(v1.functional.resize) and is_library_code(len) and not is_library_code(mine)
