-- Runs in which the suite failed, and runs that did not happen: the first of them, and how many there are.
SELECT broker, run, problem, not_run, COUNT(*) OVER () AS total
FROM runs
WHERE problem <> '' OR not_run <> ''
ORDER BY broker, run
LIMIT 20
