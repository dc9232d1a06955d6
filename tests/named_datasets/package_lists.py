"""Package lists in apt's format, in miniature."""

from pathlib import Path

PACKAGES = """Package: apricot
Source: fruit (1.2)
Version: 1
Description: A stone fruit
Description-md5: aa
Tag: interface::graphical, interface::x11, role::program,
 uitoolkit::gtk, works-with::image, works-with::image:raster
Section: games

Package: apricot-dev
Source: fruit
Description: headers
Description-md5: ab
Tag: role::devel-lib, devel::lang:c, implemented-in::TODO
Section: universe/libdevel

Package: plum
Description: A fruit with everything in one list
 It is purple.
Tag: role::program, role::documentation, use::editing, use::viewing
Section: nowhere

Package: untagged
Description: nothing
Section: games

Package: cherry
Description: A stone fruit
Description-md5: aa2
Tag: role::program, not a tag, special::
Section: games

this line belongs to no field
"""
TRANSLATION = """Package: apricot
Description-md5: aa
Description-en: A stone fruit
 Grows on
 trees.
 .
  * and in gardens

Package: cherry
Description-md5: aa2
Description-en: A stone fruit
 Grows on trees.
 .
  * and in gardens

Package: apricot
Description-md5: other
Description-en: of another version
"""


def write_lists(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "a_main_binary-amd64_Packages").write_text(PACKAGES)
    (folder / "a_main_i18n_Translation-en").write_text(TRANSLATION)
    late = "Package: apricot\nDescription: late\nTag: role::dummy\nSection: misc\n"
    (folder / "b_main_binary-amd64_Packages").write_text(late)
    return folder
