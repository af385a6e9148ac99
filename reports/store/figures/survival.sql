-- After how many programs did each planted defect violate something? In all campaigns of the store with one.
WITH placed AS (
    SELECT campaign, broker, run, world, mutant, ROW_NUMBER() OVER (PARTITION BY campaign ORDER BY seed, run) AS place
    FROM runs
    WHERE mutant IS NOT NULL
), violating AS (
    SELECT DISTINCT campaign, broker, run, world FROM verdicts WHERE verdict = 'violated'
)
SELECT mutant, COALESCE(MIN(place) FILTER (v.run IS NOT NULL), MAX(place)) AS programs, COUNT(v.run) > 0 AS killed
FROM placed p
LEFT JOIN violating v USING (campaign, broker, run, world)
GROUP BY campaign, mutant
ORDER BY programs
