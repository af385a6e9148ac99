-- Which situations of the catalogue were met, in how many runs, and which never?
SELECT s.requirement, s.situation, COUNT(v.run) AS runs
FROM (SELECT DISTINCT requirement, situation FROM situations) s
LEFT JOIN (SELECT requirement, run, UNNEST(situations) AS situation FROM verdicts) v USING (requirement, situation)
GROUP BY ALL
ORDER BY runs, s.requirement, s.situation
