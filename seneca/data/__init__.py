"""Datasets: the files of pictures, how samples are made of them, and how much of a dataset can be shared."""

from seneca.data.folder import ImageFolder
from seneca.data.picture_list import PictureList

__all__ = ["ImageFolder", "PictureList"]
