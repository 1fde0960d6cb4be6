"""Where each transform of torchvision's runs natively: the matrix of docs/transforms.md, from the classes.

``make generated`` writes it. A test compares.
"""

from pathlib import Path

from option_faces import replaced

from seneca.transforms._base import BY_NAME, MOVES, STAYS
from seneca.transforms._recognise import does_beside

PAGE = Path(__file__).parents[1] / "docs" / "transforms.md"
COLUMNS = "transform", "on tensors of", "beside a mask", "beside boxes", "in a group"
HEAD = f"| {' | '.join(COLUMNS)} |\n{'| --- ' * len(COLUMNS)}|\n"


def rows():
    for name, kind in sorted(BY_NAME.items()):
        if not name.startswith("timm."):
            beside = (does_beside(name, what) for what in ("masks", "boxes"))
            cells = [does if does in (MOVES, STAYS) else "no" for does in beside]
            group = "yes" if kind.keeps_size else "no"
            yield f"| `{name}` | {', '.join(kind.on_tensors) or 'no'} | {' | '.join(cells)} | {group} |"


def page():
    """docs/transforms.md with the matrix of the classes that there are."""
    return replaced(PAGE.read_text(), HEAD, rows(), "\n### ")


if __name__ == "__main__":
    PAGE.write_text(page())
