-- What was run: per broker and world, how many seeds, how many runs gave a result, and how many kept their history.
SELECT
    broker, world,
    COUNT(*) AS runs,
    COUNT(DISTINCT seed) AS seeds,
    COUNT(NULLIF(program, '')) AS judged,
    COUNT(header) AS kept,
    SUM(events) AS events,
    ARRAY_SORT(ARRAY_DISTINCT(FLATTEN(COLLECT_SET(capabilities)))) AS capabilities
FROM runs
GROUP BY broker, world
ORDER BY broker, world
