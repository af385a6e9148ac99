-- Every situation that any run of a cell met.
SELECT DISTINCT v.requirement, v.broker, s.situation
FROM verdicts v, LATERAL EXPLODE(v.situations) AS s(situation)
ORDER BY v.requirement, v.broker, s.situation
