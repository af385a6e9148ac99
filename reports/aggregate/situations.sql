-- In how many runs of a cell each situation was met.
SELECT v.requirement, v.broker, s.situation, COUNT(*) AS runs
FROM verdicts v, LATERAL EXPLODE(v.situations) AS s(situation)
GROUP BY v.requirement, v.broker, s.situation
ORDER BY v.requirement, v.broker, s.situation
