"""Export: take the repair, its figures, and the whole session away."""

from __future__ import annotations

import streamlit as st

from pages.shared import address, board, cached, downloads, intake, library, restore, routing, show, state, studies
from pages.shared.desk import desk
from pages.shared.leaderboard import best_of
from pages.shared.wording import plain_text
from smart_core import LogitSet
from smart_core.calibrators import methods
from smart_core.calibrators.base import Calibrator
from smart_core.calibrators.store import calibrator_bytes
from smart_core.evaluation import METRICS
from smart_core.experiments import Comparison, MethodResult
from smart_core.experiments.sensitivity import Sensitivity
from smart_core.export import comparison_latex, onnx_bytes, onnx_refusal
from smart_core.formatting import percent, plural
from smart_core.metrics import ece
from smart_core.report import Findings, report_html
from smart_core.report.reproduce import compare_code

routing.enter()

FEW_CLASSES = 100  # up to here, a file of all probabilities is of a handy size

# session keys
METHOD = "export-method"
PROPOSED = "export-proposed"  # data set and method that were last proposed


def choose(data: LogitSet, fitted: dict[str, MethodResult], best: str) -> tuple[str, int]:
    """The method, and the place of the seed among those fitted; the best is proposed whenever it is another one."""
    if st.session_state.get(PROPOSED) != (data.content_hash, best) or st.session_state.get(METHOD) not in fitted:
        st.session_state[PROPOSED] = (data.content_hash, best)
        st.session_state[METHOD] = best
    with st.container(horizontal=True):
        method = st.selectbox(
            "Method",
            list(fitted),
            format_func=lambda id: methods()[id].label,
            key=METHOD,
            persist_state="session",
            help="Every method fitted on this data set and split; the best by the primary metric is proposed.",
        )
        seeds = [calibrator.seed for calibrator in fitted[method].calibrators]
        place = st.selectbox(
            "Seed",
            range(len(seeds)),
            format_func=lambda number: str(seeds[number]),
            key=f"export-seed-{method}",
            persist_state="session",
            help="A method that draws no random numbers has one fit only.",
        )
    return method, place


def verdict(data: LogitSet, result: MethodResult, place: int, bins: int) -> None:
    """What the chosen fit does on test, beside the model as it is."""
    label = methods()[result.id].label
    judged = result.evaluations[place]
    error = ece(judged.confidence, judged.correct, bins)
    before = cached.uncalibrated(data)
    noise = cached.fit_noise(judged, bins)
    st.markdown(
        f"#### {label} leaves an ECE of {percent(error, 2)} on the {len(data.test):,} test samples; the model as it is "
        f"has {percent(ece(before.confidence, before.correct, bins), 2)}."
    )
    ends = f"{percent(noise.interval.low, 2)} to {percent(noise.interval.high, 2)}"
    st.caption(
        f"{bins} bins. 95 % interval of the population value: {ends}. A perfectly calibrated model with these "
        f"confidences would stay below {percent(noise.floor.q95, 2)} in 95 % of sets."
    )
    row = board.row(data, result.id)
    if row is not None and board.stale(row):
        st.warning("The settings on Compare have changed since: this is the fit made before. Refit it there.")


def calibrator_files(calibrator: Calibrator) -> None:
    """The fitted calibrator in every form, and how to use each."""
    title, method = library.title(), calibrator.id
    name, module = downloads.stem(title, method), downloads.module(title, method)
    forms = [calibrator_form, numpy_form, onnx_form, torch_form, sklearn_form]
    for start in range(0, len(forms), 2):
        for column, form in zip(st.columns(2), forms[start : start + 2], strict=False):
            with column:
                form(calibrator, name, module)


def calibrator_form(calibrator: Calibrator, name: str, module: str) -> None:
    """The file that this package reads."""
    st.markdown("**Calibrator.** Settings and learned numbers; no pickle.")
    st.download_button(
        "Download calibrator",
        data=lambda: calibrator_bytes(calibrator),
        file_name=f"{name}.safetensors",
        mime="application/octet-stream",
        key="export-calibrator",
        type="primary",
        on_click="ignore",
    )
    arguments = "logits, features=features" if calibrator.features_used_ else "logits"
    use(f'import smart_core as sc\n\nprobs = sc.load_calibrator("{name}.safetensors").predict_proba({arguments})')


def numpy_form(calibrator: Calibrator, name: str, module: str) -> None:
    """The file that needs NumPy only."""
    st.markdown("**NumPy file.** One Python file that needs nothing but NumPy.")
    text, why_not = downloads.numpy_file(calibrator)
    if text is None:
        st.info(plain_text(why_not))
        return
    st.download_button(
        "Download NumPy file",
        data=text,
        file_name=f"{module}.py",
        mime="text/x-python",
        key="export-numpy",
        on_click="ignore",
    )
    arguments = "logits, features" if calibrator.features_used_ else "logits"
    use(f"from {module} import predict_proba\n\nprobs = predict_proba({arguments})")


def onnx_form(calibrator: Calibrator, name: str, module: str) -> None:
    """The file that every ONNX runtime reads."""
    st.markdown("**ONNX.** Logits in, probabilities out, in any runtime that knows opset 17.")
    why_not = onnx_refusal(calibrator)
    if why_not is not None:
        st.info(plain_text(why_not))
        return
    st.download_button(
        "Download ONNX",
        data=lambda: onnx_bytes(calibrator),
        file_name=f"{name}.onnx",
        mime="application/octet-stream",
        key="export-onnx",
        on_click="ignore",
    )
    inputs = '{"logits": logits, "features": features}' if calibrator.features_used_ else '{"logits": logits}'
    use(
        f'import onnxruntime\n\nprobs = onnxruntime.InferenceSession("{name}.onnx").run(None, {inputs})[0]  '
        "# float32 arrays"
    )


def torch_form(calibrator: Calibrator, name: str, module: str) -> None:
    """The layer to put behind a model."""
    st.markdown("**PyTorch module.** A last layer, from the calibrator's file; moves and exports with the model.")
    layer = f'sc.export.as_module(sc.load_calibrator("{name}.safetensors"))'
    if calibrator.features_used_:
        use(f"import smart_core as sc\n\nlayer = {layer}\nprobs = layer(logits, features)")
    else:
        use(f"import smart_core as sc\nimport torch\n\nmodel = torch.nn.Sequential(model, {layer})")


def sklearn_form(calibrator: Calibrator, name: str, module: str) -> None:
    """The estimator for pipelines and searches."""
    st.markdown(
        "**scikit-learn estimator.** Logits as X, for pipelines and searches; fitted from the calibrator's file."
    )
    if calibrator.features_used_:
        st.info(f"{calibrator.label} was fitted with features, and an estimator has logits alone.")
        return
    use(
        "import smart_core as sc\n\n"
        f'estimator = sc.export.CalibratedLogits.of(sc.load_calibrator("{name}.safetensors"))\n'
        "probs = estimator.predict_proba(logits)"
    )


def use(code: str) -> None:
    """How to use a form."""
    st.code(code, language="python", wrap_lines=True)


def probability_files(data: LogitSet, calibrator: Calibrator) -> None:
    """Calibrated probabilities of the test part."""
    name = downloads.stem(library.title(), calibrator.id, "probabilities")
    full = st.toggle(
        "All classes",
        data.classes <= FEW_CLASSES,
        key="export-full",
        persist_state="session",
        help="Otherwise the predicted class, its confidence, the label, and whether they agree.",
    )
    with st.container(horizontal=True):
        for form, mime in (("npz", "application/octet-stream"), ("csv", "text/csv")):
            st.download_button(
                f"Download {form}",
                data=downloads.probabilities(calibrator, data.test, form, full),
                file_name=f"{name}.{form}",
                mime=mime,
                key=f"export-probabilities-{form}",
                on_click="ignore",
            )


def report_file(ranked: Comparison, bins: int) -> None:
    """Everything on one page to hand on, from what is fitted."""
    found = Findings(
        ranked,
        bins,
        sensitivity_grid(ranked.data, bins),
        library.title(),
        compare_code(
            library.load_code(),
            list(ranked.results),
            max(row.seeds for id, row in board.rows(ranked.data).items() if id in ranked.results),
            bins,
            ranked.metric,
            {id: board.chosen_settings(id) for id in ranked.results},
        ),
    )
    st.caption(
        "Verdict, leaderboard, reliability by margin group, temperature curve and settings on one page: a single HTML "
        "file of about 5 MB that opens anywhere, prints, and asks no other host. Each figure in it saves as SVG, PNG, "
        "CSV and JSON."
    )
    st.download_button(
        "Download report",
        data=lambda: report_html(found).encode(),
        file_name=f"{downloads.stem(library.title(), 'report')}.html",
        mime="text/html",
        key="export-report",
        on_click="ignore",
    )


def sensitivity_grid(data: LogitSet, bins: int) -> Sensitivity | None:
    """The newest grid of SMART's settings on this data set, if it is complete and judged with these bins."""
    study = studies.found(data, "sensitivity")
    if study is None or not isinstance(study.result, Sensitivity):
        return None
    return study.result if study.result.complete and study.made_with.get("bins") == bins else None


def tables(ranked: Comparison) -> None:
    """The leaderboard's figures."""
    names = ", ".join(methods()[id].label for id in ranked.results)
    st.caption(f"{names}. Ties by the primary metric, {METRICS[ranked.metric].label}.")
    with st.container(horizontal=True):
        for form, (mime, write) in downloads.TABLES.items():
            st.download_button(
                f"Download {form}",
                data=lambda write=write: write(ranked).encode(),
                file_name=f"{downloads.stem(library.title(), 'metrics')}.{downloads.ENDINGS[form]}",
                mime=mime,
                key=f"export-metrics-{form.lower()}",
                on_click="ignore",
            )
        st.download_button(
            "Download LaTeX, methods across",
            data=lambda: comparison_latex(ranked, methods="columns", metrics=[ranked.metric]).encode(),
            file_name=f"{downloads.stem(library.title(), 'metrics-across')}.tex",
            mime="text/x-tex",
            key="export-metrics-latex-across",
            on_click="ignore",
            help="The paper's layout: a row for the data set, a column for each method.",
        )


def workspace() -> None:
    """The whole session, out and in."""
    here = desk()
    kept, left_out = restore.gather(here, address.view())
    left, right = st.columns(2)
    with left:
        studies = len(here.studies) - len(left_out)
        parts = [(len(here.sets), "data set", "of your own"), (len(here.fits), "fit", ""), (studies, "study", "")]
        counts = ", ".join(f"{plural(number, noun)} {more}".strip() for number, noun, more in parts)
        st.markdown(f"**Save** in one file: {counts}, the leaderboards, settings and the view.")
        if left_out:
            st.caption(f"Not kept: {plural(len(left_out), 'study')} of a kind that has to be run again.")
        st.download_button(
            "Download workspace",
            data=lambda: restore.content(kept),
            file_name=f"{downloads.stem(library.title(), 'workspace')}.zip",
            mime="application/zip",
            key="export-workspace",
            on_click="ignore",
        )
    with right:
        intake.workspace("export-restore")


data, bins = library.current(), st.session_state[state.BINS]
fitted = board.fitted(data)
st.title("Export")
st.markdown("Take the repair, its figures, or the whole session with you.")
if not fitted:
    job = desk().tray.active("compare", data.content_hash)
    if job is not None:
        st.info("A fit is under way: what it gives can be taken away here.")
    elif show.empty(
        f"Nothing is fitted on {plain_text(library.title())} yet, so there is no calibrator to take away.",
        "Fit SMART",
        "export-fit",
        shortcut="Ctrl+Enter",
    ):
        board.fit(data, ["smart"], bins=bins)
        st.rerun()
else:
    leaders = board.fresh(data, seeds=st.session_state.get(state.SEEDS), bins=bins) or fitted  # as Compare ranks them
    method, place = choose(data, fitted, best_of(leaders, st.session_state[state.METRIC]))
    verdict(data, fitted[method], place, bins)
    chosen = fitted[method].calibrators[place]
    calibrator_files(chosen)
    st.subheader("Calibrated probabilities of the test part")
    probability_files(data, chosen)
    st.subheader("Every fitted method")
    fresh = board.fresh(data, bins=bins)
    if fresh:
        ranked = board.comparison(data, fresh, st.session_state[state.METRIC], bins)
        tables(ranked)
        st.subheader("Report")
        report_file(ranked, bins)
    else:
        st.caption("Every row was made with other settings or bins than those asked for now: refit on Compare.")
st.subheader("Workspace")
workspace()
# before anything is fitted, the code of the fit that the page offers
id, settings = "smart", board.chosen_settings("smart")
if fitted:
    defaults = {item.name: item.default for item in chosen.settings()}
    used = chosen.settings_dict().items()
    id, settings = method, {name: value for name, value in used if name != "device" and value != defaults[name]}
given = "".join(f", {name}={value!r}" for name, value in settings.items())
part = "data.validation"
show.python(
    library.load_code()
    + f"""
calibrator = sc.calibrators.get("{id}"{given})
calibrator.fit({part}.logits, {part}.labels, features={part}.features, head=data.head)
print("ECE", sc.evaluate(calibrator, data.test, bins={bins}).metric("ece", {bins}))
calibrator.save("{downloads.stem(library.title(), id)}.safetensors")
"""
)
