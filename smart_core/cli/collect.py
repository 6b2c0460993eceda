"""The command `collect`: logits, labels, features and head of the user's own model on their own data."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from smart_core.cli.arguments import add_json, add_model
from smart_core.cli.output import check_extension, check_options, notes, show
from smart_core.cli.terminal import running
from smart_core.formatting import plural


def add(parser: ArgumentParser) -> None:
    parser.description = (
        "Run a PyTorch model over loaders for validation and test and write a bundle with its logits, the "
        "labels, the input of its last linear layer and that layer. If interrupted, run it again to resume."
    )
    parser.epilog = "The modules named by --model and --data are imported and their code is run."
    add_model(parser, "a torch.nn.Module", weights_required=False)
    parser.add_argument(
        "--data",
        required=True,
        metavar="MODULE:FACTORY",
        help="factory() returns a loader, a pair (validation, test) of them, or a dict with val and test",
    )
    parser.add_argument("--out", required=True, metavar="BUNDLE.npz", help="file to write (npz)")
    parser.add_argument(
        "--features",
        default="auto",
        metavar="NAME",
        help="module whose input is saved as features (default: auto, the last linear layer); none leaves them out",
    )
    parser.add_argument("--autocast", choices=("bf16", "fp16"), help="run the model in this precision")
    parser.add_argument("--device", default="auto", help="auto, cuda, mps or cpu")
    add_json(parser)


def run(options: Namespace) -> None:
    from smart_core.attacks.inputs import build_model, load_weights, made_by
    from smart_core.data.collecting import collect

    check_extension("--out", options.out, ".npz")
    check_options(options)
    model = build_model(options.model)
    if options.weights:
        load_weights(model, options.weights)
    loaders = made_by(options.data, "--data")
    with running() as run:
        data = collect(
            model,
            loaders,
            features=None if options.features == "none" else options.features,
            device=options.device,
            out=options.out,
            autocast=options.autocast,
            progress=run.progress,
            cancel=run.cancel,
        )
    features = data.test.features
    notices = [str(notice) for notice in data.notices]
    summary = {
        "out": str(options.out),
        "classes": data.classes,
        "validation": len(data.validation),
        "test": len(data.test),
        "features": None if features is None else features.shape[1],
        "head": data.head is not None,
        "notices": notices,
    }
    with_features = "no features" if features is None else f"{features.shape[1]} features per sample"
    head = "and the head" if data.head is not None else "no head"
    samples = plural(len(data.validation) + len(data.test), "sample")
    done = f"{samples}, {data.classes} classes, {with_features}, {head}, written to {options.out}"
    show(options, summary, "\n".join([done, *notes(notices)]))
