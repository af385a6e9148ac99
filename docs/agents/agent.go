// A template of an agent (docs/agents.md): one host that speaks STOMP 1.2, on Go's standard library alone.
// go build -o my-agent docs/agents/agent.go && brokerproof agent check ./my-agent
package main

// #include <time.h>
// static long long at(int clock) { struct timespec t; clock_gettime(clock, &t); return t.tv_sec * 1000000000LL + t.tv_nsec; }
import "C" // libc's clocks, because Go's own never see the host's faked one

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

type object = map[string]any
type waiter struct{ request, stamps object }

// What each request may say; anything else is refused rather than passed over.
var known = map[string]string{
	"hello": "", "quit": "", "counters": "dest", "leave": "consumer how", "begin": "tx", "commit": "tx", "abort": "tx",
	"connect":   "url heartbeat_ms login passcode virtual_host versions",
	"send":      "dest message ttl_ms delay_ms persistent priority size stamp kind group tx",
	"subscribe": "dest consumer prefetch dispatch ack selector", "ack": "consumer messages mode tx", "nack": "consumer messages",
}
var lock sync.Mutex // everything below, and standard output
var socket net.Conn
var waiting, held, receipts = map[string]waiter{}, map[string]string{}, 0
var quoted = strings.NewReplacer("\\", "\\\\", "\r", "\\r", "\n", "\\n", ":", "\\c")
var plain = strings.NewReplacer("\\\\", "\\", "\\r", "\r", "\\n", "\n", "\\c", ":")
var token = regexp.MustCompile(`^(\S+)\n\.*$`)

func now() int64    { return int64(C.at(C.CLOCK_MONOTONIC)) } // nobody fakes this one
func wallMs() int64 { return int64(C.at(C.CLOCK_REALTIME)) / 1000000 }
func say(line object) {
	text, _ := json.Marshal(line)
	os.Stdout.Write(append(text, '\n'))
}
func reply(request object, kind string, value any, stamps object) {
	before, wall := now(), wallMs()
	line := object{"id": request["id"], "t0": request["t0"], "t1": now(), "wall_ms": wall, "wall_at": []int64{before, now()}, kind: value}
	if stamps != nil {
		line["stamps"] = stamps
	}
	say(line)
}
func fail(request object, code, text string) {
	reply(request, "fail", object{"code": code, "text": text}, nil)
}
func number(value any, otherwise int64) int64 {
	if found, is := value.(json.Number); is {
		otherwise, _ = found.Int64()
	}
	return otherwise
}
func text(value any) string { found, _ := value.(string); return found }
func address(dest any) string {
	return strings.Replace(strings.Replace(text(dest), "queue://", "/queue/", 1), "topic://", "/topic/", 1)
}
func write(command string, headers map[string]string, body string) {
	frame := command + "\n"
	for name, value := range headers {
		if command != "CONNECT" { // STOMP 1.2: CONNECT alone is not escaped
			value = quoted.Replace(value)
		}
		frame += name + ":" + value + "\n"
	}
	socket.Write([]byte(frame + "\n" + body + "\x00"))
}
func await(request object, name string, stamps object) {
	waiting[name] = waiter{request, stamps}
	time.AfterFunc(time.Duration(number(request["deadline_ms"], 0))*time.Millisecond, func() {
		lock.Lock()
		defer lock.Unlock()
		settle(name, "unknown", "no answer in time")
	})
}
func settle(name, kind string, value any) {
	one, there := waiting[name]
	delete(waiting, name)
	if !there {
		return
	}
	if kind == "ok" && one.stamps != nil {
		value = one.stamps
	}
	if kind != "unknown" {
		one.stamps = nil
	}
	reply(one.request, kind, value, one.stamps)
}

// The request is answered when the receipt for this frame comes.
func ask(request object, command string, headers map[string]string, body string, stamps object) {
	receipts++
	headers["receipt"] = fmt.Sprint("r", receipts)
	await(request, headers["receipt"], stamps)
	write(command, headers, body)
}
func forget() (gone net.Conn) {
	gone, socket, held = socket, nil, map[string]string{}
	for name := range waiting {
		settle(name, "unknown", "the connection ended")
	}
	return gone
}

// Reads one connection to its end. What comes was not there when the socket was last seen to be empty.
func listen(mine net.Conn) {
	buffer, part, empty := []byte{}, make([]byte, 65536), now()
	for {
		before := now()
		mine.SetReadDeadline(time.Now().Add(time.Millisecond))
		size, err := mine.Read(part)
		lock.Lock()
		if problem, is := err.(net.Error); is && problem.Timeout() {
			empty = before
		} else if mine != socket {
			lock.Unlock() // this end closed it
			return
		} else if err != nil {
			_, connecting := waiting["connect"]
			if forget(); !connecting {
				say(object{"event": "closed", "who": "broker", "reason": err.Error(), "t0": empty, "t1": now()})
			}
			lock.Unlock()
			return
		}
		for buffer = append(buffer, part[:size]...); mine == socket; {
			buffer = bytes.TrimLeft(buffer, "\r\n") // heart-beats
			head, rest, whole := bytes.Cut(buffer, []byte("\n\n"))
			if !whole {
				break
			}
			lines, headers := strings.Split(string(head), "\n"), map[string]string{}
			for _, line := range lines[1:] {
				name, value, _ := strings.Cut(line, ":")
				if name = plain.Replace(name); headers[name] == "" {
					headers[name] = plain.Replace(value)
				}
			}
			length := bytes.IndexByte(rest, 0)
			if told, err := strconv.Atoi(headers["content-length"]); err == nil {
				length = told
			}
			if length < 0 || length >= len(rest) {
				break // the rest is on its way
			}
			hear(lines[0], headers, rest[:length], empty)
			buffer = rest[length+1:]
		}
		lock.Unlock()
	}
}
func hear(command string, headers map[string]string, body []byte, empty int64) {
	switch command {
	case "CONNECTED":
		settle("connect", "ok", object{})
	case "RECEIPT":
		settle(headers["receipt-id"], "ok", object{})
	case "ERROR":
		name := headers["receipt-id"]
		if name == "" {
			name = "connect"
		}
		settle(name, "fail", object{"code": headers["code"], "text": headers["message"]})
	case "MESSAGE":
		message, consumer := "", headers["subscription"]
		if found := token.FindSubmatch(body); found != nil {
			message = string(found[1])
		}
		held[consumer+" "+message] = headers["ack"]
		line := object{"event": "arrive", "consumer": consumer, "message": message, "t0": empty, "t1": now(), "body": crc32.ChecksumIEEE(body),
			"redelivered": headers["redelivered"] == "true", "persistent": headers["persistent"] == "true",
			"expiration_ms": number(json.Number(headers["expires"]), 0), "timestamp_ms": number(json.Number(headers["timestamp"]), 0)}
		for name, header := range map[string]string{"kind": "kind", "group": "JMSXGroupID"} {
			if headers[header] != "" {
				line[name] = headers[header]
			}
		}
		line["priority"] = 4
		if found, err := strconv.Atoi(headers["priority"]); err == nil {
			line["priority"] = found
		}
		say(line)
	}
}
func do(request object) {
	what, tx := text(request["do"]), map[string]string{}
	if text(request["tx"]) != "" {
		tx["transaction"] = text(request["tx"])
	}
	switch what {
	case "hello":
		offered := strings.Fields("ttl delay prefetch nack transactions groups selectors")
		reply(request, "ok", object{"agent": "stomp-go/1", "protocol": 1, "capabilities": offered}, nil)
		return
	case "counters":
		reply(request, "ok", object{}, nil)
		return
	case "quit":
		if socket != nil {
			write("DISCONNECT", map[string]string{}, "")
			forget().Close()
		}
		reply(request, "ok", object{}, nil)
		os.Exit(0)
	case "connect":
		if socket != nil {
			fail(request, "connected", "there is a connection")
		} else if at, err := url.Parse(text(request["url"])); err != nil {
			fail(request, "refused", err.Error())
		} else if found, err := net.Dial("tcp", at.Host); err != nil {
			fail(request, "refused", err.Error())
		} else {
			socket = found
			await(request, "connect", nil)
			headers := map[string]string{"accept-version": "1.2", "host": "localhost"}
			for header, field := range map[string]string{"host": "virtual_host", "login": "login", "passcode": "passcode"} {
				if text(request[field]) != "" {
					headers[header] = text(request[field])
				}
			}
			write("CONNECT", headers, "")
			go listen(found)
		}
		return
	}
	if socket == nil {
		fail(request, "not-connected", "there is no connection")
		return
	}
	switch what {
	case "begin", "commit", "abort":
		ask(request, strings.ToUpper(what), tx, "", nil)
	case "send":
		body, wall := text(request["message"])+"\n", wallMs()
		body += strings.Repeat(".", max(0, int(number(request["size"], 0))-len(body)))
		stamps := object{"expiration_ms": int64(0), "timestamp_ms": wall, "body": crc32.ChecksumIEEE([]byte(body))}
		tx["destination"], tx["content-length"] = address(request["dest"]), fmt.Sprint(len(body))
		tx["persistent"], tx["priority"] = fmt.Sprint(request["persistent"] != false), fmt.Sprint(number(request["priority"], 4))
		if ttl := number(request["ttl_ms"], 0); ttl != 0 {
			stamps["expiration_ms"] = wall + ttl
			tx["expires"] = fmt.Sprint(wall + ttl)
		}
		if stamp := text(request["stamp"]); stamp == "none" {
			stamps["timestamp_ms"] = nil
		} else if stamp == "zero" {
			stamps["timestamp_ms"] = 0
		}
		if stamps["timestamp_ms"] != nil {
			tx["timestamp"] = fmt.Sprint(stamps["timestamp_ms"])
		}
		if delay := number(request["delay_ms"], 0); delay != 0 {
			tx["AMQ_SCHEDULED_DELAY"] = fmt.Sprint(delay)
		}
		for header, field := range map[string]string{"kind": "kind", "JMSXGroupID": "group"} {
			if text(request[field]) != "" {
				tx[header] = text(request[field])
			}
		}
		ask(request, "SEND", tx, body, stamps)
	case "subscribe":
		ack := map[string]string{"auto": "auto", "individual": "client-individual"}[text(request["ack"])]
		if ack == "" {
			ack = "client"
		}
		headers := map[string]string{"id": text(request["consumer"]), "destination": address(request["dest"]), "ack": ack}
		if request["prefetch"] != nil {
			headers["activemq.prefetchSize"] = fmt.Sprint(request["prefetch"])
		}
		if request["dispatch"] == "sync" {
			headers["activemq.dispatchAsync"] = "false"
		}
		if text(request["selector"]) != "" {
			headers["selector"] = text(request["selector"])
		}
		ask(request, "SUBSCRIBE", headers, "", nil)
	case "ack", "nack":
		messages, _ := request["messages"].([]any)
		ids := []string{}
		for _, message := range messages {
			if id := held[text(request["consumer"])+" "+text(message)]; id != "" {
				ids = append(ids, id)
			}
		}
		if len(ids) == 0 || len(ids) < len(messages) {
			fail(request, "unknown-message", fmt.Sprint("not all of ", messages, " came to ", request["consumer"]))
			return
		}
		if what == "ack" && request["mode"] != "individual" {
			ids = ids[len(ids)-1:]
		}
		for at, id := range ids {
			tx["id"] = id
			if at+1 < len(ids) {
				write(strings.ToUpper(what), tx, "")
			} else {
				ask(request, strings.ToUpper(what), tx, "", nil)
			}
		}
	case "leave":
		if consumer := text(request["consumer"]); consumer != "" {
			write("UNSUBSCRIBE", map[string]string{"id": consumer}, "")
		} else {
			if request["how"] == "close" {
				write("DISCONNECT", map[string]string{}, "")
			} else {
				socket.(*net.TCPConn).SetLinger(0) // the socket vanishes
			}
			forget().Close()
		}
		reply(request, "ok", object{}, nil)
	}
}

func main() {
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		request := object{}
		numbers := json.NewDecoder(bytes.NewReader(line))
		numbers.UseNumber()
		numbers.Decode(&request)
		request["t0"] = now()
		fields, there := known[text(request["do"])]
		strange := ""
		for name, value := range request {
			said := value != nil && value != false && value != "" && fmt.Sprint(value) != "0" && fmt.Sprint(value) != "[]" && fmt.Sprint(value) != "map[]"
			if said && !strings.Contains(" id do t0 deadline_ms "+fields+" ", " "+name+" ") {
				strange += " " + name
			}
		}
		lock.Lock()
		if !there {
			fail(request, "unsupported", "this agent cannot "+text(request["do"]))
		} else if strange != "" {
			fail(request, "unsupported", "this agent knows no"+strange)
		} else {
			do(request)
		}
		lock.Unlock()
	}
}
