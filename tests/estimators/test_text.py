"""Texts: pipelines from raw strings, the words of each topic, and the cluster model of BERTopic."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline

import orthoplus as op

WORDS = {
    0: "cat mouse barn chases hides sleeps tail fur".split(),
    1: "stock market bond trade price fund yield bank".split(),
    2: "rain cloud storm wind snow frost sun sky".split(),
}


@pytest.fixture
def corpus(rng):
    topics = np.arange(45) % 3
    return [" ".join(rng.choice(WORDS[t], 6)) for t in topics], topics


@pytest.mark.parametrize("loss", ["frobenius", "kullback-leibler"])
def test_pipeline_gives_every_text_a_topic_and_a_margin(corpus, loss):
    texts, topics = corpus
    pipeline = make_pipeline(CountVectorizer(), op.OrthogonalNMF(3, loss=loss))
    labels = pipeline.fit_predict(texts)
    assert adjusted_rand_score(topics, labels) == 1.0
    assert pipeline.predict(["a mouse and a cat", "snow and wind"]).tolist() == [
        labels[0],
        labels[2],
    ]
    fits = pipeline[-1].row_fits(pipeline[:-1].transform(texts))
    assert (fits.margins > 0).all()
    mixed = pipeline[-1].row_fits(pipeline[:-1].transform(["cat market cat market stock mouse"]))
    assert mixed.margins[0] < fits.margins.min()


def test_top_features_are_the_words_of_the_topics(corpus):
    texts, topics = corpus
    vectorizer = TfidfVectorizer()
    model = op.OrthogonalNMF(3).fit(vectorizer.fit_transform(texts))
    found = model.top_features(vectorizer.get_feature_names_out(), n=5)
    for words, t in zip(found, [topics[model.labels_ == j][0] for j in range(3)], strict=True):
        assert len(words) == 5
        assert set(words) <= set(WORDS[t])
    every = model.top_features(vectorizer.get_feature_names_out(), n=100)
    assert [len(words) for words in every] == [8, 8, 8]  # no word of another topic
    numbers = model.top_features(n=2)
    largest = [int(row.argmax()) for row in model.components_]
    assert [row[0] for row in numbers] == largest
    with pytest.raises(op.InputError, match="`names` has 2 entries"):
        model.top_features(["a", "b"])
    with pytest.raises(op.InputError, match="n=0"):
        model.top_features(n=0)


def embed(texts):
    """Return the share of the words of each topic in each text, and noise of both signs."""
    shares = [[sum(w in words for w in text.split()) for words in WORDS.values()] for text in texts]
    noise = np.random.default_rng(0).normal(scale=0.1, size=(len(texts), 12))
    return np.hstack([shares, noise]).astype(np.float32)


def test_calls_that_bertopic_makes_of_a_cluster_model(corpus):
    """`fit(embeddings, y=None)`, `labels_`, `predict(embeddings)`, and a copy of the model."""
    from copy import deepcopy

    texts, topics = corpus
    model = deepcopy(op.OrthogonalNMF(3, allow_negative=True))
    model.fit(embed(texts), y=None)
    assert adjusted_rand_score(topics, model.labels_) == 1.0
    assert not hasattr(model, "probabilities_")
    np.testing.assert_array_equal(model.predict(embed(texts)), model.labels_)


@pytest.mark.filterwarnings("ignore")
def test_cluster_model_of_bertopic(corpus):
    bertopic = pytest.importorskip("bertopic")
    pytest.importorskip("hdbscan")  # BERTopic asks whether the model is one of it
    from bertopic.backend import BaseEmbedder
    from bertopic.dimensionality import BaseDimensionalityReduction

    class Shares(BaseEmbedder):
        def embed(self, documents, verbose=False):
            return embed(documents)

    texts, topics = corpus
    model = bertopic.BERTopic(
        embedding_model=Shares(),
        umap_model=BaseDimensionalityReduction(),
        hdbscan_model=op.OrthogonalNMF(3, allow_negative=True),
    )
    found, _ = model.fit_transform(texts)
    assert adjusted_rand_score(topics, found) == 1.0
    assert -1 not in found
    assert set(dict(model.get_topic(found[0])).keys()) <= set(WORDS[0]) | {""}
    assert model.transform(["cat mouse barn"])[0] == [found[0]]
