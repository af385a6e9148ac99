-- What does every requirement come to on every broker, over all campaigns?
SELECT
    v.requirement, v.broker,
    ARG_MAX(v.verdict, o.rank) AS verdict,
    COUNT(*) AS runs,
    COUNT(*) FILTER (v.verdict = 'violated') AS violated,
    COUNT(*) FILTER (v.verdict = 'satisfied') AS satisfied,
    COUNT(*) FILTER (v.verdict = 'inconclusive') AS inconclusive
FROM verdicts v
JOIN verdict_order o USING (verdict)
GROUP BY ALL
ORDER BY v.requirement, v.broker
