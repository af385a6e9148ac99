-- Which requirements has no run of any campaign ever exercised?
SELECT r.requirement, ANY_VALUE(r.level) AS level, ARG_MAX(r.sentence, r.campaign) AS sentence
FROM requirements r
WHERE r.status = 'judged' AND r.requirement NOT IN (SELECT requirement FROM verdicts)
GROUP BY r.requirement
ORDER BY r.requirement
