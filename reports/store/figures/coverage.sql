-- How much was met after how many runs?
WITH placed AS (
    SELECT broker, run, world, ROW_NUMBER() OVER (ORDER BY seed, run) AS place FROM runs WHERE campaign = $campaign
), met AS (
    SELECT 'requirements' AS what, requirement AS name, place
    FROM verdicts JOIN placed USING (broker, run, world)
    WHERE campaign = $campaign AND verdict IN ('satisfied', 'violated')
    UNION ALL
    SELECT 'situations', requirement || situation, place
    FROM (SELECT broker, run, world, requirement, UNNEST(situations) AS situation FROM verdicts WHERE campaign = $campaign)
    JOIN placed USING (broker, run, world)
), firsts AS (
    SELECT what, name, MIN(place) AS place FROM met GROUP BY ALL
)
SELECT what, place, SUM(COUNT(*)) OVER (PARTITION BY what ORDER BY place) AS met
FROM firsts
GROUP BY what, place
ORDER BY what, place
