"""`labeltree taxonomy from-wordnet`: make a tree from the WordNet hypernyms of class names."""

from __future__ import annotations

from pathlib import Path

from labeltree.options.taxonomy_options import FromWordnetOptions

_LISTED = 20
_GLOSS = 60


def from_wordnet(options: FromWordnetOptions) -> None:
    """Make the taxonomy, or the file of names whose meaning the user must decide.

    Raises:
        TaxonomyError: If names must be decided; the message names the file.
    """
    from labeltree.data.wordnet_files.wordnet_files import WordNetNouns
    from labeltree.data.wordnet_files.wordnet_names import (
        add_to_senses,
        check_distinct,
        find_meanings,
        gloss_of,
        read_senses,
    )
    from labeltree.data.wordnet_files.wordnet_trees import synset_tree
    from labeltree.datasets import wordnet_folder
    from labeltree.errors import TaxonomyError

    names = _read_names(options.names)
    senses_file = options.senses or options.names.with_suffix(".senses.txt")
    nouns = WordNetNouns(options.wordnet or wordnet_folder())
    chosen, unclear, wrong = find_meanings(nouns, names, read_senses(senses_file))
    if wrong:
        name, sense = next(iter(wrong.items()))
        raise TaxonomyError(f"'{senses_file}' says that {name!r} is {sense!r}, which is not one synset")
    if options.rule == "first":
        guessed = {name: offsets[0] for name, offsets in unclear.items() if offsets}
        for name, offset in guessed.items():
            print(f"guessed: {name} = {nouns.name(offset)}  # {gloss_of(nouns, offset, _GLOSS)}")
        chosen |= guessed
        check_distinct(nouns, chosen)
        unclear = {name: offsets for name, offsets in unclear.items() if not offsets}
    if unclear:
        add_to_senses(senses_file, nouns, unclear)
        unknown = [name for name, offsets in unclear.items() if not offsets]
        for name, offsets in list(unclear.items())[:_LISTED]:
            what = " | ".join(f"{nouns.name(o)}: {gloss_of(nouns, o, _GLOSS)}" for o in offsets)
            print(f"{name}: {what or 'no noun of WordNet'}")
        if len(unclear) > _LISTED:
            print(f"… and {len(unclear) - _LISTED} more")
        kinds = (
            f"{len(unclear) - len(unknown)} names have several senses, {len(unknown)} are unknown to WordNet"
        )
        raise TaxonomyError(
            f"{kinds}: decide in '{senses_file}', which lists them, and run the command again"
        )
    ordered = {name: chosen[name] for name in dict.fromkeys(names)}
    taxonomy = synset_tree(nouns, ordered)
    if options.collapse:
        taxonomy = taxonomy.collapse(keep=set(ordered))
    taxonomy.save(options.out)
    print(f"{len(ordered)} classes, {taxonomy.num_nodes} nodes, depth {taxonomy.max_depth}: {options.out}")


def _read_names(path: Path) -> list[str]:
    """The lines that are neither empty nor comments; a comment begins with `#`."""
    from labeltree.errors import TaxonomyError

    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except OSError as error:
        raise TaxonomyError(f"'{path}' cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise TaxonomyError(f"'{path}' is not text in UTF-8") from None
    return [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]
