"""Guide: one screen per question, with a table of contents, and the glossary."""

from __future__ import annotations

import streamlit as st

from pages.shared import glossary, navigation, session, sources
from pages.shared.components import python_code
from pages.shared.guide import concepts, reference

navigation.enter()

SCREENS = {
    "Calibration": ("What is calibration?", concepts.calibration),
    "Reading a page": ("How do I read a page?", concepts.reading),
    "Noise": ("Is it real, or noise?", concepts.noise),
    "Metrics": ("Which metric says what?", reference.metrics),
    "Which ECE": ("Which ECE?", concepts.which),
    "Choosing": ("Which method should I deploy?", concepts.choosing),
    "Methods": ("What does each method do?", reference.method_table),
    "SMART": ("How does SMART work?", concepts.smart),
    "Files": ("Which files can I open?", reference.files),
    "Making a file": ("How do I make such a file?", sources.draw),
    "Keyboard": ("What are the keyboard shortcuts?", reference.keyboard),
    "The paper": ("Where does the paper disagree with itself?", reference.inconsistencies),
    glossary.TITLE: ("What does this term mean?", glossary.draw),
}
"""Entry of the table of contents, as the URL has it -> the question, and the function that answers it."""

st.title("Guide")
contents, screen = st.columns([1, 3], gap="large")
with contents:
    chosen = st.radio("Contents", list(SCREENS), key=glossary.TOPIC, bind="query-params", persist_state="session")
with screen:
    question, draw = SCREENS[chosen]
    st.header(question)
    draw()
bins = session.bins()
python_code(
    f"""
from smart_core.metrics import noise_floor

model = sc.Vanilla().fit_part(data.validation)
evaluation = sc.evaluate(model, data.test, bins={bins})
print(noise_floor("ece", evaluation, bins={bins}))
"""
)
