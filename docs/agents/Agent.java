// A template of an agent (docs/agents.md): one host that speaks STOMP 1.2, on the JDK alone (17 or newer).
// javac -d build docs/agents/Agent.java && brokerproof agent check java -cp build Agent
import java.io.*;
import java.net.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.regex.*;
import java.util.zip.CRC32;

public final class Agent {
    record Waiter(Map<String, Object> request, Map<String, Object> stamps) {}

    // What each request may say; anything else is refused rather than passed over.
    static final Map<String, String> KNOWN = Map.ofEntries(
        Map.entry("hello", ""), Map.entry("quit", ""), Map.entry("counters", "dest"), Map.entry("leave", "consumer how"),
        Map.entry("connect", "url heartbeat_ms login passcode virtual_host versions"),
        Map.entry("send", "dest message ttl_ms delay_ms persistent priority size stamp kind group tx"),
        Map.entry("subscribe", "dest consumer prefetch dispatch ack selector"),
        Map.entry("ack", "consumer messages mode tx"), Map.entry("nack", "consumer messages"),
        Map.entry("begin", "tx"), Map.entry("commit", "tx"), Map.entry("abort", "tx"));
    static final Map<String, String> ACKS = Map.of("auto", "auto", "client", "client", "individual", "client-individual");
    static final Pattern BODY = Pattern.compile("(\\S+)\\n\\.*");
    static final Timer TIMER = new Timer(true);
    static final Object LOCK = new Object(); // everything below, and standard output
    static final Map<String, Waiter> waiting = new HashMap<>();
    static final Map<String, String> held = new HashMap<>();
    static Socket socket;
    static int receipts;
    static long now() { return System.nanoTime(); } // CLOCK_MONOTONIC on Linux, which nobody fakes
    static void reply(Map<String, Object> request, String kind, Object value, Map<String, Object> stamps) {
        long before = now(), wallMs = System.currentTimeMillis(), after = now();
        Map<String, Object> line = object("id", request.get("id"), "t0", request.get("t0"), "t1", now(),
            "wall_ms", wallMs, "wall_at", List.of(before, after), kind, value);
        if (stamps != null) line.put("stamps", stamps);
        say(line);
    }
    static void fail(Map<String, Object> request, String code, String text) {
        reply(request, "fail", object("code", code, "text", text), null);
    }

    // -- STOMP
    static void write(String command, Map<String, Object> headers, String body) {
        StringBuilder frame = new StringBuilder(command).append('\n');
        headers.forEach((name, value) -> {
            String said = "" + value; // STOMP 1.2: CONNECT alone is not escaped
            if (!command.equals("CONNECT")) {
                said = said.replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n").replace(":", "\\c");
            }
            frame.append(name).append(':').append(said).append('\n');
        });
        try {
            socket.getOutputStream().write((frame + "\n" + body + "\0").getBytes(StandardCharsets.UTF_8));
        } catch (IOException error) {
            // The reader finds the end of the stream.
        }
    }
    static void await(Map<String, Object> request, String name, Map<String, Object> stamps) {
        Waiter mine = new Waiter(request, stamps);
        waiting.put(name, mine);
        TIMER.schedule(new TimerTask() {
            @Override public void run() {
                synchronized (LOCK) {
                    if (waiting.get(name) == mine) settle(name, "unknown", "no answer in time");
                }
            }
        }, number(request.get("deadline_ms"), 0));
    }
    static void settle(String name, String kind, Object value) {
        Waiter one = waiting.remove(name);
        if (one == null) return;
        boolean stamped = one.stamps != null && kind.equals("ok");
        reply(one.request, kind, stamped ? one.stamps : value, kind.equals("unknown") ? one.stamps : null);
    }
    // The request is answered when the receipt for this frame comes.
    static void ask(Map<String, Object> request, String command, Map<String, Object> headers, String body, Map<String, Object> stamps) {
        String receipt = "r" + ++receipts;
        headers.put("receipt", receipt);
        await(request, receipt, stamps);
        write(command, headers, body);
    }
    static Socket forget() {
        Socket gone = socket;
        socket = null;
        held.clear();
        for (String name : new ArrayList<>(waiting.keySet())) settle(name, "unknown", "the connection ended");
        return gone;
    }
    // Reads one connection to its end. What comes was not there when the socket was last seen to be empty.
    static void listen(Socket mine) {
        ByteArrayOutputStream frame = new ByteArrayOutputStream();
        byte[] part = new byte[65536];
        long empty = now();
        try {
            InputStream in = mine.getInputStream();
            for (int size; ; ) {
                long before = now();
                if (in.available() == 0) empty = before;
                if ((size = in.read(part)) < 0) throw new IOException("the broker closed the connection");
                synchronized (LOCK) {
                    if (mine != socket) return; // this end closed it
                    frame.write(part, 0, size);
                    byte[] rest = take(frame.toByteArray(), empty);
                    frame.reset();
                    frame.write(rest);
                }
            }
        } catch (IOException error) {
            synchronized (LOCK) {
                if (mine != socket) return;
                boolean connecting = waiting.containsKey("connect");
                forget();
                if (connecting) return;
                say(object("event", "closed", "who", "broker", "reason", error.getMessage(), "t0", empty, "t1", now()));
            }
        }
    }
    // Handles every whole frame; what is left of the bytes.
    static byte[] take(byte[] bytes, long empty) {
        int start = 0;
        while (true) {
            while (start < bytes.length && (bytes[start] == '\n' || bytes[start] == '\r')) start++; // heart-beats
            int blank = start;
            while (blank + 1 < bytes.length && (bytes[blank] != '\n' || bytes[blank + 1] != '\n')) blank++;
            if (blank + 1 >= bytes.length) break;
            String[] lines = new String(bytes, start, blank - start, StandardCharsets.UTF_8).split("\n");
            Map<String, String> headers = new HashMap<>();
            for (String line : Arrays.copyOfRange(lines, 1, lines.length)) {
                int colon = line.indexOf(':');
                headers.putIfAbsent(plain(line.substring(0, colon)), plain(line.substring(colon + 1)));
            }
            int from = blank + 2, to = from;
            if (headers.containsKey("content-length")) to += Integer.parseInt(headers.get("content-length"));
            else while (to < bytes.length && bytes[to] != 0) to++;
            if (to >= bytes.length) break; // the rest is on its way
            hear(lines[0], headers, Arrays.copyOfRange(bytes, from, to), empty);
            start = to + 1;
        }
        return Arrays.copyOfRange(bytes, start, bytes.length);
    }
    static String plain(String text) {
        return Pattern.compile("\\\\([\\\\rnc])").matcher(text).replaceAll(found -> switch (found.group(1)) {
            case "r" -> "\r";
            case "n" -> "\n";
            case "c" -> ":";
            default -> "\\\\";
        });
    }
    static void hear(String command, Map<String, String> headers, byte[] body, long empty) {
        switch (command) {
            case "CONNECTED" -> settle("connect", "ok", object());
            case "RECEIPT" -> settle(headers.get("receipt-id"), "ok", object());
            case "ERROR" -> settle(headers.getOrDefault("receipt-id", "connect"), "fail",
                object("code", headers.getOrDefault("code", "refused"), "text", headers.getOrDefault("message", "")));
            case "MESSAGE" -> {
                Matcher token = BODY.matcher(new String(body, StandardCharsets.UTF_8));
                String message = token.matches() ? token.group(1) : "", consumer = headers.get("subscription");
                held.put(consumer + " " + message, headers.get("ack"));
                say(object("event", "arrive", "consumer", consumer, "message", message, "t0", empty, "t1", now(),
                    "body", crc(body), "kind", headers.get("kind"), "group", headers.get("JMSXGroupID"),
                    "redelivered", "true".equals(headers.get("redelivered")),
                    "persistent", "true".equals(headers.get("persistent")),
                    "expiration_ms", Long.valueOf(headers.getOrDefault("expires", "0")),
                    "timestamp_ms", Long.valueOf(headers.getOrDefault("timestamp", "0")),
                    "priority", Long.valueOf(headers.getOrDefault("priority", "4"))));
            }
            default -> { }
        }
    }
    static long crc(byte[] body) {
        CRC32 sum = new CRC32();
        sum.update(body);
        return sum.getValue();
    }

    // -- requests
    static void perform(Map<String, Object> request) throws IOException {
        String what = text(request.get("do"));
        switch (what) {
            case "hello" -> reply(request, "ok", object("agent", "stomp-java/1", "protocol", 1, "capabilities",
                List.of("ttl", "delay", "prefetch", "nack", "transactions", "groups", "selectors")), null);
            case "counters" -> reply(request, "ok", object(), null);
            case "quit" -> {
                if (socket != null) {
                    write("DISCONNECT", object(), "");
                    forget().close();
                }
                reply(request, "ok", object(), null);
                System.exit(0);
            }
            case "connect" -> connect(request);
            default -> {
                if (socket == null) fail(request, "not-connected", "there is no connection");
                else performConnected(what, request);
            }
        }
    }
    static void connect(Map<String, Object> request) {
        if (socket != null) {
            fail(request, "connected", "there is a connection");
            return;
        }
        URI url = URI.create(text(request.get("url")));
        try {
            socket = new Socket(url.getHost(), url.getPort());
            socket.setTcpNoDelay(true);
        } catch (IOException error) {
            fail(request, "refused", String.valueOf(error.getMessage()));
            return;
        }
        Map<String, Object> headers = object("accept-version", "1.2", "host", "localhost");
        put(headers, "host", request.get("virtual_host"));
        put(headers, "login", request.get("login"));
        put(headers, "passcode", request.get("passcode"));
        await(request, "connect", null);
        write("CONNECT", headers, "");
        Socket mine = socket;
        Thread reader = new Thread(() -> listen(mine));
        reader.setDaemon(true);
        reader.start();
    }
    static void performConnected(String what, Map<String, Object> request) throws IOException {
        Map<String, Object> headers = object();
        put(headers, "transaction", request.get("tx"));
        switch (what) {
            case "send" -> send(request, headers);
            case "subscribe" -> {
                headers = object("id", text(request.get("consumer")), "destination", address(request), "ack",
                    ACKS.getOrDefault(text(request.get("ack")), "client"));
                if (request.get("prefetch") != null) headers.put("activemq.prefetchSize", request.get("prefetch"));
                if ("sync".equals(request.get("dispatch"))) headers.put("activemq.dispatchAsync", false);
                put(headers, "selector", request.get("selector"));
                ask(request, "SUBSCRIBE", headers, "", null);
            }
            case "ack", "nack" -> settlement(what, request, headers);
            case "leave" -> {
                if (!text(request.get("consumer")).isEmpty()) {
                    write("UNSUBSCRIBE", object("id", text(request.get("consumer"))), "");
                } else {
                    if ("close".equals(request.get("how"))) write("DISCONNECT", headers, "");
                    else socket.setSoLinger(true, 0); // the socket vanishes
                    forget().close();
                }
                reply(request, "ok", object(), null);
            }
            default -> ask(request, what.toUpperCase(), headers, "", null); // begin, commit, abort
        }
    }
    static void send(Map<String, Object> request, Map<String, Object> headers) {
        String body = text(request.get("message")) + "\n", stamp = text(request.get("stamp"));
        body += ".".repeat((int) Math.max(0, number(request.get("size"), 0) - body.length()));
        long wallMs = System.currentTimeMillis(), ttlMs = number(request.get("ttl_ms"), 0), delayMs = number(request.get("delay_ms"), 0);
        Long timestamp = stamp.equals("none") ? null : stamp.equals("zero") ? (Long) 0L : (Long) wallMs;
        Map<String, Object> stamps = object("expiration_ms", ttlMs == 0 ? 0 : wallMs + ttlMs, "timestamp_ms", timestamp);
        stamps.put("body", crc(body.getBytes(StandardCharsets.UTF_8)));
        headers.putAll(object("destination", address(request), "content-length", body.length()));
        headers.put("persistent", !Boolean.FALSE.equals(request.get("persistent")));
        headers.put("priority", number(request.get("priority"), 4));
        if (ttlMs != 0) headers.put("expires", wallMs + ttlMs);
        if (timestamp != null) headers.put("timestamp", timestamp);
        if (delayMs != 0) headers.put("AMQ_SCHEDULED_DELAY", delayMs);
        put(headers, "kind", request.get("kind"));
        put(headers, "JMSXGroupID", request.get("group"));
        ask(request, "SEND", headers, body, stamps);
    }
    static void settlement(String what, Map<String, Object> request, Map<String, Object> headers) {
        List<String> ids = new ArrayList<>();
        List<?> messages = request.get("messages") instanceof List<?> found ? found : List.of();
        for (Object message : messages) ids.add(held.get(text(request.get("consumer")) + " " + message));
        if (ids.isEmpty() || ids.contains(null)) {
            fail(request, "unknown-message", "not all of " + messages + " came to " + request.get("consumer"));
            return;
        }
        if (what.equals("ack") && !"individual".equals(request.get("mode"))) ids = ids.subList(ids.size() - 1, ids.size());
        for (int at = 0; at < ids.size(); at++) {
            headers.put("id", ids.get(at));
            if (at + 1 < ids.size()) write(what.toUpperCase(), headers, "");
            else ask(request, what.toUpperCase(), headers, "", null);
        }
    }
    static String address(Map<String, Object> request) {
        return text(request.get("dest")).replaceFirst("^(queue|topic)://", "/$1/");
    }
    public static void main(String[] words) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            @SuppressWarnings("unchecked")
            Map<String, Object> request = (Map<String, Object>) new Json(line).value();
            request.put("t0", now());
            String fields = KNOWN.get(text(request.get("do")));
            List<String> strange = new ArrayList<>(request.keySet());
            strange.removeIf(name -> List.of("", "0", "false", "null", "[]", "{}").contains("" + request.get(name))
                || (" id do t0 deadline_ms " + fields + " ").contains(" " + name + " "));
            synchronized (LOCK) {
                if (fields == null) fail(request, "unsupported", "this agent cannot " + request.get("do"));
                else if (!strange.isEmpty()) fail(request, "unsupported", "this agent knows no " + strange);
                else perform(request);
            }
        }
    }

    // -- values
    static String text(Object value) { return value instanceof String found ? found : ""; }
    static long number(Object value, long otherwise) { return value instanceof Number found ? found.longValue() : otherwise; }
    static void put(Map<String, Object> headers, String name, Object value) {
        if (!text(value).isEmpty()) headers.put(name, value);
    }
    static Map<String, Object> object(Object... pairs) {
        Map<String, Object> made = new LinkedHashMap<>();
        for (int at = 0; at < pairs.length; at += 2) made.put((String) pairs[at], pairs[at + 1]);
        return made;
    }

    static void say(Map<String, Object> line) {
        byte[] text = (Json.of(line) + "\n").getBytes(StandardCharsets.UTF_8);
        System.out.write(text, 0, text.length);
        System.out.flush();
    }

    // The JDK has no JSON of its own.
    static final class Json {
        private static final Pattern TOKEN = Pattern.compile("\\s*([{}\\[\\]:,]|\"(?:[^\"\\\\]|\\\\.)*\"|[^\\s{}\\[\\]:,]+)");
        private final Matcher tokens;
        Json(String text) { tokens = TOKEN.matcher(text); }
        private String next() {
            if (!tokens.find()) throw new IllegalArgumentException("a request ends before its end");
            return tokens.group(1);
        }
        Object value() { return value(next()); }
        private Object value(String token) {
            switch (token.charAt(0)) {
                case '{' -> {
                    Map<String, Object> found = new LinkedHashMap<>();
                    for (String name; !(name = next()).equals("}"); ) {
                        if (name.equals(",")) continue;
                        next(); // the colon
                        found.put(quoted(name), value(next()));
                    }
                    return found;
                }
                case '[' -> {
                    List<Object> found = new ArrayList<>();
                    for (String one; !(one = next()).equals("]"); ) if (!one.equals(",")) found.add(value(one));
                    return found;
                }
                case '"' -> { return quoted(token); }
                case 't', 'f' -> { return token.equals("true"); }
                case 'n' -> { return null; }
                default -> { return token.matches("-?\\d+") ? (Object) Long.valueOf(token) : (Object) Double.valueOf(token); }
            }
        }
        private static String quoted(String token) {
            return Pattern.compile("\\\\(u[0-9a-fA-F]{4}|.)").matcher(token.substring(1, token.length() - 1)).replaceAll(found -> {
                String one = found.group(1);
                int place = "bfnrt".indexOf(one);
                char said = one.length() > 1 ? (char) Integer.parseInt(one.substring(1), 16)
                    : place < 0 ? one.charAt(0) : "\b\f\n\r\t".charAt(place);
                return Matcher.quoteReplacement("" + said);
            });
        }
        static String of(Object value) {
            List<String> parts = new ArrayList<>();
            if (value instanceof Map<?, ?> map) {
                map.forEach((name, one) -> parts.add(of(name) + ":" + of(one)));
                return "{" + String.join(",", parts) + "}";
            }
            if (value instanceof List<?> list) {
                list.forEach(one -> parts.add(of(one)));
                return "[" + String.join(",", parts) + "]";
            }
            if (!(value instanceof String text)) return String.valueOf(value);
            StringBuilder said = new StringBuilder("\"");
            text.chars().forEach(one -> {
                if (one < ' ' || one == '"' || one == '\\') said.append(String.format("\\u%04x", one));
                else said.append((char) one);
            });
            return said.append('"').toString();
        }
    }
}
