-- Which failures are the same, and which is the smallest program of each?
SELECT broker, signature, requirement, outcome, MIN(steps) AS steps, ARG_MIN(features, steps) AS features,
    MIN(first_campaign) AS first_campaign, MAX(last_campaign) AS last_campaign
FROM failures
GROUP BY ALL
ORDER BY last_campaign DESC, requirement
