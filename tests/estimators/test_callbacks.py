"""Callbacks of scikit-learn, metadata routing and the settings of sparse output."""

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

import orthoplus as op
from orthoplus.methods import EP4Orth

ESTIMATORS = [
    op.OrthogonalNMF(3, method="ep4orth"),
    op.OrthogonalNMF(3, loss="kullback-leibler"),
    op.NonnegativePCA(3, method=EP4Orth()),
    op.KIndicatorsClustering(3),
    op.NonnegativeSpectralClustering(3, n_neighbors=5, method=EP4Orth()),
]
each_estimator = pytest.mark.parametrize(
    "model", ESTIMATORS, ids=lambda model: type(model).__name__
)


class Recorder:
    """Keep the events; ask to stop after so many iterations."""

    def __init__(self, n_wanted=None):
        self.n_wanted, self.events, self.values = n_wanted, [], []

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context, *, X=None):
        self.events.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, metadata=None, fitted_estimator=None):
        self.events.append(f"end {context.task_name}")
        self.metadata, self.fitted = metadata, fitted_estimator
        if context.task_name == "iteration" and hasattr(estimator, "state_"):
            self.values.append(estimator.state_.value)
        return len(self.values) == self.n_wanted


@pytest.fixture
def data(rng):
    return np.kron(np.eye(3), np.ones((10, 4))) + 0.5 * rng.random((30, 12))


@each_estimator
def test_callbacks_see_every_iteration(data, model):
    pytest.importorskip("sklearn.callback")
    recorder = Recorder()
    watched = sklearn.clone(model).set_callbacks(recorder).fit(data)
    assert recorder.events[:3] == ["setup", "begin fit", "begin iteration"]
    assert recorder.events[-3:] == ["end iteration", "end fit", "teardown"]
    assert recorder.events.count("begin iteration") == recorder.events.count("end iteration")
    assert recorder.events.count("end iteration") == len(recorder.values) + 1
    assert len(recorder.values) >= 1
    assert recorder.fitted.get_params() == watched.get_params()
    assert not hasattr(watched, "state_")
    plain = sklearn.clone(model).fit(data)
    for name in ("labels_", "components_"):
        if hasattr(plain, name):
            np.testing.assert_array_equal(getattr(watched, name), getattr(plain, name))


@each_estimator
def test_callback_ends_the_run_without_a_warning(data, model, recwarn):
    pytest.importorskip("sklearn.callback")
    recorder = Recorder(n_wanted=1)
    fitted = sklearn.clone(model).set_callbacks(recorder).fit(data)
    assert len(recorder.values) == 1
    assert not recwarn.list
    assert fitted.n_iter_ == 1


def test_progress_bar_follows_a_fit_within_a_search(data, capsys):
    callback = pytest.importorskip("sklearn.callback")
    pytest.importorskip("rich")
    model = op.OrthogonalNMF(3).set_callbacks(callback.ProgressBar())
    model.fit(data)
    assert "OrthogonalNMF" in capsys.readouterr().out


def test_callback_raises_through_the_fit_and_is_torn_down(data):
    pytest.importorskip("sklearn.callback")

    class Careless(Recorder):
        def on_fit_task_end(self, estimator, context):
            raise KeyError("missing")

    careless = Careless()
    with pytest.raises(op.CallbackError, match="missing"):
        op.OrthogonalNMF(3).set_callbacks(careless).fit(data)
    assert careless.events[-1] == "teardown"


def test_watching_by_both_ways_reaches_both(data):
    pytest.importorskip("sklearn.callback")
    recorder, seen = Recorder(), []
    op.OrthogonalNMF(3).set_callbacks(recorder).fit_watched(data, callback=seen.append)
    assert [state.value for state in seen] == recorder.values


def test_weights_are_routed_to_the_fit(data, rng):
    weights = rng.integers(1, 4, len(data)).astype(float)
    with sklearn.config_context(enable_metadata_routing=True):
        model = op.OrthogonalNMF(3).set_fit_request(sample_weight=True)
        pipeline = make_pipeline(MaxAbsScaler(), model).fit(data, sample_weight=weights)
    expected = op.OrthogonalNMF(3).fit(MaxAbsScaler().fit_transform(data), sample_weight=weights)
    np.testing.assert_array_equal(pipeline[-1].components_, expected.components_)
    unweighted = op.OrthogonalNMF(3).fit(MaxAbsScaler().fit_transform(data))
    assert abs(unweighted.components_ - expected.components_).max() > 1e-6


@pytest.mark.parametrize("interface", ["spmatrix", "sparray"])
def test_sparse_interface_is_that_of_the_setting(data, interface):
    if "sparse_interface" not in sklearn.get_config():
        pytest.skip("scikit-learn before 1.9")
    W = (data @ data.T > 6) * 1.0
    with sklearn.config_context(sparse_interface=interface):
        for model, X in (
            (op.NonnegativeSpectralClustering(3), data),
            (op.NonnegativeSpectralClustering(3, affinity="precomputed"), sp.csr_array(W)),
            (op.NonnegativeSpectralClustering(3, affinity="precomputed"), sp.csr_matrix(W)),
        ):
            found = model.fit(X).affinity_matrix_
            assert sp.issparse(found)
            assert sp.isspmatrix(found) == (interface == "spmatrix")
        for X in (sp.csr_array(data), sp.csr_matrix(data)):
            expected = op.OrthogonalNMF(3).fit(data).labels_
            np.testing.assert_array_equal(op.OrthogonalNMF(3).fit(X).labels_, expected)


def test_rows_of_zeros_have_the_label_minus_one(data):
    data[4] = 0.0
    model = op.OrthogonalNMF(3).fit(data)
    assert np.flatnonzero(model.labels_ == -1).tolist() == [4]
    assert model.predict(data)[4] == -1
    assert not model.transform(data)[4].any()
