-- What is violated, in how many runs, and since which campaign?
SELECT
    broker, requirement, outcome,
    COUNT(*) AS runs, MIN(campaign) AS first_campaign, MAX(campaign) AS last_campaign,
    ARG_MIN(run, steps) AS shortest, ARG_MIN(text, steps) AS observed
FROM verdicts
WHERE verdict = 'violated'
GROUP BY ALL
ORDER BY broker, requirement, outcome
