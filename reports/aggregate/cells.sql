-- The join of all runs of a cell, as conformance.experiment.verdict.join defines it: the strongest verdict; among equals the worst grade,
-- then outcome, text and witness in their natural order; the smallest slack that any run came to,
-- and all rows.
WITH placed AS (
    SELECT
        v.requirement, v.broker, v.verdict, v.outcome, v.grade, v.witness, v.text,
        MIN(v.slack_ns) OVER (PARTITION BY v.requirement, v.broker) AS slack_ns,
        SUM(v.decided) OVER (PARTITION BY v.requirement, v.broker) AS decided,
        SUM(v.undecided) OVER (PARTITION BY v.requirement, v.broker) AS undecided,
        ROW_NUMBER() OVER (
            PARTITION BY v.requirement, v.broker
            ORDER BY o.rank DESC, g.rank DESC, v.outcome, v.text, v.witness
        ) AS place
    FROM verdicts v
    JOIN verdict_order o ON o.verdict = v.verdict
    JOIN grade_order g ON g.grade = v.grade
)
SELECT requirement, broker, verdict, outcome, grade, witness, slack_ns, text, decided, undecided
FROM placed
WHERE place = 1
ORDER BY requirement, broker
