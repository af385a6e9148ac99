-- What each broker offered in any run.
SELECT DISTINCT r.broker, c.capability
FROM runs r, LATERAL EXPLODE(r.capabilities) AS c(capability)
ORDER BY r.broker, c.capability
