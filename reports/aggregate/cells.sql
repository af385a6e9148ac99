-- What the runs of one verdict come to, per requirement, broker and world: the details of the strongest, in the order of
-- conformance.experiment.verdict.join; the run to show, in the order of reports/store/collect.py; the distribution of slacks.
SELECT
    v.requirement, v.broker, v.world, v.verdict,
    COUNT(*) AS runs,
    MIN(v.slack_ns) AS slack_ns,
    SUM(v.decided) AS decided,
    SUM(v.undecided) AS undecided,
    ARRAY_SORT(ARRAY_DISTINCT(FLATTEN(COLLECT_SET(v.unknown)))) AS unknown,
    MIN(STRUCT(-g.rank, v.outcome, v.text, v.witness, v.grade)) AS strongest,
    MIN(STRUCT(
        CASE WHEN v.verdict = 'satisfied' THEN -CARDINALITY(v.situations) ELSE 0 END AS met, v.steps, v.run, v.seed
    )) AS shown,
    PERCENTILE_APPROX(v.slack_ns, ARRAY(0.01, 0.5, 0.99)) AS slacks
FROM verdicts v
JOIN grade_order g ON g.grade = v.grade
GROUP BY v.requirement, v.broker, v.world, v.verdict
ORDER BY v.requirement, v.broker, v.world, v.verdict
