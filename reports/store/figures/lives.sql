-- What became of messages with an expiration, by the life that the broker's clock left them at their acceptance, in ms?
WITH sent AS (
    SELECT broker, run, message, expiration_ms, latest_ns
    FROM facts
    WHERE campaign = $campaign AND kind = 'send' AND state = 'confirmed' AND expiration_ms > 0 AND COALESCE(delay_ms, 0) = 0
), clocks AS (
    SELECT f.broker, f.run, f.earliest_ns, f.wall_ms - (f.earliest_ns + f.latest_ns) / 2e6 AS offset_ms
    FROM facts f JOIN runs r ON r.campaign = f.campaign AND r.broker = f.broker AND r.run = f.run
    WHERE f.campaign = $campaign AND f.kind = 'clock' AND f.host = JSON_EXTRACT_STRING(r.header, '$.broker_host')
), given AS (
    SELECT DISTINCT broker, run, message FROM facts
    WHERE campaign = $campaign AND kind = 'delivery' AND dest NOT LIKE 'ActiveMQ.DLQ%'
)
SELECT s.expiration_ms - s.latest_ns / 1e6 - c.offset_ms AS life, g.message IS NOT NULL AS delivered
FROM sent s
ASOF JOIN clocks c ON s.broker = c.broker AND s.run = c.run AND s.latest_ns >= c.earliest_ns
LEFT JOIN given g ON g.broker = s.broker AND g.run = s.run AND g.message = s.message
WHERE ABS(life) < 1e9
ORDER BY HASH(s.run, s.message)
LIMIT 3000
