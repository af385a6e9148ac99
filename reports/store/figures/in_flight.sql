-- Which in-flight counts were read, while things moved and at rest?
SELECT at_rest, in_flight AS count, COUNT(*) AS readings
FROM facts
WHERE campaign = $campaign AND kind = 'reading' AND in_flight IS NOT NULL
GROUP BY ALL
ORDER BY count
