// Command resolver is the DNS server of a test network: it knows no name, and
// writes each question to a file, so that a test can see which names a cluster
// asked for.
//
//	resolver ADDRESS FILE
//
// A line of FILE is the asker's address, the type as a number, and the name.
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: resolver ADDRESS FILE")
		os.Exit(2)
	}
	if err := serve(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "resolver:", err)
		os.Exit(1)
	}
}

func serve(addr, file string) error {
	log, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	c, err := net.ListenPacket("udp", addr)
	if err != nil {
		return errors.Join(err, log.Close())
	}
	b := make([]byte, 4096)
	for {
		n, from, err := c.ReadFrom(b)
		if err != nil {
			return errors.Join(err, log.Close())
		}
		name, kind, end := question(b[:n])
		if end == 0 {
			continue
		}
		host, _, _ := strings.Cut(from.String(), ":")
		if _, err := fmt.Fprintf(log, "%s %d %s\n", host, kind, name); err != nil {
			return err
		}
		if _, err := c.WriteTo(refusal(b[:end]), from); err != nil {
			return err
		}
	}
}

// question reads the first question of a query (RFC 1035, section 4.1). end is
// the length of the message up to there; 0 means that the message is no query.
func question(b []byte) (name string, kind uint16, end int) {
	const header = 12
	if len(b) < header || b[2]&0x80 != 0 || binary.BigEndian.Uint16(b[4:]) == 0 {
		return "", 0, 0
	}
	var labels []string
	at := header
	for at < len(b) && b[at] != 0 {
		next := at + 1 + int(b[at])
		if b[at] > 63 || next >= len(b) {
			return "", 0, 0
		}
		labels = append(labels, string(b[at+1:next]))
		at = next
	}
	if at+5 > len(b) {
		return "", 0, 0
	}
	return strings.Join(labels, ".") + ".", binary.BigEndian.Uint16(b[at+1:]), at + 5
}

// refusal is the answer "no such name" to the question that b ends with.
func refusal(b []byte) []byte {
	const nameError = 3
	a := append([]byte(nil), b...)
	a[2] |= 0x80
	a[3] = 0x80 | nameError
	copy(a[4:12], []byte{0, 1, 0, 0, 0, 0, 0, 0})
	return a
}
