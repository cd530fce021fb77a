from __future__ import annotations

FILES = {
    "omni/models/common/predictor.py": "import omni.models.common.deep\n",
    "omni/models/common/deep.py": "",
    "omni/models/qwen_tts/talker.py": "from omni.models.common.predictor import Predictor\n",
    "omni/models/qwen_omni/thinker.py": "from ..common import predictor\nimport omni.engine\n",
    "omni/engine.py": "",
}


def test_vllm_omni5994_shared_model_code_is_watched_by_the_steps_of_every_model(found):
    """A file that two models share changed, and the end-to-end test of one of them was not scheduled."""
    steps = """
        - label: TTS
          source_file_dependencies: [omni/models/qwen_tts/]
          commands: [x]
        - label: Omni
          source_file_dependencies: [omni/models/qwen_omni/, omni/models/common/]
          commands: [y]
    """
    assert found("CI006", steps, FILES) == [
        (
            "step 'TTS': does not watch omni/models/common/deep.py, which omni/models/common/predictor.py imports; "
            "so does the code of qwen_omni"
        ),
        (
            "step 'TTS': does not watch omni/models/common/predictor.py, which omni/models/qwen_tts/talker.py imports; "
            "so does the code of qwen_omni"
        ),
    ]


def test_a_step_that_watches_all_models_or_none_by_name_is_fine(found):
    steps = """
        - {label: All, source_file_dependencies: [omni/], commands: [x]}
        - {label: Engine, source_file_dependencies: [omni/engine.py], commands: [y]}
        - {label: TTS, source_file_dependencies: [omni/models/qwen_tts, omni/models/common], commands: [z]}
    """
    assert found("CI006", steps, FILES) == []
