-- In how many runs a requirement did not apply.
SELECT n.requirement, r.broker, r.world, COUNT(*) AS runs
FROM runs r, LATERAL EXPLODE(r.not_applicable) AS n(requirement)
GROUP BY n.requirement, r.broker, r.world
ORDER BY n.requirement, r.broker, r.world
