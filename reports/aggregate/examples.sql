-- The run to show for each cell, by the rule of reports/store/collect.py: strongest verdict; where all is well the most situations met;
-- then the fewest steps, then the name.
WITH placed AS (
    SELECT
        v.requirement, v.broker, v.verdict, v.run, r.seed,
        ROW_NUMBER() OVER (
            PARTITION BY v.requirement, v.broker
            ORDER BY
                o.rank DESC,
                CASE WHEN v.verdict = 'satisfied' THEN -CARDINALITY(v.situations) ELSE 0 END,
                r.steps,
                v.run
        ) AS place
    FROM verdicts v
    JOIN runs r ON r.run = v.run AND r.broker = v.broker
    JOIN verdict_order o ON o.verdict = v.verdict
    WHERE v.verdict IN ('violated', 'known failure', 'inconclusive', 'satisfied')
)
SELECT requirement, broker, verdict, run, seed
FROM placed
WHERE place = 1
ORDER BY requirement, broker
