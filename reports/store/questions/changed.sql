-- What changed from the last campaign but one to the last, on the same broker?
WITH cells AS (
    SELECT v.campaign, v.broker, v.requirement, ARG_MAX(v.verdict, o.rank) AS verdict
    FROM verdicts v JOIN verdict_order o USING (verdict)
    GROUP BY ALL
), placed AS (
    SELECT *, DENSE_RANK() OVER (PARTITION BY broker ORDER BY campaign DESC) AS age FROM cells
)
SELECT
    COALESCE(a.broker, b.broker) AS broker, COALESCE(a.requirement, b.requirement) AS requirement,
    COALESCE(b.verdict, 'not exercised') AS before, COALESCE(a.verdict, 'not exercised') AS now
FROM (SELECT * FROM placed WHERE age = 1) a
FULL JOIN (SELECT * FROM placed WHERE age = 2) b ON a.broker = b.broker AND a.requirement = b.requirement
WHERE a.verdict IS DISTINCT FROM b.verdict
    AND COALESCE(a.broker, b.broker) IN (SELECT broker FROM placed WHERE age = 2)
ORDER BY 1, 2
