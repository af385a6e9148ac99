-- How long had an end heard nothing when it closed a link for inactivity, and what had it agreed to, in ms?
SELECT e.who, e.idle_ns / 1e6 AS idle, CAST(JSON_EXTRACT(r.header, '$.declared.monitor.' || e.link || '.read_ms') AS BIGINT) AS period
FROM events e
JOIN runs r USING (campaign, broker, run)
WHERE campaign = $campaign AND e.kind = 'closed' AND e.idle_ns IS NOT NULL AND e.reason ILIKE '%inactiv%' AND period > 0
ORDER BY HASH(e.run, e.seq)
LIMIT 3000
