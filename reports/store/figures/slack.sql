-- How close do runs come to the limit of each timed requirement, in ms?
SELECT
    requirement, COUNT(slack_ns) AS runs,
    MIN(slack_ns) / 1e6 AS least, QUANTILE_CONT(slack_ns, 0.1) / 1e6 AS low,
    MEDIAN(slack_ns) / 1e6 AS median, QUANTILE_CONT(slack_ns, 0.9) / 1e6 AS high
FROM verdicts
WHERE campaign = $campaign AND ABS(slack_ns) < 2e18  -- beyond that is beyond any clock
GROUP BY requirement
ORDER BY requirement DESC
