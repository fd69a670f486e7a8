"""Names of experiments: the dataset's last part, the method, and what differs within it."""

from ofcl import make_settings
from ofcl.report.grouping import dataset_key, distinguishing_settings, experiment_key
from ofcl.report.naming import name_experiments, short_names

SOUND = {"protocol": "sound", "method": "bi"}
CSV = {**SOUND, "dataset": "/mnt/hospital/data/heart.csv", "label": "ill"}


def names(*values):
    made = [make_settings(some) for some in values]
    found = name_experiments(made)
    return [found[experiment_key(settings)].whole for settings in made]


def test_only_what_differs_within_a_dataset_is_in_a_name():
    columns, digits = {"columns": ("age", "weight")}, {**SOUND, "dataset": "digits"}
    assert names(CSV, {**CSV, "memory": 500}, {**CSV, **columns}, digits) == [
        "heart.csv bi, memory 200",
        "heart.csv bi, memory 500",
        "heart.csv bi, columns age + weight, memory 200",
        "digits bi",
    ]  # fmt: skip


def test_one_dataset_is_not_in_the_names():
    assert names(CSV, {**CSV, "method": "er"}) == ["bi", "er"]
    assert names(CSV, {**CSV, "start": "runs/a"}) == ["bi", "bi, from an earlier run"]
    assert names(CSV, {**CSV, "joint": True}, {**CSV, "class_counts": False}) == [
        "bi", "bi, joint", "bi, class_counts false",
    ]  # fmt: skip


def test_datasets_are_called_by_as_many_parts_as_tell_them_apart():
    sources = ["/a/north/heart.csv", "/b/north/heart.csv", "/b/south/heart.csv", "texts/", "digits"]
    assert list(short_names(sources).values()) == [
        "a/north/heart.csv", "b/north/heart.csv", "south/heart.csv", "texts", "digits",
    ]  # fmt: skip
    assert short_names(["/data", "data"]) == {"/data": "/data", "data": "data"}


def test_streams_are_called_by_their_folder():
    watched = make_settings({**SOUND, "streams": ("watch:/x/wards/a", "watch:/x/wards/b")})
    assert dataset_key(watched) == "/x/wards (streams)"
    assert list(short_names([dataset_key(watched)]).values()) == ["wards (streams)"]
    assert dataset_key(make_settings({**SOUND, "streams": ("-",)})) == "streams"


def test_what_a_protocol_chose_for_the_data_is_not_in_a_name():
    chosen = {"protocol": "strong", "dataset": "digits", "method": "bi", "model": "convnet", "q": 3,
              "steps": 2, "lr": 0.01}  # fmt: skip
    sound = {**SOUND, "dataset": "digits", "model": "slim-resnet18"}
    assert names(chosen, {**chosen, "method": "er"}, sound) == [
        "bi, protocol strong", "er, protocol strong", "bi, protocol sound",
    ]  # fmt: skip
    assert names(chosen, {**chosen, "q": 9}, sound) == [
        "bi, protocol strong, q 3", "bi, protocol strong, q 9", "bi, protocol sound",
    ]  # fmt: skip


def test_settings_without_influence_make_no_experiment():
    same = [make_settings({**CSV, **more}) for more in (
        {}, {"licence": "MIT"}, {"threads": 2}, {"on_bad": "skip"}, {"features": "unit"}
    )]  # fmt: skip
    assert len(set(map(experiment_key, same))) == 1
    assert distinguishing_settings(same) == ["dataset", "method", "memory", "protocol"]


def test_what_embedders_of_images_alone_have_is_in_no_other_name():
    """Runs of earlier versions have vectors of length 1, whatever their samples are."""
    values = {**SOUND, "dataset": "digits"}
    assert names({**values, "features": "unit"}, {**values, "method": "er"}) == ["bi", "er"]
    embedded = {**values, "embedder": "efficientnet-lite0"}
    assert names({**embedded, "features": "unit"}, embedded) == [
        "bi, features unit", "bi",
    ]  # fmt: skip
