-- Which programs have said different things about a requirement on the same broker?
SELECT broker, world, requirement, r.program, LIST_SORT(LIST(DISTINCT verdict)) AS verdicts, COUNT(*) AS runs
FROM verdicts v
JOIN runs r USING (campaign, broker, run, world)
WHERE r.program <> ''
GROUP BY ALL
HAVING COUNT(DISTINCT verdict) > 1
ORDER BY broker, requirement
