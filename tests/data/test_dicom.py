"""DICOM files as a viewer shows them: windows, slopes, inversion, frames, and what cannot be read."""

import sys

import numpy as np
import pytest
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.sequence import Sequence
from pydicom.uid import ExplicitVRLittleEndian, JPEG2000Lossless, JPEGLSLossless, generate_uid

from labeltree.data import open_source
from labeltree.data.images import decode as decoding
from labeltree.data.images.decode import decode, read_head
from labeltree.errors import DataError

RAMP = np.arange(16).reshape(4, 4)


@pytest.fixture
def write(tmp_path):
    """Write values as a DICOM file, gray unless they have a last axis of three."""

    def save(values, name="a.dcm", bits=16, syntax=ExplicitVRLittleEndian, frames=None, **tags):
        values = np.asarray(values)
        dataset = Dataset()
        dataset.file_meta = FileMetaDataset()
        dataset.file_meta.TransferSyntaxUID = syntax
        dataset.file_meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.7"
        dataset.file_meta.MediaStorageSOPInstanceUID = generate_uid()
        dataset.Modality = "OT"
        colour = values.shape[-1] == 3
        dataset.Rows, dataset.Columns = values.shape[-3:-1] if colour else values.shape[-2:]
        dataset.SamplesPerPixel = 3 if colour else 1
        if colour:
            dataset.PlanarConfiguration = 0
        dataset.PhotometricInterpretation = "RGB" if colour else "MONOCHROME2"
        dataset.BitsAllocated, dataset.BitsStored, dataset.HighBit = bits, bits, bits - 1
        dataset.PixelRepresentation = int(values.min() < 0)
        if frames is not None:
            dataset.NumberOfFrames = frames
        for tag, value in tags.items():
            setattr(dataset, tag, value)
        kind = {8: "u1", 16: "<i2" if dataset.PixelRepresentation else "<u2"}[bits]
        dataset.PixelData = values.astype(kind).tobytes()
        dataset["PixelData"].VR = "OB" if bits == 8 else "OW"
        if syntax.is_compressed:
            dataset["PixelData"].is_undefined_length = True
            dataset.PixelData = b"\xfe\xff\x00\xe0\x00\x00\x00\x00\xfe\xff\x00\xe0\x04\x00\x00\x00abcd"
        dataset.save_as(tmp_path / name, enforce_file_format=True)
        return tmp_path / name

    return save


def gray(path):
    return decode(path, 4, 1)[0].ravel().tolist()


def test_bytes_stay_as_they_are(write):
    path = write(RAMP * 17, bits=8)
    assert gray(path) == (RAMP * 17).ravel().tolist()
    assert (decode(path, 4, 3) == (RAMP * 17)[None]).all()
    assert read_head(path) == (4, 4, True)


def test_a_window_after_slope_and_intercept(write):
    # Stored 0 … 15 are −1000 … 500; a window of width 301 around −99.5 goes from −250 to 50.
    path = write(
        RAMP, RescaleSlope=100, RescaleIntercept=-1000, WindowCenter=[-99.5, 40], WindowWidth=[301, 400]
    )
    real = RAMP.ravel() * 100 - 1000
    shown = np.clip(((real - (-99.5 - 0.5)) / 300 + 0.5), 0, 1) * 255
    assert gray(path) == shown.round().astype(int).tolist()
    assert gray(path)[7] == 0
    assert gray(path)[11] == 255


def test_signed_values_and_other_windows(write):
    values = RAMP - 8
    exact = gray(write(values, WindowCenter=0, WindowWidth=8, VOILUTFunction="LINEAR_EXACT"))
    assert exact == (np.clip(values.ravel() / 8 + 0.5, 0, 1) * 255).round().astype(int).tolist()
    sigmoid = gray(write(values, WindowCenter=0, WindowWidth=8, VOILUTFunction="SIGMOID"))
    assert sigmoid == (255 / (1 + np.exp(-values.ravel() / 2))).round().astype(int).tolist()
    step = gray(write(values, WindowCenter=0.5, WindowWidth=1))
    assert step == [0] * 8 + [128] + [255] * 7
    with pytest.raises(DataError, match="its window has width 0 and function LINEAR"):
        gray(write(values, WindowCenter=0, WindowWidth=0))


def test_without_a_window_values_are_spread_and_padding_is_left_out(write):
    values = RAMP + 100
    assert gray(write(values)) == (RAMP * 17).ravel().tolist()
    values[0, 0] = -2000
    padded = gray(write(values, PixelPaddingValue=-2000))
    assert padded[0] == 0
    assert padded[1:] == ((RAMP.ravel()[1:] - 1) / 14 * 255).round().astype(int).tolist()
    assert gray(write(np.full((4, 4), 7))) == [0] * 16


def test_monochrome1_is_inverted(write):
    path = write(RAMP * 17, bits=8, PhotometricInterpretation="MONOCHROME1")
    assert gray(path) == (255 - RAMP * 17).ravel().tolist()
    assert read_head(path).gray


def test_look_up_table(write):
    item = Dataset()
    item.LUTDescriptor = [16, 0, 8]
    item.LUTData = [255 - 16 * value for value in range(16)]
    item["LUTData"].VR = "US"
    item["LUTDescriptor"].VR = "US"
    path = write(RAMP, VOILUTSequence=Sequence([item]))
    assert gray(path) == [255 - 16 * value for value in range(16)]


def test_colour_and_palettes(write):
    colour = np.random.default_rng(0).integers(0, 256, (4, 4, 3))
    path = write(colour, bits=8)
    assert np.array_equal(decode(path, 4, 3), colour.transpose(2, 0, 1))
    assert not read_head(path).gray
    table = (np.arange(16) * 4096 + 15).astype("<u2")
    palette = {
        f"{name}PaletteColorLookupTable{what}": value
        for name, entries in (("Red", table), ("Green", table[::-1]), ("Blue", np.zeros(16, "<u2")))
        for what, value in (("Descriptor", [16, 0, 16]), ("Data", entries.tobytes()))
    }
    path = write(RAMP, bits=8, PhotometricInterpretation="PALETTE COLOR", **palette)
    found = decode(path, 4, 3)
    assert found[0].ravel().tolist() == (table / 65535 * 255).round().astype(int).tolist()
    assert found[1].ravel().tolist() == found[0].ravel()[::-1].tolist()
    assert not found[2].any()


def test_the_first_of_several_frames_counts(write):
    path = write(np.stack([RAMP, RAMP[::-1], 0 * RAMP]) * 17, bits=8, frames=3)
    assert gray(path) == (RAMP * 17).ravel().tolist()


def test_found_by_extension_or_by_content(write, tmp_path):
    for place, name in enumerate(("scans/a/1.dcm", "scans/b/2.DICOM", "scans/b/3", "scans/b/4.png")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write(RAMP + place, name, bits=8)
    # Of the files in a folder, those that are images by their extension; what is in them may be DICOM.
    assert [path.rsplit("/", 1)[1] for path in open_source(tmp_path / "scans").paths(range(3))] == [
        "1.dcm",
        "2.DICOM",
        "4.png",
    ]
    (tmp_path / "t.csv").write_text("image,label\nscans/b/3,x\nscans/a/1.dcm,y\n")
    table = open_source(tmp_path / "t.csv")
    assert table.image_shape == (1, 4, 4)
    assert table.load([0])[0, 0].ravel().tolist() == (RAMP + 2).ravel().tolist()


def test_what_cannot_be_read(write, tmp_path, monkeypatch):
    with pytest.raises(DataError, match=r"compressed \(JPEG-LS Lossless.*\), which needs a further package"):
        gray(write(RAMP, bits=8, syntax=JPEGLSLossless))
    with pytest.raises(DataError, match=r"[Dd]ecode"):
        gray(write(RAMP, bits=8, syntax=JPEG2000Lossless))
    (tmp_path / "b.dcm").write_bytes(b"this is not an image" * 20)
    with pytest.raises(DataError, match="it is not a DICOM file: there is no 'DICM' in its head"):
        gray(tmp_path / "b.dcm")
    path = write(RAMP)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    with pytest.raises(DataError, match="pixel data"):
        gray(path)
    path.write_bytes(whole[:150])
    with pytest.raises(DataError):
        gray(path)
    path = write(RAMP)
    monkeypatch.setattr(decoding, "MAX_PIXELS", 15)
    with pytest.raises(DataError, match="it has 4 x 4 pixels; 15 are the most"):
        gray(path)
    for name in [name for name in sys.modules if name.split(".")[0] == "pydicom"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pydicom", None)
    with pytest.raises(DataError, match=r"needs the package pydicom; install labeltree\[dicom\]"):
        gray(path)


def test_a_file_without_an_image(write):
    path = write(RAMP)
    from pydicom import dcmread

    dataset = dcmread(path)
    for tag in ("Rows", "Columns", "PixelData"):
        delattr(dataset, tag)
    dataset.Modality = "SR"
    dataset.save_as(path)
    with pytest.raises(DataError, match=r"it is a DICOM file without an image \(SR\)"):
        gray(path)
