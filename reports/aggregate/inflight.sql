-- INF-001 judged a second time, from the events alone: at rest, the in-flight count of a queue equals the messages that
-- arrived at consumers still open and are not settled. Deliveries in doubt widen the count to a range; inside a range
-- nothing is claimed.
--
-- In doubt: a settlement that failed, is unknown or belongs to a transaction; what a library settles by itself; an
-- expired-ack of a broker that keeps such messages; everything at a consumer whose subscription was never confirmed, or
-- whose goodbye was refused. Consumers for which the broker settles as it writes (STOMP's auto) hold nothing. A read that
-- took time, on a queue where a timer may act, is never called violated.
--
-- Left out, whole runs: networks of brokers, transactions, operators, browsers, wildcard consumers, restarts of the broker, and operations of
-- several hosts at once, where a message may come back before its settlement is known. What these do to the count is told
-- by rules of their own; a second copy of all that would be no second opinion.
--
-- Few joins on purpose: planning, not data, is what this query costs.
WITH operations AS (
    SELECT
        run, t0_ns,
        MAX(t1_ns) OVER (PARTITION BY run ORDER BY t0_ns, seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS until_ns
    FROM events
    WHERE kind IN ('send', 'subscribe', 'ack', 'nack') OR (kind = 'leave' AND how = 'close')
),
beyond AS (
    SELECT run FROM operations WHERE t0_ns < until_ns
    UNION
    SELECT run
    FROM events
    WHERE kind IN ('begin', 'commit', 'abort', 'operate', 'browse') OR fault = 'restart'
        OR (kind = 'subscribe' AND (browser OR dest LIKE '%*'))
),
context AS (
    SELECT
        run, broker,
        GET_JSON_OBJECT(header, '$.broker_host') AS broker_host,
        COALESCE(
            GET_JSON_OBJECT(header, '$.declared.generation.expiry'),
            CASE WHEN world = 'simulated' THEN 'classic-5.14' END
        ) = 'classic-5.14' AS expired_ack_settles,
        COALESCE(
            CAST(GET_JSON_OBJECT(header, '$.declared.timestamping.zero_expiration_override_ms') AS BIGINT), 0
        ) > 0 AS stamps_expiry,
        -- Nobody waits for memory in the generation "fair", which is the reference broker's own.
        COALESCE(
            GET_JSON_OBJECT(header, '$.declared.generation.memory'), CASE WHEN world = 'simulated' THEN 'fair' END, ''
        ) <> 'fair'
        OR COALESCE(CAST(GET_JSON_OBJECT(header, '$.declared.store_limit_bytes') AS BIGINT), 0) > 0
        OR COALESCE(CAST(GET_JSON_OBJECT(header, '$.declared.temp_limit_bytes') AS BIGINT), 0) > 0 AS producers_wait,
        TRANSFORM(
            FILTER(
                FROM_JSON(GET_JSON_OBJECT(header, '$.destinations'), 'ARRAY<STRUCT<name: STRING, kind: STRING>>'),
                one -> one.kind IN ('topic', 'virtual')
            ),
            one -> one.name
        ) AS topics
    FROM runs
    LEFT ANTI JOIN beyond USING (run)
    WHERE header IS NOT NULL AND GET_JSON_OBJECT(header, '$.at') IS NULL
),
reads AS (
    SELECT run, seq, dest, in_flight, t1_ns > t0_ns AS took_time, a_timer_at
    FROM (
        SELECT
            *,
            -- The first message of this queue that a timer can touch; one that the broker itself may give an expiration
            -- counts as well, which the run's settings decide further down.
            MIN(CASE WHEN kind = 'send' AND (expiration_ms > 0 OR delay_ms > 0 OR deliver_at_ms IS NOT NULL) THEN seq END)
                OVER (PARTITION BY run, dest) AS a_timer_at
        FROM events JOIN context USING (run)
        WHERE kind IN ('send', 'counters') AND dest IS NOT NULL AND NOT COALESCE(ARRAY_CONTAINS(topics, dest), FALSE)
    )
    WHERE kind = 'counters' AND at_rest AND in_flight IS NOT NULL
),
first_sends AS (
    SELECT run, dest, MIN(seq) AS sent_at
    FROM events
    WHERE kind = 'send'
    GROUP BY run, dest
),
-- A consumer exists from its first arrival or unrefused subscription on; the first such subscription says what it asked for.
consumers AS (
    SELECT
        run, consumer,
        MIN(CASE WHEN kind <> 'leave' THEN seq END) AS first_seq,
        MIN(CASE WHEN kind = 'subscribe' THEN seq END) AS subscribed_at,
        MIN(CASE WHEN kind = 'arrive' THEN seq END) AS arrived_at,
        MIN_BY(host, CASE WHEN kind <> 'leave' THEN seq END) AS host,
        MIN_BY(dest, CASE WHEN kind <> 'leave' THEN seq END) AS dest,
        MIN_BY(result, CASE WHEN kind = 'subscribe' THEN seq END) AS result,
        MIN_BY(prefetch, CASE WHEN kind = 'subscribe' THEN seq END) AS prefetch,
        MIN_BY(ack, CASE WHEN kind = 'subscribe' THEN seq END) AS ack,
        COUNT(CASE WHEN kind = 'leave' AND result = 'fail' THEN 1 END) > 0 AS refused
    FROM events
    WHERE kind IN ('arrive', 'subscribe', 'leave') AND consumer IS NOT NULL
        AND NOT (kind = 'subscribe' AND result = 'fail')
    GROUP BY run, consumer
),
-- What a host does after a send that got no answer, the broker may not have read where it may make that send wait.
told AS (
    SELECT
        *,
        LAST_VALUE(CASE
            WHEN kind IN ('connect', 'subscribe') THEN FALSE
            WHEN kind = 'send' THEN result = 'unknown'
        END, TRUE) OVER (PARTITION BY run, host ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS unanswered
    FROM events
),
-- What happened to its host and to the broker: how it is connected, and what ended it. The goodbye of a consumer whose
-- subscription neither an answer nor an arrival confirmed ends nothing for certain: both may still be on their way.
passings AS (
    SELECT
        c.run, c.consumer, c.dest, c.first_seq, c.subscribed_at, c.result, c.prefetch, c.ack, c.refused,
        x.expired_ack_settles,
        MAX_BY(h.traits, CASE WHEN h.kind = 'connect' AND h.seq < c.first_seq THEN h.seq END) AS traits,
        MIN(CASE WHEN h.kind <> 'connect' AND h.seq > c.first_seq THEN h.seq END) AS end_seq,
        MAX(CASE WHEN h.kind = 'connect' AND h.result = 'ok' AND h.seq < c.first_seq THEN h.seq END) AS connected_at,
        MIN_BY(h.unanswered AND x.producers_wait, CASE WHEN h.kind <> 'connect' AND h.seq > c.first_seq THEN h.seq END)
            AS unread,
        MAX(CASE WHEN h.kind <> 'connect' AND h.consumer IS NULL AND h.seq < c.first_seq THEN h.seq END) AS cut_at
    FROM consumers c
    JOIN context x ON x.run = c.run
    LEFT JOIN told h ON h.run = c.run AND (
        (h.kind = 'connect' AND h.host = c.host)
        OR (h.kind = 'leave' AND h.result <> 'fail' AND h.consumer = c.consumer
            AND (COALESCE(c.result, 'ok') = 'ok' OR c.arrived_at < h.seq))
        OR (h.kind = 'leave' AND h.consumer IS NULL AND h.host = c.host)
        OR (h.kind = 'closed' AND (h.host = c.host OR (h.host = x.broker_host AND h.link = c.host)))
        OR (h.kind IN ('stop', 'kill') AND h.target = c.host)
        OR (h.kind IN ('start', 'stop', 'kill') AND h.target = x.broker_host)
    )
    WHERE c.first_seq IS NOT NULL
    GROUP BY
        c.run, c.consumer, c.dest, c.first_seq, c.subscribed_at, c.result, c.prefetch, c.ack, c.refused,
        x.expired_ack_settles
),
-- A subscription that was never confirmed, asked for on a connection that had ended by then, ended with it.
states AS (
    SELECT
        run, consumer, dest, first_seq, result, prefetch, ack, expired_ack_settles, traits,
        refused OR COALESCE(unread, FALSE) AS refused,
        CASE
            WHEN unread THEN NULL
            WHEN result <> 'ok' AND subscribed_at = first_seq AND cut_at > COALESCE(connected_at, 0) THEN first_seq
            ELSE end_seq
        END AS end_seq
    FROM passings
),
-- Everything that one consumer and one message have to do with each other; each arrival opens a new turn. What was settled
-- had arrived before that was begun: it may be back before the settlement is known.
turns AS (
    SELECT
        run, consumer, message, seq, kind, result, tx,
        COUNT(CASE WHEN kind = 'arrive' THEN 1 END) OVER (PARTITION BY run, consumer, message ORDER BY t0_ns, seq) AS turn
    FROM (
        SELECT e.run, e.consumer, m.message, e.seq, e.t0_ns, e.kind, e.result, e.tx
        FROM events e, LATERAL EXPLODE(COALESCE(e.messages, ARRAY(e.message))) AS m(message)
        WHERE e.kind IN ('arrive', 'consume', 'discard', 'ack', 'nack')
    )
),
deliveries AS (
    SELECT
        run, consumer, message, turn,
        MIN(CASE WHEN kind = 'arrive' THEN seq END) AS arrived_at,
        MIN(CASE WHEN kind = 'consume' THEN seq END) AS consumed_at,
        MIN(CASE WHEN kind = 'discard' THEN seq END) AS discarded_at,
        MIN(CASE WHEN kind IN ('ack', 'nack') AND result = 'ok' AND tx IS NULL THEN seq END) AS settled_at,
        MIN(CASE WHEN kind IN ('ack', 'nack') THEN seq END) AS tried_at
    FROM turns
    WHERE turn > 0
    GROUP BY run, consumer, message, turn
),
-- At a read: is this delivery settled for certain, in doubt, or held? Sequence numbers that do not exist count as later.
windows AS (
    SELECT
        r.run, r.seq, f.consumer, f.prefetch,
        f.ack = 'auto' AND COALESCE(GET_JSON_OBJECT(f.traits, '$.settles_on_write') = 'true', FALSE) AS holds_nothing,
        f.result = 'ok' AND NOT f.refused AS known,
        d.arrived_at IS NOT NULL AS arrived,
        COALESCE(d.settled_at < r.seq, FALSE) OR COALESCE(d.discarded_at < r.seq AND f.expired_ack_settles, FALSE) AS settled,
        COALESCE(d.tried_at < r.seq, FALSE) OR COALESCE(d.discarded_at < r.seq, FALSE)
            OR COALESCE(f.ack = 'auto' AND (f.traits IS NULL OR d.consumed_at < r.seq), FALSE) AS doubtful
    FROM reads r
    JOIN states f ON f.run = r.run AND f.dest = r.dest AND f.first_seq < r.seq AND (f.end_seq IS NULL OR f.end_seq > r.seq)
    LEFT JOIN deliveries d ON d.run = f.run AND d.consumer = f.consumer AND d.arrived_at < r.seq
),
counted AS (
    SELECT
        run, seq, consumer, prefetch, holds_nothing, known,
        COUNT(CASE WHEN arrived AND NOT settled AND NOT doubtful THEN 1 END) AS held,
        COUNT(CASE WHEN arrived AND NOT settled AND doubtful THEN 1 END) AS doubted
    FROM windows
    GROUP BY run, seq, consumer, prefetch, holds_nothing, known
),
bounds AS (
    SELECT
        run, seq,
        SUM(CASE WHEN holds_nothing IS TRUE OR known IS NOT TRUE THEN 0 ELSE held END) AS low,
        SUM(CASE
            WHEN holds_nothing IS TRUE THEN 0
            WHEN known IS TRUE THEN held + doubted
            ELSE GREATEST(COALESCE(prefetch, 1000000000), held + doubted)
        END) AS high
    FROM counted
    GROUP BY run, seq
),
judged AS (
    SELECT
        x.run, x.broker, r.seq,
        CASE
            WHEN r.seq IS NULL THEN 'not exercised'
            WHEN r.in_flight BETWEEN COALESCE(b.low, 0) AND COALESCE(b.high, 0)
                THEN CASE WHEN COALESCE(b.low, 0) = COALESCE(b.high, 0) THEN 'satisfied' ELSE 'not exercised' END
            WHEN r.took_time AND (r.a_timer_at < r.seq OR (x.stamps_expiry AND s.sent_at < r.seq)) THEN 'inconclusive'
            ELSE 'violated'
        END AS verdict
    FROM context x
    LEFT JOIN reads r ON r.run = x.run
    LEFT JOIN first_sends s ON s.run = r.run AND s.dest = r.dest
    LEFT JOIN bounds b ON b.run = r.run AND b.seq = r.seq
),
joined AS (
    SELECT j.run, j.broker, MAX_BY(j.verdict, o.rank) AS verdict, COUNT(j.seq) AS reads
    FROM judged j
    JOIN verdict_order o ON o.verdict = j.verdict
    GROUP BY j.run, j.broker
)
SELECT j.run, j.broker, j.verdict, j.reads, COALESCE(v.verdict, 'not exercised') AS rule_verdict, v.undecided AS rule_undecided
FROM joined j
LEFT JOIN verdicts v ON v.run = j.run AND v.broker = j.broker AND v.requirement = 'INF-001'
ORDER BY j.broker, j.run
