-- How often did each kind of end of a session bring messages back, and how long had they been out, in ms?
SELECT
    s.broker, s.state AS ended_by,
    COUNT(*) AS returned,
    MEDIAN(s.end_earliest_ns - d.latest_ns) / 1e6 AS median_ms
FROM facts d
JOIN facts s ON s.campaign = d.campaign AND s.broker = d.broker AND s.run = d.run AND s.kind = 'session' AND s.session = d.session
WHERE d.kind = 'delivery' AND d.state = 'returned'
GROUP BY ALL
ORDER BY returned DESC
