"""Which of 64 languages is this word from? A small character network on the words of spelling dictionaries.

Many classes: some that no model can tell apart (Danish and Norwegian share words), others that any can (Thai).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sample_logits import fetch
from sample_logits.bundles import Arrays
from sample_logits.training import Say

DICTIONARIES = {
    "Afrikaans": ("hunspell-af", "af_ZA"),
    "Albanian": ("myspell-sq", "sq_AL"),
    "Arabic": ("hunspell-ar", "ar"),
    "Aragonese": ("hunspell-an", "an_ES"),
    "Armenian": ("myspell-hy", "hy_AM"),
    "Basque": ("hunspell-eu", "eu"),
    "Belarusian": ("hunspell-be", "be_BY"),
    "Bengali": ("hunspell-bn", "bn_BD"),
    "Bosnian": ("hunspell-bs", "bs_BA"),
    "Breton": ("hunspell-br", "br_FR"),
    "Bulgarian": ("hunspell-bg", "bg_BG"),
    "Catalan": ("hunspell-ca", "ca"),
    "Croatian": ("hunspell-hr", "hr_HR"),
    "Czech": ("hunspell-cs", "cs_CZ"),
    "Danish": ("hunspell-da", "da_DK"),
    "Dutch": ("hunspell-nl", "nl"),
    "English": ("hunspell-en-us", "en_US"),
    "Esperanto": ("myspell-eo", "eo"),
    "Estonian": ("myspell-et", "et_EE"),
    "Faroese": ("myspell-fo", "fo"),
    "French": ("hunspell-fr-classical", "fr"),
    "Galician": ("hunspell-gl", "gl_ES"),
    "German": ("hunspell-de-de", "de_DE"),
    "Greek": ("hunspell-el", "el_GR"),
    "Guarani": ("hunspell-gug", "gug_PY"),
    "Gujarati": ("hunspell-gu", "gu_IN"),
    "Hebrew": ("hunspell-he", "he_IL"),
    "Hindi": ("hunspell-hi", "hi_IN"),
    "Hungarian": ("hunspell-hu", "hu_HU"),
    "Icelandic": ("hunspell-is", "is_IS"),
    "Indonesian": ("hunspell-id", "id_ID"),
    "Irish": ("myspell-ga", "ga_IE"),
    "Italian": ("hunspell-it", "it_IT"),
    "Kazakh": ("hunspell-kk", "kk_KZ"),
    "Kurmanji": ("hunspell-kmr", "kmr_Latn"),
    "Lao": ("hunspell-lo", "lo_LA"),
    "Latvian": ("hunspell-lv", "lv_LV"),
    "Lithuanian": ("hunspell-lt", "lt_LT"),
    "Malayalam": ("hunspell-ml", "ml_IN"),
    "Manx": ("myspell-gv", "gv_GB"),
    "Mongolian": ("hunspell-mn", "mn_MN"),
    "Nepali": ("hunspell-ne", "ne_NP"),
    "Norwegian": ("hunspell-no", "nb_NO"),
    "Occitan": ("hunspell-oc", "oc_FR"),
    "Persian": ("myspell-fa", "fa_IR"),
    "Polish": ("hunspell-pl", "pl_PL"),
    "Portuguese": ("hunspell-pt-pt", "pt_PT"),
    "Romanian": ("hunspell-ro", "ro_RO"),
    "Russian": ("hunspell-ru", "ru_RU"),
    "Scottish Gaelic": ("hunspell-gd", "gd_GB"),
    "Serbian": ("hunspell-sr", "sr_RS"),
    "Sinhala": ("hunspell-si", "si_LK"),
    "Slovak": ("hunspell-sk", "sk_SK"),
    "Slovenian": ("hunspell-sl", "sl_SI"),
    "Spanish": ("hunspell-es", "es_ES"),
    "Swahili": ("hunspell-sw", "sw_TZ"),
    "Swedish": ("hunspell-sv", "sv_SE"),
    "Tagalog": ("myspell-tl", "tl"),
    "Telugu": ("hunspell-te", "te_IN"),
    "Thai": ("hunspell-th", "th_TH"),
    "Turkish": ("hunspell-tr", "tr_TR"),
    "Ukrainian": ("hunspell-uk", "uk_UA"),
    "Uzbek": ("hunspell-uz", "uz_UZ"),
    "Vietnamese": ("hunspell-vi", "vi_VN"),
}
"""Language -> Debian package and name of its dictionary."""

LONGEST, SHORTEST = 16, 3
"""Characters of a word that is used."""
TRAIN, VALIDATION, TEST = 900, 78, 157
"""Words of each language."""
FEATURES = 64
EPOCHS, BATCH, RATE = 14, 256, 2e-3


def words(package: str, name: str) -> list[str]:
    """The words of a dictionary in its own order: in lower case, letters only, each once."""
    folder = fetch.debian_package(package)
    places = [path for path in folder.rglob(f"{name}.dic") if path.is_file()]
    if not places:
        raise fetch.FetchError(f"{package} holds no dictionary {name}.dic: delete {folder} and fetch it anew.")
    encoding = _encoding(places[0].with_suffix(".aff"))
    lines = places[0].read_bytes().decode(encoding, "replace").splitlines()[1:]
    found = (re.split(r"[/\t ]", line, maxsplit=1)[0].lower() for line in lines)
    return list(dict.fromkeys(word for word in found if _usable(word)))


def _encoding(affixes: Path) -> str:
    """The encoding that a dictionary's affix file names; UTF-8 where it names none."""
    named = re.search(rb"^\s*SET\s+(\S+)", affixes.read_bytes(), re.M) if affixes.exists() else None
    name = named[1].decode("ascii") if named else "utf-8"
    return {"microsoft-cp1251": "cp1251", "ISO8859-15": "iso8859-15"}.get(name, name)


def _usable(word: str) -> bool:
    return SHORTEST <= len(word) <= LONGEST and all(unicodedata.category(letter)[0] in "LM" for letter in word)


def split(say: Say) -> dict[str, tuple[list[str], NDArray[np.int64]]]:
    """train, val and test: words and labels, as many of each language; drawn with seed 0."""
    random = np.random.default_rng(0)
    parts: dict[str, tuple[list[str], list[int]]] = {name: ([], []) for name in ("train", "val", "test")}
    for label, (language, source) in enumerate(DICTIONARIES.items()):
        known = words(*source)
        needed = TRAIN + VALIDATION + TEST
        if len(known) < needed:
            raise fetch.FetchError(f"The dictionary of {language} has {len(known)} usable words of {needed}.")
        drawn = [known[index] for index in random.choice(len(known), needed, replace=False)]
        for name, start, stop in (
            ("train", 0, TRAIN),
            ("val", TRAIN, TRAIN + VALIDATION),
            ("test", TRAIN + VALIDATION, needed),
        ):
            parts[name][0].extend(drawn[start:stop])
            parts[name][1].extend([label] * (stop - start))
    say(f"{len(DICTIONARIES)} languages, {TRAIN} words of each to train on")
    return {name: (texts, np.array(labels, dtype=np.int64)) for name, (texts, labels) in parts.items()}


class WordNetwork(nn.Module):
    """Embedded characters, windows of 2 to 5 of them, the maximum over the word, 64 relu features, linear head."""

    def __init__(self, characters: int, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, 32, padding_idx=0)
        self.windows = nn.ModuleList(nn.Conv1d(32, 96, width, padding=width // 2) for width in (2, 3, 4, 5))
        self.body = nn.Sequential(nn.Linear(4 * 96, FEATURES), nn.ReLU())
        self.head = nn.Linear(FEATURES, classes)

    def features(self, codes: Tensor) -> Tensor:
        embedded = self.embedding(codes).transpose(1, 2)
        pooled = [torch.relu(window(embedded)).amax(dim=2) for window in self.windows]
        return self.body(torch.cat(pooled, dim=1))

    def forward(self, codes: Tensor) -> Tensor:
        return self.head(self.features(codes))


def encode(texts: list[str], alphabet: dict[str, int]) -> Tensor:
    """(N, 16) codes of characters; 0 fills up, 1 is a character that was not trained on."""
    codes = torch.zeros(len(texts), LONGEST, dtype=torch.long)
    for row, text in enumerate(texts):
        codes[row, : len(text)] = torch.tensor([alphabet.get(letter, 1) for letter in text])
    return codes


def train(codes: Tensor, labels: Tensor, characters: int, say: Say) -> WordNetwork:
    """The network after all epochs of Adam on cross entropy; nothing holds it back, so it becomes too sure."""
    torch.manual_seed(0)
    model = WordNetwork(characters, len(DICTIONARIES))
    optimiser = torch.optim.Adam(model.parameters(), RATE)
    for epoch in range(EPOCHS):
        total = 0.0
        for rows in torch.randperm(len(codes), generator=torch.Generator().manual_seed(epoch)).split(BATCH):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(model(codes[rows]), labels[rows])
            loss.backward()
            optimiser.step()
            total += loss.item() * len(rows)
        say(f"epoch {epoch + 1} of {EPOCHS}: loss {total / len(codes):.4f}")
    return model.eval()


def bundles(say: Say = print) -> Iterator[tuple[str, Arrays]]:
    """Fetch, train, extract; and the same words as questions with 2 to 10 choices."""
    parts = split(say)
    letters = sorted({letter for text in parts["train"][0] for letter in text})
    alphabet = {letter: code for code, letter in enumerate(letters, 2)}
    model = train(encode(parts["train"][0], alphabet), torch.from_numpy(parts["train"][1]), len(alphabet) + 2, say)
    arrays: Arrays = {
        "head_weight": model.head.weight.detach().numpy(),
        "head_bias": model.head.bias.detach().numpy(),
        "class_names": np.array(list(DICTIONARIES)),
    }
    for name in ("val", "test"):
        with torch.no_grad():
            features = model.features(encode(parts[name][0], alphabet))
            arrays[f"{name}_logits"] = model.head(features).numpy()
        arrays[f"{name}_labels"] = parts[name][1].astype(np.uint8)
        arrays[f"{name}_features"] = features.numpy().astype(np.float16)
    yield "languages", arrays
    yield "languages_choices", choices(arrays)


def choices(arrays: Arrays) -> Arrays:
    """Questions "which of these is it?": the true language and 1 to 9 others at random places of 10 columns.

    A choice that a question does not have is -inf; a row's other logits are those of its languages.
    """
    random = np.random.default_rng(0)
    made: Arrays = {}
    for name in ("val", "test"):
        logits, labels = arrays[f"{name}_logits"], arrays[f"{name}_labels"]
        rows = np.full((len(labels), 10), -np.inf, dtype=np.float32)
        answers = np.empty(len(labels), dtype=np.uint8)
        for row, label in enumerate(labels):
            count = int(random.integers(2, 11))
            others = random.choice(np.delete(np.arange(logits.shape[1]), label), count - 1, replace=False)
            shown = random.permutation(np.append(others, label))
            rows[row, :count] = logits[row, shown]
            answers[row] = int(np.flatnonzero(shown == label)[0])
        made |= {f"{name}_logits": rows, f"{name}_labels": answers}
    return made
