-- How close does each timed requirement come to its limit, in ms?
SELECT
    requirement, broker, COUNT(slack_ns) AS runs,
    MIN(slack_ns) / 1e6 AS least_ms,
    QUANTILE_CONT(slack_ns, 0.01) / 1e6 AS p1_ms,
    QUANTILE_CONT(slack_ns, 0.5) / 1e6 AS median_ms
FROM verdicts
WHERE ABS(slack_ns) < 2e18  -- beyond that is beyond any clock
GROUP BY ALL
ORDER BY least_ms
