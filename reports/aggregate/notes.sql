-- Runs in which the suite failed, and runs that did not happen.
SELECT broker, run, problem, not_run
FROM runs
WHERE problem <> '' OR not_run <> ''
ORDER BY broker, run
