-- What was run, and what did it cost?
SELECT campaign, kind, state, seed, programs, mutant, runs, processor_us / 1e6 AS processor_s, left(digest, 19) AS digest
FROM campaigns
ORDER BY campaign DESC
