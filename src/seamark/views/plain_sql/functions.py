"""Which functions of Spark make one value of many rows, and which make many rows of one value."""

from __future__ import annotations

_AGGREGATES = """
    any any_value approx_count_distinct approx_percentile approx_top_k array_agg avg bit_and bit_or bit_xor
    bitmap_and_agg bitmap_construct_agg bitmap_or_agg bool_and bool_or collect_list collect_set corr count count_if
    count_min_sketch covar_pop covar_samp every first first_value grouping grouping_id histogram_numeric hll_sketch_agg
    hll_union_agg kurtosis last last_value listagg max max_by mean median min min_by mode percentile percentile_approx
    percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy
    regr_syy skewness some std stddev stddev_pop stddev_samp string_agg sum theta_sketch_agg try_avg try_sum var_pop
    var_samp variance schema_of_variant_agg
"""
AGGREGATES = frozenset(_AGGREGATES.split())

_GENERATORS = """
    explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple variant_explode
    variant_explode_outer
"""
GENERATORS = frozenset(_GENERATORS.split())
