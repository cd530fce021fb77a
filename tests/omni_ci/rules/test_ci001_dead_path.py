from __future__ import annotations

FILES = {"omni/engine/core.py": "", "tests/test_a.py": ""}


def test_vllm51345_a_watched_path_that_was_deleted_is_found_with_the_nearest_one(asked):
    """A step watches a folder that was renamed long ago, so it never runs for the changes it was written for."""
    steps = """
        - label: Engine
          source_file_dependencies:
            - omni/engin/
            - tests/test_a.py
          commands: [pytest tests/test_a.py]
    """
    (one,) = asked("CI001", steps, FILES)
    assert one.message == (
        "step 'Engine': watches omni/engin/, which does not exist (did you mean 'omni/engine/'?)"
    )
    assert (one.file, one.line) == (".buildkite/cuda/test-ready.yml", 4)
    assert (one.subject, one.key) == (".buildkite/cuda/test-ready.yml#engine", "omni/engin/")


def test_a_moved_file_is_named_where_it_lies_now(found):
    steps = """
        - label: Engine
          source_file_dependencies: [omni/core.py]
          commands: [x]
    """
    assert found("CI001", steps, FILES) == [
        "step 'Engine': watches omni/core.py, which does not exist (did you mean 'omni/engine/core.py'?)"
    ]


def test_a_folder_is_not_taken_for_a_file_beside_it(found):
    steps = "- {label: Speech, source_file_dependencies: [speech/tokens/], commands: [x]}"
    (nothing_near,) = found("CI001", steps, {"speech/tokens.py": "", "tests/test_a.py": ""})
    assert nothing_near == "step 'Speech': watches speech/tokens/, which does not exist"
    (moved,) = found("CI001", steps, {"speech/core/tokens/a.py": "", "speech/tokens.py": ""})
    assert moved.endswith("(did you mean 'speech/core/tokens/'?)")


def test_a_path_without_its_slash_may_be_either(found):
    steps = "- {label: Speech, source_file_dependencies: [speech/layer], commands: [x]}"
    assert found("CI001", steps, {"speech/layers/a.py": "", "speech/tokens.py": ""})[0].endswith(
        "(did you mean 'speech/layers/'?)"
    )


def test_files_folders_exclusions_and_keys_that_are_there_are_fine(found):
    steps = """
        - group: G
          source_file_dependencies: [omni]
          steps:
            - label: Engine
              source_file_dependencies: [engine, omni/engine/, "!omni/engine/core.py"]
              commands: [x]
    """
    registry = "schema: 1\nsource_file_dependencies:\n  engine: [omni/engine/core.py]\n"
    assert found("CI001", steps, FILES | {".buildkite/dependencies.yml": registry}) == []


def test_a_dead_path_of_the_registry_is_told_once_at_its_own_line(asked):
    steps = """
        - label: One
          source_file_dependencies: engine
          commands: [x]
        - label: Two
          source_file_dependencies: engine
          commands: [y]
    """
    registry = "schema: 1\nsource_file_dependencies:\n  engine:\n    - omni/engine/\n    - omni/gone/\n"
    (one,) = asked("CI001", steps, FILES | {".buildkite/dependencies.yml": registry})
    assert (one.file, one.line, one.subject, one.key) == (
        ".buildkite/dependencies.yml", 5, ".buildkite/dependencies.yml#engine", "omni/gone/",
    )  # fmt: skip
    assert one.message.startswith("registry key 'engine' watches omni/gone/, which does not exist")


def test_an_unknown_key_is_told_with_the_nearest_key(found):
    steps = "- {label: One, source_file_dependencies: engin, commands: [x]}"
    registry = "schema: 1\nsource_file_dependencies:\n  engine: [omni/]\n"
    assert found("CI001", steps, FILES | {".buildkite/dependencies.yml": registry}) == [
        "step 'One': watches 'engin', which is neither a path here nor a registry key (did you mean 'engine'?)"
    ]


def test_a_path_that_its_own_list_takes_out_counts_for_nothing(found):
    files = {
        **FILES,
        ".buildkite/dependencies.yml": "source_file_dependencies: {core: [omni/, '!omni/engine/']}",
    }
    steps = """
        - {label: All, source_file_dependencies: [omni/, tests/, "!omni/"], commands: [x]}
        - {label: Key, source_file_dependencies: [core, "!omni"], commands: [x]}
        - {label: Part, source_file_dependencies: [omni/, "!omni/engine/"], commands: [x]}
    """
    said = "which an exclusion of the list takes out: it counts for nothing"
    assert found("CI001", steps, files) == [
        f"step 'All': watches omni/, {said}",
        f"step 'Key': watches omni/ of 'core', {said}",
    ]


def test_the_root_is_there(found):
    assert found("CI001", "- {label: All, source_file_dependencies: [.], commands: [x]}", FILES) == []
