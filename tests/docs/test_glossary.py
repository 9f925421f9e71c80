"""docs/glossary.md has every term once, sorted. Its folders exist, and no page uses a word that it replaces."""

import re

from conftest import ROOT

GLOSSARY = ROOT / "docs" / "glossary.md"
PAGES = [ROOT / "README.md", *sorted(page for page in (ROOT / "docs").glob("*.md") if page != GLOSSARY)]


def rows():
    """Returns (term, meaning, folder, elsewhere, instead of) of each row."""
    lines = [line for line in GLOSSARY.read_text().splitlines() if line.startswith("| ")][1:]
    return [[cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")] for line in lines]


def prose(text):
    """Returns a page without code, links' targets and hidden comments."""
    text = re.sub(r"^```.*?^```|<!--.*?-->", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`]*`|\]\([^)]*\)", "", text)


def test_the_terms_are_sorted_and_each_is_explained_once():
    terms = [row[0] for row in rows()]
    assert len(terms) > 60 and [len(row) for row in rows()] == [5] * len(terms)
    assert terms == sorted(set(terms), key=str.lower)
    assert [row[0] for row in rows() if not row[1].endswith(".")] == []


def test_every_folder_of_the_glossary_exists():
    assert [row[0] for row in rows() if not (ROOT / row[2].strip("`")).is_dir()] == []


def test_no_page_uses_a_word_that_the_glossary_replaces():
    replaced = [word.strip() for row in rows() for word in row[4].split(",") if word.strip()]
    assert len(replaced) >= 5
    pattern = re.compile(r"\b(" + "|".join(replaced).replace(" ", r"\s+") + r")\b", re.IGNORECASE)
    found = [f"{page.name}: {match.group()}" for page in PAGES for match in pattern.finditer(prose(page.read_text()))]
    assert found == []


def test_a_replaced_word_in_code_is_allowed():
    assert "crew" not in prose("A `crew` in code,\n```\ncrew\n```\n[text](crew.md)\n<!-- crew -->\n")
    assert "crew" in prose("The crew meets.")
