-- Runs per requirement, broker, world and verdict. A run says one thing about a requirement, so rows are runs.
SELECT requirement, broker, world, verdict, COUNT(DISTINCT run) AS runs
FROM verdicts
GROUP BY requirement, broker, world, verdict
ORDER BY requirement, broker, world, verdict
