-- How often the rule of INF-001 and its twin in SQL (inflight.sql) say what, with the first runs of each pair. Where the rule
-- is satisfied but could not tell of some readings, SQL may see there what the rule leaves open.
WITH said AS (
    SELECT
        run, reads, verdict,
        CASE WHEN verdict = 'violated' AND rule_verdict = 'satisfied' AND rule_undecided > 0 THEN 'inconclusive'
            ELSE rule_verdict END AS rule_verdict
    FROM inflight
)
SELECT
    verdict, rule_verdict,
    COUNT(*) AS runs,
    SUM(reads) AS reads,
    SLICE(ARRAY_SORT(COLLECT_LIST(CASE WHEN verdict <> rule_verdict THEN run END)), 1, 20) AS some
FROM said
GROUP BY verdict, rule_verdict
ORDER BY verdict, rule_verdict
