-- After how many programs did each planted defect violate something? In this campaign of trials, else in all of the store.
WITH placed AS (
    SELECT campaign, broker, run, world, mutant, ROW_NUMBER() OVER (PARTITION BY campaign ORDER BY seed, run) AS place
    FROM runs
    WHERE mutant IS NOT NULL
), violating AS (
    SELECT DISTINCT campaign, broker, run, world FROM verdicts WHERE verdict = 'violated'
)
SELECT mutant, programs, killed FROM trials WHERE campaign = $campaign
UNION ALL
SELECT mutant, COALESCE(MIN(place) FILTER (v.run IS NOT NULL), MAX(place)) AS programs, COUNT(v.run) > 0 AS killed
FROM placed p
LEFT JOIN violating v USING (campaign, broker, run, world)
WHERE NOT EXISTS (SELECT * FROM trials WHERE campaign = $campaign)
GROUP BY campaign, mutant
ORDER BY programs
