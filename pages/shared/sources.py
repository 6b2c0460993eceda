"""Where predictions come from, and the few lines of Python that make a file of each."""

from __future__ import annotations

import streamlit as st

from pages.shared.components import plain_text

SOURCES = {
    "A PyTorch model": (
        "Runs the model over loaders, and keeps the features and the head that GC, ProCal and FC need. "
        "torchvision, timm and Hugging Face classifiers work as they are. If stopped, it resumes where it stopped.",
        'import smart_core as sc\n\nsc.collect(model, {"val": val_loader, "test": test_loader}, out="bundle.npz")',
    ),
    "A model from the command line": (
        "The two functions return a module and its loaders.",
        "smart collect --model my_code:model --weights weights.pt --data my_code:loaders --out bundle.npz",
    ),
    "Hugging Face Trainer": (
        "What Trainer.predict returns for the validation and the test set.",
        "import smart_core as sc\n\n"
        "data = sc.from_predictions(trainer.predict(validation), trainer.predict(test))\n"
        'sc.data.save_bundle(data, "bundle.npz")',
    ),
    "scikit-learn, XGBoost, LightGBM": (
        "Boosters give their raw margins, other classifiers their decision function or probabilities.",
        "import smart_core as sc\n\n"
        "data = sc.from_sklearn(model, X_val, y_val, X_test, y_test)\n"
        'sc.data.save_bundle(data, "bundle.npz")',
    ),
    "PyTorch Lightning": (
        "A folder of pieces: what a BasePredictionWriter saves on each rank, joined in the order of its batch_indices.",
        'torch.save(predictions, folder / f"predictions_{trainer.global_rank}.pt")\n'
        'torch.save(batch_indices, folder / f"batch_indices_{trainer.global_rank}.pt")\n'
        'np.save(folder / "labels.npy", labels)  # unless each batch has its own',
    ),
    "Many models in one HDF5 file": (
        "A group per data set and model; after the upload, one of them is chosen.",
        'with h5py.File("benchmark.h5", "a") as file:\n'
        '    group = file.create_group(f"{dataset}/{model}")\n'
        '    group["probas_cal"], group["labels_cal"] = p_val, y_val\n'
        '    group["probas_test"], group["labels_test"] = p_test, y_test',
    ),
    "Arrays": (
        "Logits have a row per sample and a column per class; -inf where a row does not have a class.",
        "import numpy as np\n\n"
        'np.savez("bundle.npz", val_logits=z_val, val_labels=y_val, test_logits=z_test, test_labels=y_test)',
    ),
    "Confidences without logits": (
        "A table with confidence and correct, or with true_label, pred_label and confidence. Other columns can be "
        "used for slices. The methods that read only the confidence can be fitted.",
        "import pandas as pd\n\n"
        'table = pd.DataFrame({"confidence": confidence, "correct": prediction == label, "site": site})\n'
        'table.to_csv("judge.csv", index=False)',
    ),
    "A language model's choices": (
        "Sample files of lm-evaluation-harness open as they are: questions may have different numbers of choices.",
        "lm_eval --model hf --model_args pretrained=MODEL --tasks arc_easy --log_samples --output_path results",
    ),
}
"""Source -> what to know about it, and the lines that make a file."""


def draw() -> None:
    """Ask where the predictions are, and show the lines that make a file of them."""
    source = st.selectbox(
        "Where are your predictions?", list(SOURCES), key="source", persist_state="session", width=420
    )
    about, code = SOURCES[source]
    st.caption(plain_text(about))
    language = "shell" if code.startswith(("smart ", "lm_eval ")) else "python"
    st.code(code, language=language, wrap_lines=True)
