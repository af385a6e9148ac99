-- What each column says of itself.
SELECT
    broker, mutant,
    COUNT(DISTINCT run) AS runs,
    SUM(events) AS events,
    SUM(steps) AS steps,
    SUM(took_us) AS took_us
FROM runs
GROUP BY broker, mutant
ORDER BY broker
