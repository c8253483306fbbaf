"""Selection of the number of clusters, and comparison of partitions."""

from orthoplus.model_selection.agreement import Consensus, consensus
from orthoplus.model_selection.rank_selection import RankSelection, select_rank

__all__ = [
    "Consensus",
    "RankSelection",
    "consensus",
    "select_rank",
]
