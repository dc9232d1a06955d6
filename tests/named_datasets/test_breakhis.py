"""BreakHis from a miniature in its layout: subtypes, magnifications, patients."""

from collections.abc import Callable
from pathlib import Path

import pytest
from official_layouts import check, check_refuses_what_is_missing

from labeltree.data import get_dataset, make_splits, open_source
from labeltree.datasets import breakhis_taxonomy
from labeltree.errors import DataError

pytestmark = pytest.mark.slow

SLIDES = {
    "benign/SOB/adenosis": ("SOB_B_A_14-22549AB", "SOB_B_A_14-22549CD", "SOB_B_A_14-29960CD"),
    "benign/SOB/fibroadenoma": ("SOB_B_F_14-29960AB",),
    "benign/SOB/phyllodes_tumor": ("SOB_B_PT_14-21998AB",),
    "benign/SOB/tubular_adenoma": ("SOB_B_TA_14-3411F",),
    "malignant/SOB/ductal_carcinoma": ("SOB_M_DC_14-13412", "SOB_M_DC_14-2523"),
    "malignant/SOB/lobular_carcinoma": ("SOB_M_LC_14-13412",),
    "malignant/SOB/mucinous_carcinoma": ("SOB_M_MC_14-10147",),
    "malignant/SOB/papillary_carcinoma": ("SOB_M_PC_15-190EF",),
}
INSIDE = "BreaKHis_v1/histology_slides/breast"


@pytest.fixture
def folder(tmp_path: Path, write_image: Callable[..., Path]) -> Path:
    """Every slide of three patients and more, one image at each magnification, and one more at 40."""
    seed = 0
    for place, slides in SLIDES.items():
        for slide in slides:
            name = "-".join(slide.rsplit("_", 1))
            for magnification, number in ((40, 1), (40, 2), (100, 1), (200, 1), (400, 1)):
                file = f"{slide}/{magnification}X/{name}-{magnification}-{number:03}.png"
                write_image(tmp_path / INSIDE / place / file, seed, (14, 9))
                seed += 1
    return tmp_path


def patients(paths: list[str], groups: list[int]) -> dict[str, int]:
    return {path.split("/")[-3][4:]: group for path, group in zip(paths, groups, strict=True)}


def test_reader(folder: Path) -> None:
    source = open_source("breakhis", data_path=folder, image_size=8)
    assert len(source) == 55
    assert source.split is None
    labels = source.taxonomy.decode(source.nodes)
    assert labels[0] == "benign/adenosis"
    assert labels[20] == "benign/phyllodes tumor"
    assert labels[-1] == "malignant/papillary carcinoma"
    assert source.taxonomy == breakhis_taxonomy()
    assert source.paths([0])[0].endswith("adenosis/SOB_B_A_14-22549AB/100X/SOB_B_A-14-22549AB-100-001.png")


def test_slides_of_a_patient_never_part(folder: Path) -> None:
    source = open_source("breakhis", data_path=folder, image_size=8)
    by_slide = patients(source.paths(range(55)), source.groups.tolist())
    assert by_slide["B_A_14-22549AB"] == by_slide["B_A_14-22549CD"]
    assert by_slide["B_A_14-29960CD"] == by_slide["B_F_14-29960AB"]
    assert by_slide["M_DC_14-13412"] == by_slide["M_LC_14-13412"]
    assert len(set(by_slide.values())) == 8
    split = make_splits(source, val=0.2, test=0.3).split
    for group in range(8):
        assert len(set(split[source.groups.numpy() == group])) == 1


def test_one_magnification(folder: Path) -> None:
    whole = open_source("breakhis", data_path=folder, image_size=8)
    part = open_source("breakhis-40x", data_path=folder, image_size=8)
    assert len(part) == 22
    assert all("/40X/" in path for path in part.paths(range(22)))
    # Ids are those of the whole data set.
    assert whole.subset(part.instances).paths(range(22)) == part.paths(range(22))
    assert [len(open_source(f"breakhis-{m}x", data_path=folder, image_size=8)) for m in (100, 400)] == [
        11
    ] * 2


@pytest.mark.parametrize("inside", ["", "BreaKHis_v1", INSIDE])
def test_any_folder_of_the_archive_may_be_named(folder: Path, inside: str) -> None:
    if inside == "":
        (folder / "BreaKHis_v1" / "histology_slides").rename(folder / "histology_slides")
    assert len(open_source("breakhis", data_path=folder / inside, image_size=8)) == 55


def test_check(folder: Path) -> None:
    assert check("breakhis", folder) == ({"all": 55}, (2, 8), [])
    check_refuses_what_is_missing("breakhis", folder, f"{INSIDE}/benign", f"{INSIDE}/malignant")
    published = get_dataset("breakhis").published
    assert published is not None
    parts = [get_dataset(f"breakhis-{m}x").published for m in (40, 100, 200, 400)]
    assert published.splits["all"] == sum(part.splits["all"] for part in parts if part is not None)


def test_half_unpacked_and_wrong_names(folder: Path) -> None:
    carcinomas = folder / INSIDE / "malignant" / "SOB"
    (carcinomas / "lobular_carcinoma").rename(folder / "aside")
    with pytest.raises(DataError, match=r"no folder '.*SOB/lobular_carcinoma'; BreaKHis_v1\.tar\.gz is not"):
        open_source("breakhis", data_path=folder)
    (folder / "aside").rename(carcinomas / "lobular_carcinoma")
    here = carcinomas / "ductal_carcinoma" / "SOB_M_DC_14-2523" / "40X"
    (here / "._SOB_M_DC-14-2523-40-001.png").write_bytes(b"of another system")
    assert len(open_source("breakhis", data_path=folder, image_size=8)) == 55
    for wrong in ("SOB_M_LC-14-2523-40-003.png", "SOB_M_DC-14-2523-100-003.png", "copy.png"):
        (here / "SOB_M_DC-14-2523-40-002.png").rename(here / wrong)
        with pytest.raises(DataError, match=f"{wrong}' is not called as those .* SOB_M_DC-14-22549AB-40-001"):
            open_source("breakhis", data_path=folder)
        (here / wrong).rename(here / "SOB_M_DC-14-2523-40-002.png")
    (here / "SOB_M_DC-14-2523-40-002.png").write_bytes(b"")
    with pytest.raises(
        DataError, match=r"1 of 55 images cannot be read: .*14-2523-40-002\.png' \(the file is"
    ):
        open_source("breakhis", data_path=folder)
    assert len(open_source("breakhis", data_path=folder, image_size=8, on_error="skip")) == 54
